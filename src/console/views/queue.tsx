/** One queue looked at closely: its counts, its next messages, and what can be done to all of them. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Age } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { ThingLink } from '../parts/link.js';
import { Empty, Failed, Loading } from '../parts/states.js';
import { ToldPanel } from '../parts/told-panel.js';
import { Value } from '../parts/value.js';
import { useFetched } from '../state/fetched.js';
import { caller } from '../state/session.js';
import { duration } from '../words/age.js';
import { number, quantity } from '../words/quantity.js';
import { bounded } from '../words/value.js';
import { DeleteQueue, Pause, Purge, Redrive } from './queue-actions.js';

const EVERY_MS = 3_000;
const PEEKED = 20;
/** Of one message. */
const BODY_SHOWN_MAX = 2_000;

export function QueuePanel({ name }: { name: string }): JSX.Element {
  return (
    <ToldPanel
      kind="queue"
      name={name}
      absent="There is no such queue."
      show={(queue) => <QueueBody queue={queue} />}
    />
  );
}

function QueueBody({ queue }: { queue: Schemas['Queue'] }): JSX.Element {
  const { config } = queue;
  return (
    <>
      <Facts
        facts={[
          ['Depth', number(queue.depth)],
          ['Claimed', number(queue.claimed)],
          ['Delayed', number(queue.delayed)],
          ['Oldest', <Age since={queue.oldestEnqueuedAt} />],
          ['Consumers waiting', number(queue.consumersWaiting)],
          queue.paused && ['Handed out', <strong>nothing: it is paused</strong>],
          ['Order', config.order],
          config.maxDepth !== undefined && ['Deepest', number(config.maxDepth)],
          config.maxDeliveries !== undefined && ['Deliveries at most', number(config.maxDeliveries)],
          config.deadLetterQueue !== undefined && [
            'Dead letters to',
            <ThingLink kind="queue" name={config.deadLetterQueue} />,
          ],
          config.messageTtlMs !== undefined && ['Messages expire after', duration(config.messageTtlMs)],
          config.deadLetterExpired === true && ['Expired ones', 'go to the dead letters'],
          config.maxClaimMs !== undefined && ['Longest claim', duration(config.maxClaimMs)],
        ]}
      />
      <Peek name={queue.name} isByPriority={config.order === 'priority'} />
      <div class="interventions">
        <Pause queue={queue} />
        <Redrive queue={queue} />
        <Purge queue={queue} />
        <DeleteQueue queue={queue} />
      </div>
    </>
  );
}

function Peek({ name, isByPriority }: { name: string; isByPriority: boolean }): JSX.Element {
  const { namespace } = caller();
  const { value, error } = useFetched<Schemas['PeekedMessageList']>(
    `${namespace} ${name}`,
    (signal) => requestJson(caller(), { path: ['queues', name, 'messages'], query: { limit: PEEKED }, signal }),
    EVERY_MS,
  );
  if (error !== undefined) return <Failed error={error} what="the messages" />;
  if (value === undefined) return <Loading what="the messages" />;
  const { items, nextPageToken } = value;
  if (items.length === 0) return <Empty>It is empty.</Empty>;
  return (
    <>
      <h3>{nextPageToken === undefined ? 'Messages' : `The next ${quantity(items.length, 'message')}`}</h3>
      <ol class="messages">
        {items.map((message) => (
          <li key={message.id} class="card">
            <p class="message-head">
              <span class={`tag tag-${message.state}`}>{message.state}</span>
              <span>
                <Age since={message.enqueuedAt} /> old
              </span>
              {message.group === undefined ? null : <span>group {message.group}</span>}
              {isByPriority ? <span>priority {message.priority}</span> : null}
              {message.deliveries === 0 ? null : <span>{quantity(message.deliveries, 'delivery', 'deliveries')}</span>}
              {message.deadLetter === undefined ? null : <span>dead letter of {message.deadLetter.queue}</span>}
            </p>
            <Value value={bodyOf(message)} label={`Body of message ${message.id}`} />
          </li>
        ))}
      </ol>
    </>
  );
}

function bodyOf({ body, bodyBase64, contentType }: Schemas['PeekedMessage']): string {
  if (bodyBase64 !== undefined) return `${contentType ?? 'bytes'} in base64: ${bounded(bodyBase64, BODY_SHOWN_MAX)}`;
  return bounded(typeof body === 'string' ? body : JSON.stringify(body), BODY_SHOWN_MAX);
}
