/** What is run or asked when something has happened. Each ends within its time, well or not. */
import { spawn } from 'node:child_process';
import { environment } from '../environment.js';
import { UsageError } from '../exit.js';
import { visible } from '../output.js';
import { signalGroup } from '../process/group.js';
import { ask } from './ask.js';

export type Hook =
  { readonly kind: 'post'; readonly url: URL } | { readonly kind: 'exec'; readonly argv: readonly string[] };

/** What has happened. A hook that posts sends it as JSON; one that executes has `POSTERN_HOLD_ID` for `holdId`. */
export interface HookEvent {
  readonly event: 'elected' | 'lost' | 'rendered';
  readonly election?: string;
  readonly fencingToken?: number;
  readonly holdId?: string;
  /** Why the lead is over. */
  readonly reason?: string;
  readonly key?: string;
  readonly file?: string;
}

export interface Run {
  readonly timeoutMs: number;
  /** Stops it. */
  readonly signal: AbortSignal;
}

const STDERR = 2;
/** Of a text that others have chosen, in a variable. */
const VARIABLE_MAX = 1_024;

/** @throws UsageError that names the flag */
export function readHook(flag: string, given: string): Hook {
  const [, kind, what = ''] = /^(POST|exec)=(.+)$/.exec(given) ?? [];
  if (kind === 'POST' && URL.canParse(what) && new URL(what).protocol === 'http:')
    return { kind: 'post', url: new URL(what) };
  const argv = what.split(' ').filter((word) => word !== '');
  if (kind === 'exec' && argv.length > 0) return { kind: 'exec', argv };
  throw new UsageError(
    `${flag} is "${given}"; it must look like POST=http://127.0.0.1:8080/lead or exec=/hooks/lead --now`,
  );
}

/** @throws Error that says why it has failed */
export async function runHook(hook: Hook, event: HookEvent, run: Run): Promise<void> {
  if (hook.kind === 'exec') return execute(hook.argv, event, run);
  const status = await ask({ url: hook.url, method: 'POST', body: JSON.stringify(event), ...run });
  if (status < 200 || status > 299) throw new Error(`${hook.url.href} answered ${status}`);
}

/** All that it has started goes with it when its time is over. It does not get the API key. */
function execute(argv: readonly string[], event: HookEvent, { timeoutMs, signal }: Run): Promise<void> {
  const [program = '', ...rest] = argv;
  return new Promise((resolve, reject) => {
    const env = { ...environment, POSTERN_API_KEY: undefined, ...variablesOf(event) };
    const child = spawn(program, rest, { env, stdio: ['ignore', STDERR, STDERR], detached: true });
    let stopped: string | undefined;
    const stop = (why: string): void => {
      stopped ??= why;
      if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
    };
    const abort = (): void => stop('it is not asked for any more');
    const timer = setTimeout(() => stop(`it has run for ${timeoutMs} ms`), timeoutMs);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    const settle = (failure: string | undefined): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      if (failure === undefined) resolve();
      else reject(new Error(`${program}: ${failure}`));
    };
    child.once('error', (error) => settle(error.message));
    child.once('exit', (code, ended) =>
      settle(stopped ?? (code === 0 ? undefined : ended === null ? `exit code ${code}` : `ended by ${ended}`)),
    );
  });
}

/** A reason may have been given by anybody: a NUL ends a variable, and a line end confuses who reads lines. */
function variablesOf(event: HookEvent): Record<string, string> {
  const { reason } = event;
  const safe = { ...event, ...(reason !== undefined && { reason: visible(reason).slice(0, VARIABLE_MAX) }) };
  return Object.fromEntries(
    Object.entries(safe).map(([name, value]) => [
      `POSTERN_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`,
      String(value),
    ]),
  );
}
