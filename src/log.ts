/**
 * The log: JSON lines on standard output, written asynchronously, off the path of the request.
 *
 * | level | for | on a healthy day |
 * | --- | --- | --- |
 * | error | a fault of the gateway, or a setting that can no longer be honoured: somebody should look | none |
 * | warn | ZooKeeper or a client misbehaves and the gateway copes | few |
 * | info | start, stop, changes of state; one line per request; administrative acts (unless `silent`) | many |
 * | debug | probes and scrapes, steps of a recipe | off |
 */
import { destination, pino, symbols, type DestinationStream, type Logger } from 'pino';
import type { Config } from './config.js';

export type { Logger };

/**
 * How far the reader of the log may fall behind. Further lines are dropped, so that the log cannot fill the memory. Not
 * a setting: this is some 40 000 requests, and a reader further behind has stopped.
 */
const BEHIND_BYTES_MAX = 16 * 1024 * 1024;
/** Lines are buffered up to this size, or until {@link FLUSH_MS} have passed. */
const GATHERED_BYTES = 3072;
/** A write of at most this size to a pipe is atomic, so that lines of several workers do not mix (POSIX, PIPE_BUF). */
const WRITTEN_AT_ONCE_BYTES = 4096;
const FLUSH_MS = 200;
/** So long a process that ends waits for the reader of its log. */
const LAST_FLUSH_MS = 1_000;

/** A destination with `contentMode: 'buffer'`, which the library's types do not cover. */
interface Bytes {
  write(bytes: Uint8Array): boolean;
}

export interface Log {
  readonly logger: Logger;
  /**
   * Writes what is still buffered; call it before the process exits. What cannot be written is given up.
   * @returns false if a write still waits for the reader, so that `process.exit` would wait for it as well
   */
  flush(): Promise<boolean>;
}

let [lastMs, lastText] = [0, ''];

/** ISO 8601, formatted once per millisecond: many requests end in the same one. */
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
  if (stream !== undefined) return { logger: pino(options, stream), flush: () => Promise.resolve(true) };
  const output = destination({
    dest: 1,
    sync: false,
    minLength: GATHERED_BYTES,
    maxWrite: WRITTEN_AT_ONCE_BYTES,
    maxLength: BEHIND_BYTES_MAX,
    periodicFlush: FLUSH_MS,
    contentMode: 'buffer',
  });
  // Standard output may be full, or closed: the gateway serves all the same, and the next line tries again.
  output.on('error', () => undefined);
  let left = 0;
  output.on('write', (bytes) => (left -= bytes));
  output.on('drop', ({ length }) => (left -= length));
  // Bytes, because their length is known: for a string, the destination would recount its whole buffer at every line.
  const write = (line: string): void => {
    const bytes = Buffer.from(line);
    left += bytes.length;
    (output as unknown as Bytes).write(bytes);
  };
  return { logger: pino(options, { write }), flush: () => flushed(output, () => left) };
}

/**
 * For what is logged at every request: the logger's own way, member by member, takes twice as long.
 * @param members as JSON, without the braces; level and time come before them, the message after them
 */
export type LogMembers = (level: 'info' | 'debug', members: string, message: string) => void;

/** Writes where this logger does, at the levels that it does now. */
export function membersLog(logger: Logger): LogMembers {
  const { [symbols.streamSym]: stream } = logger as Logger & { [symbols.streamSym]: DestinationStream };
  const isEnabled = { info: logger.isLevelEnabled('info'), debug: logger.isLevelEnabled('debug') };
  return (level, members, message) => {
    if (isEnabled[level]) stream.write(`{"level":"${level}"${timestamp()},${members},"msg":"${message}"}\n`);
  };
}

/** @param left how many bytes are not written yet */
async function flushed(output: ReturnType<typeof destination>, left: () => number): Promise<boolean> {
  // At the exit, the destination would write what is left once more, and repeat for ever what fails.
  output.flushSync = () => undefined;
  const until = performance.now() + LAST_FLUSH_MS;
  let hasFailed = false;
  output.once('error', () => (hasFailed = true));
  // Each time, some lines may stay behind a write that was under way.
  while (left() > 0 && !hasFailed) if (!(await flushedOnce(output, until))) return false;
  return true;
}

function flushedOnce(output: ReturnType<typeof destination>, until: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), until - performance.now());
    output.flush(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
