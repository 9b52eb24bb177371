/** A key of the configuration in a file: now, and again after every change. */
import { PosternError, type ConfigValue, type Postern } from '../../client/index.js';
import type { Output } from '../output.js';
import { bytesOf } from '../plain/config.js';
import { replaceFile } from './files.js';
import { runHook } from './hook.js';
import { persist } from '../persist.js';
import type { Rendering, Settings } from './settings.js';

/** At most so long before a value that cannot be read, or written, is tried again, in milliseconds. */
const AGAIN_MS = 10_000;
const MALFORMED = 'its type says that it is JSON, and it is not';

export interface RenderOptions {
  readonly postern: Postern;
  readonly settings: Settings;
  readonly over: AbortSignal;
  readonly output: Output;
  /** Called when there is a value in the file. */
  readonly rendered: () => void;
}

/** Until `over` aborts. A key that is deleted leaves its file as it is. @throws PosternError if it may not be read */
export async function render({ key, path }: Rendering, options: RenderOptions): Promise<void> {
  const { postern, over, output } = options;
  const watching = { what: `watching the key "${key}"`, over, output, againMs: AGAIN_MS };
  await persist(watching, async () => {
    for await (const value of postern.config.watch(key, { signal: over })) {
      if (value === undefined)
        output.tell('no-key', `there is no key "${key}": ${path} stays as it is`, { key, file: path });
      else if (isMalformed(value)) throw new PosternError(MALFORMED, { code: 'malformed', retryable: true });
      else await write({ key, path }, bytesOf(value), options);
    }
  });
}

/** The client gives what cannot be read as what its type says as it is. */
function isMalformed({ contentType, value }: ConfigValue): boolean {
  return contentType.startsWith('application/json') && Buffer.isBuffer(value);
}

/** A file that was not there has no reader yet: only a change is told. @throws PosternError if it cannot be written */
async function write(
  { key, path }: Rendering,
  content: Uint8Array,
  { settings, over, output, rendered }: RenderOptions,
): Promise<void> {
  const facts = { key, file: path };
  const { hooks, hookTimeoutMs: timeoutMs } = settings;
  try {
    const was = replaceFile(path, content, settings.renderMode);
    rendered();
    if (was === 'the same') return;
    output.tell('rendered', `${path} has a new value of "${key}"`, facts);
    if (was === 'missing' || hooks.rendered === undefined) return;
  } catch (error) {
    const sentence = `${path} cannot be written: ${(error as Error).message}`;
    throw new PosternError(sentence, { code: 'not-written', retryable: true, cause: error });
  }
  try {
    await runHook(hooks.rendered, { event: 'rendered', ...facts }, { timeoutMs, signal: over });
  } catch (error) {
    output.tell('hook-failed', `rendered: ${(error as Error).message}`, facts);
  }
}
