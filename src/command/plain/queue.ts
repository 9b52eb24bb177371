/** `postern queue push`, `peek`, `rm`, `pause`, `resume`, `redrive`. */
import { PosternError, type Postern, type PushOptions } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type * as descriptions from '../commands/queue.js';
import { EXIT, Failure, UsageError } from '../exit.js';
import { jsonText, table } from '../output.js';
import { bodyOf } from './body.js';
import { readInput, withClient } from './client.js';

const SHOWN_BYTES = 60;

export async function push(given: GivenFor<typeof descriptions.push>): Promise<number> {
  const [name = '', body] = given.arguments;
  checkName('NAME', name);
  const { lines, 'message-id': messageId } = given.values;
  if (lines && (body !== undefined || messageId !== undefined))
    throw new UsageError('--lines reads standard input, and goes with neither BODY nor --message-id');
  const options = optionsOf(given);
  const texts = lines ? linesOf(readInput().toString()) : [body ?? readInput().toString()];
  const messages = texts.map((text) => ({ body: bodyOf(text, given.values.as), ...options }));
  if (messages.length === 0) return EXIT.ok;
  const pushed = await withClient(given, (postern) => postern.queue(name).pushAll(messages));
  for (const each of pushed) given.output.result(each, () => each.id);
  return EXIT.ok;
}

function optionsOf({ values }: GivenFor<typeof descriptions.push>): PushOptions {
  const { delay, 'expires-in': expiresInMs, priority, group, 'message-id': messageId, attribute } = values;
  const pairs = attribute.map((pair) => {
    const [key = '', ...rest] = pair.split('=');
    if (key === '' || rest.length === 0) throw new UsageError(`--attribute is "${pair}"; it must look like KEY=VALUE`);
    return [key, rest.join('=')];
  });
  return {
    ...(delay !== undefined && { delayMs: delay }),
    ...(expiresInMs !== undefined && { expiresInMs }),
    ...(priority !== undefined && { priority }),
    ...(group !== undefined && { group }),
    ...(messageId !== undefined && { messageId }),
    ...(pairs.length > 0 && { attributes: Object.fromEntries(pairs) as Record<string, string> }),
  };
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}

export async function peek(given: GivenFor<typeof descriptions.peek>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const query = { limit: given.values.limit };
  const { body } = await withClient(given, (postern) =>
    postern.request('GET /v1/queues/{name}/messages', { path: { name }, query }),
  );
  given.output.result(body.items, () =>
    table(
      ['ID', 'STATE', 'DELIVERIES', 'BODY'],
      body.items.map((message) => {
        const text = message.bodyBase64 ?? jsonText(message.body);
        return [message.id, message.state, String(message.deliveries), text.slice(0, SHOWN_BYTES)];
      }),
    ),
  );
  return EXIT.ok;
}

export async function rm(given: GivenFor<typeof descriptions.rm>): Promise<number> {
  const [name = '', id = ''] = given.arguments;
  checkName('NAME', name);
  await withClient(given, async (postern) => {
    for (let from: string | undefined; ;) {
      from = await removeFrom(postern, { name, id }, from);
      if (from === undefined) return;
    }
  });
  given.output.result({ removed: id }, () => `${id} was removed`);
  return EXIT.ok;
}

/** @returns where to go on when it was not found yet; undefined: it is removed */
async function removeFrom(
  postern: Postern,
  path: { name: string; id: string },
  from: string | undefined,
): Promise<string | undefined> {
  try {
    const query = from === undefined ? {} : { pageToken: from };
    await postern.request('DELETE /v1/queues/{name}/messages/{id}', { path, query });
    return undefined;
  } catch (error) {
    const next = error instanceof PosternError ? error.problem?.['nextPageToken'] : undefined;
    if (typeof next !== 'string') throw error;
    return next;
  }
}

export async function pause(given: GivenFor<typeof descriptions.pause>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  await withClient(given, (postern) => postern.request('POST /v1/queues/{name}/pause', { path: { name } }));
  given.output.result({ paused: true }, () => 'paused');
  return EXIT.ok;
}

export async function resume(given: GivenFor<typeof descriptions.resume>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  await withClient(given, (postern) => postern.request('POST /v1/queues/{name}/resume', { path: { name } }));
  given.output.result({ paused: false }, () => 'resumed');
  return EXIT.ok;
}

export async function redrive(given: GivenFor<typeof descriptions.redrive>): Promise<number> {
  const [name = '', to = ''] = given.arguments;
  checkName('NAME', name);
  checkName('TO', to);
  const parts = { path: { name }, body: { to } };
  const moved = await withClient(given, async (postern) => {
    for (let total = 0; ;) {
      const { body } = await postern.request('POST /v1/queues/{name}/redrive', parts);
      total += body.redriven;
      if (body.complete) return total;
      if (body.redriven === 0) throw new Failure(EXIT.refused, `${total} messages were moved, and others remain`);
    }
  });
  given.output.result({ redriven: moved }, () => `${moved} messages were moved`);
  return EXIT.ok;
}
