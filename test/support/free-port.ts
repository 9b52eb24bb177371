/** Ports for processes that are stopped and started again. */
import { randomInt } from 'node:crypto';
import { env } from 'node:process';
import { assertPortFree, PortTakenError } from '../../scripts/lib/zookeeper.mjs';

/**
 * Below the range from which the kernel takes ports for outgoing connections: one of those may be in use again by the
 * time it is listened on, or when a process that was killed is started again.
 */
const PORTS = { from: 20_000, to: 32_500 };
/**
 * Each worker of the runner has a part of them for its own: what one process leaves while it is restarted, another test
 * file must not take. The servers that all files share have the first part.
 */
const PARTS = 5;
const SIZE = (PORTS.to - PORTS.from) / PARTS;
const FROM = PORTS.from + (Number(env['VITEST_POOL_ID'] ?? 0) % PARTS) * SIZE;

/** Those given out last: they may not be listened on yet. */
const given: number[] = [];
const GIVEN_KEPT = 200;

/** @returns one that nobody listens on, and that was not given out lately */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FROM, FROM + SIZE);
    if (given.includes(port)) continue;
    given.push(port);
    if (given.length > GIVEN_KEPT) given.shift();
    try {
      await assertPortFree(port);
      return port;
    } catch (error) {
      if (!(error instanceof PortTakenError)) throw error;
    }
  }
}
