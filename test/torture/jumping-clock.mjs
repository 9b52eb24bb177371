/** Loaded before a replica: shifts what `Date` says is now by what a file says. Monotonic time goes on as ever. */
import { readFileSync } from 'node:fs';
import { env } from 'node:process';

const LOOK_EVERY_MS = 100;
const file = env['TORTURE_CLOCK_FILE'] ?? '';
const RealDate = Date;
let offset = 0;

function look() {
  try {
    offset = Number(readFileSync(file, 'utf8')) || 0;
  } catch {
    offset = 0; // nobody has written it yet
  }
}

const now = () => RealDate.now() + offset;

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, newTarget) =>
    /** @type {Date} */ (Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget)),
  get: (target, key) => (key === 'now' ? now : Reflect.get(target, key)),
});

look();
setInterval(look, LOOK_EVERY_MS).unref();
