/** Queues and messages in the words of the contract. */
import { InvalidError, PosternError } from '../../errors.js';
import type { ConsumeRequest } from '../../recipes/queue/claim/consume.js';
import type { Delivered } from '../../recipes/queue/claim/demand.js';
import type { DeadLetterNote, StoredMessage } from '../../recipes/queue/message.js';
import type { PeekCursor, PeekedMessage } from '../../recipes/queue/admin/peek.js';
import type { QueueView } from '../../recipes/queue/admin/view.js';
import type { Pushed } from '../../recipes/queue/push/push.js';
import type { RestoredMessage } from '../../recipes/queue/push/restore.js';
import { instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange } from '../frame/exchange.js';
import { checkEnded } from './shared/long-poll.js';

type Schemas = components['schemas'];

export function showQueue(view: QueueView): Schemas['Queue'] {
  const { oldestEnqueuedAt, ...rest } = view;
  return { ...rest, oldestEnqueuedAt: oldestEnqueuedAt === undefined ? null : instant(oldestEnqueuedAt) };
}

export function showMessage({ message, priority, enqueuedAt, expiresAt, deliveries }: Delivered): Schemas['Message'] {
  return { ...show(message), priority, enqueuedAt: instant(enqueuedAt), ...showExpiry(expiresAt), deliveries };
}

export function showClaimed(item: Delivered): Schemas['ClaimedMessages']['items'][number] {
  const { claimId = '', claimedUntil } = item;
  return {
    ...showMessage(item),
    claimId,
    ...(claimedUntil === undefined ? {} : { claimedUntil: instant(claimedUntil) }),
  };
}

export function showPeeked(item: PeekedMessage): Schemas['PeekedMessageList']['items'][number] {
  const { message, priority, enqueuedAt, expiresAt, deliveries, state, claimedBy, claimedUntil, dueAt } = item;
  return {
    ...show(message),
    priority,
    enqueuedAt: instant(enqueuedAt),
    ...showExpiry(expiresAt),
    deliveries,
    state,
    ...(claimedBy === undefined ? {} : { claimedBy }),
    ...(claimedUntil === undefined ? {} : { claimedUntil: instant(claimedUntil) }),
    ...(dueAt === undefined ? {} : { dueAt: instant(dueAt) }),
  };
}

function showExpiry(expiresAt: number | undefined): Pick<Schemas['Message'], 'expiresAt'> {
  return expiresAt === undefined ? {} : { expiresAt: instant(expiresAt) };
}

function show({
  header,
  body,
}: StoredMessage): Pick<
  Schemas['Message'],
  'id' | 'body' | 'bodyBase64' | 'contentType' | 'group' | 'attributes' | 'deadLetter'
> {
  const { i: id, t: contentType, g: group, a: attributes = {}, x: note } = header;
  return {
    id,
    ...(contentType === undefined
      ? { body: JSON.parse(body.toString('utf8')) as unknown }
      : { bodyBase64: body.toString('base64'), contentType }),
    ...(group === undefined ? {} : { group }),
    attributes,
    ...(note === undefined ? {} : { deadLetter: showNote(note) }),
  };
}

function showNote({ queue, cause, reason, priority, deliveries, enqueuedAt }: DeadLetterNote): Schemas['DeadLetter'] {
  return {
    queue,
    ...(cause === undefined ? {} : { cause }),
    ...(reason === undefined ? {} : { reason }),
    ...(priority === undefined ? {} : { priority }),
    ...(deliveries === undefined ? {} : { deliveries }),
    ...(enqueuedAt === undefined ? {} : { enqueuedAt: instant(enqueuedAt) }),
  };
}

export function showPushed({ id, duplicate }: Pushed): Schemas['PushedMessage'] {
  return { id, status: duplicate ? 200 : 201 };
}

/** The reverse of what a peek shows. @throws InvalidError unless there is one body, and of bytes their type */
export function restoredOf(
  { id, body, bodyBase64, contentType, priority, group, attributes, ...rest }: Schemas['RestoredMessage'],
  index: number,
): RestoredMessage {
  if ((body === undefined) === (bodyBase64 === undefined))
    throw new InvalidError(`messages[${index}].body`, body, 'given, or bodyBase64 in its place');
  if ((bodyBase64 === undefined) !== (contentType === undefined))
    throw new InvalidError(`messages[${index}].contentType`, contentType, 'given with bodyBase64, and only then');
  return {
    id,
    body: bodyBase64 === undefined ? Buffer.from(JSON.stringify(body)) : Buffer.from(bodyBase64, 'base64'),
    contentType,
    priority,
    group,
    attributes,
    enqueuedAt: epochOf(rest.enqueuedAt),
    dueAt: epochOf(rest.dueAt),
    expiresAt: epochOf(rest.expiresAt),
    deliveries: rest.deliveries,
    deadLetter: rest.deadLetter && noteOf(rest.deadLetter),
  };
}

function noteOf({ queue, cause, reason, priority, deliveries, enqueuedAt }: Schemas['DeadLetter']): DeadLetterNote {
  return { queue, cause, reason, priority, deliveries, enqueuedAt: epochOf(enqueuedAt) };
}

function epochOf(instant: string | undefined): number | undefined {
  return instant === undefined ? undefined : Date.parse(instant);
}

/** @throws PosternError `too-large` */
export function checkBody(field: string, { length: bytes }: Buffer, maxBytes: number): void {
  if (bytes <= maxBytes) return;
  throw new PosternError(
    'too-large',
    `${field} has ${bytes} bytes; a message has at most ${maxBytes}. Nothing was pushed.`,
    { members: { maxBytes, bytes } },
  );
}

export function pageTokenOfCursor(cursor: PeekCursor): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}

/** @throws InvalidError */
export function cursorOf(pageToken: string): PeekCursor {
  try {
    const cursor = JSON.parse(Buffer.from(pageToken, 'base64url').toString('utf8')) as PeekCursor;
    const known =
      'delayed' in cursor
        ? /^\d{1,12}\/\d{1,12}\/[\d-]{13,30}$/.test(cursor.delayed)
        : [cursor.priority, cursor.segment, cursor.sequence].every((part) => Number.isSafeInteger(part));
    if (known && pageTokenOfCursor(cursor) === pageToken) return cursor;
  } catch {
    // Reported below.
  }
  throw new InvalidError('pageToken', pageToken, 'one that this list answered', { in: 'query' });
}

/** How much a request for messages wants, and for how long it waits. */
export function demandOf(exchange: Exchange): Omit<ConsumeRequest, 'namespace' | 'name' | 'claim'> {
  const { max = 1, waitMs = 0 } = exchange.body as { max?: number; waitMs?: number };
  return {
    max,
    waitMs,
    receivedAt: exchange.receivedAt,
    hardDeadline: exchange.deadline + waitMs,
    caller: exchange.requester,
    reserve: (bytes) => exchange.reserveAnswer(bytes),
  };
}

/** There were no messages, until the wait was over. */
export function nothingFound(exchange: Exchange): Answer {
  checkEnded(exchange);
  return { status: 204 };
}
