/**
 * The log: JSON lines on standard output, written behind the back of the request that caused them.
 *
 * | level | for | on a healthy day |
 * | --- | --- | --- |
 * | error | a fault of the gateway, or a setting that can no longer be honoured: somebody should look | none |
 * | warn | ZooKeeper or a client misbehaves and the gateway copes | few |
 * | info | start, stop, changes of state; one line per request; what administrators do (at any level but `silent`) | many |
 * | debug | probes and scrapes, steps of a recipe | off |
 */
import { destination, pino, type DestinationStream, type Logger } from 'pino';
import type { Config } from './config.js';

export type { Logger };

/** Whoever reads the log may be this far behind; what comes then is dropped, and the memory of the replica stays its own. */
const BEHIND_BYTES_MAX = 16 * 1024 * 1024;
/** Lines are gathered up to this size, or until the event loop is idle for {@link FLUSH_MS}. */
const GATHERED_BYTES = 3072;
/** What is written to a pipe at once stays together when several workers write to it (POSIX, PIPE_BUF). */
const WRITTEN_AT_ONCE_BYTES = 4096;
const FLUSH_MS = 200;

/** A destination of `contentMode: 'buffer'`, of which the types say nothing. */
interface Bytes {
  write(bytes: Uint8Array): boolean;
}

export interface Log {
  readonly logger: Logger;
  /** Writes what is still gathered; before the process exits. */
  flush(): void;
}

let [lastMs, lastText] = [0, ''];

/** ISO 8601, made once per millisecond: many requests end in one. */
function timestamp(): string {
  const ms = Date.now();
  if (ms !== lastMs) [lastMs, lastText] = [ms, `,"time":"${new Date(ms).toISOString()}"`];
  return lastText;
}

export function createLog({ logLevel }: Pick<Config, 'logLevel'>, stream?: DestinationStream): Log {
  const options = {
    level: logLevel,
    base: null,
    timestamp,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  if (stream !== undefined) return { logger: pino(options, stream), flush: () => undefined };
  const output = destination({
    dest: 1,
    sync: false,
    minLength: GATHERED_BYTES,
    maxWrite: WRITTEN_AT_ONCE_BYTES,
    maxLength: BEHIND_BYTES_MAX,
    periodicFlush: FLUSH_MS,
    contentMode: 'buffer',
  });
  // As bytes, whose number is known: of text it would count those of all that is gathered, for each line.
  const lines = { write: (line: string) => void (output as unknown as Bytes).write(Buffer.from(line)) };
  return { logger: pino(options, lines), flush: () => flushSync(output) };
}

function flushSync(output: ReturnType<typeof destination>): void {
  try {
    output.flushSync();
  } catch {
    // Standard output was closed or never opened: there is nobody left to tell.
  }
}
