/** What can be done to a queue, and to all of its messages at once. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Intervention } from '../parts/intervention.js';
import { caller } from '../state/session.js';
import { quantity } from '../words/quantity.js';

interface OfQueue {
  readonly queue: Schemas['Queue'];
}

const NAME = '[A-Za-z0-9._~\\-]+';

const claimedStay = ({ claimed }: Schemas['Queue']): string =>
  claimed === 0 ? '' : `${quantity(claimed, 'claimed message')} stay with whoever has claimed them. `;

export function Pause({ queue }: OfQueue): JSX.Element {
  const { namespace } = caller();
  const { name, paused } = queue;
  const [act, confirm] = paused ? ['resume', 'Resume'] : ['pause', 'Pause'];
  return (
    <Intervention
      id={`${act} ${namespace} ${name}`}
      button={`${confirm}…`}
      title={`${confirm} ${name}`}
      confirm={confirm}
      consequence={() => (
        <p>
          Messages of <code>{name}</code> in namespace <code>{namespace}</code> are{' '}
          <strong>{paused ? 'handed out again' : 'no longer handed out'}</strong>
          {paused ? '.' : '; pushes are taken, and what is claimed can be acknowledged.'}
        </p>
      )}
      act={async () => {
        await requestJson(caller(), { method: 'POST', path: ['queues', name, act] });
        return `Queue ${name} is ${act}d.`;
      }}
    />
  );
}

export function Redrive({ queue }: OfQueue): JSX.Element {
  const { namespace } = caller();
  return (
    <Intervention
      id={`redrive ${namespace} ${queue.name}`}
      button="Redrive…"
      title={`Redrive ${queue.name}`}
      confirm="Redrive"
      fields={[{ name: 'to', label: 'To the queue', type: 'text', required: true, pattern: NAME, maxLength: 200 }]}
      consequence={({ to = '' }) => (
        <p>
          <strong>{quantity(queue.depth, 'message')}</strong> of <code>{queue.name}</code> go to the end of{' '}
          {to === '' ? 'the other queue' : <code>{to}</code>} in namespace <code>{namespace}</code>, in their order, and
          are delivered again. {claimedStay(queue)}The queue must exist.
        </p>
      )}
      act={async ({ to }) => {
        const path = ['queues', queue.name, 'redrive'];
        const done = await requestJson<Schemas['RedrivenQueue']>(caller(), { method: 'POST', path, body: { to } });
        const rest = done.complete ? '' : ' There are more: repeat it.';
        return `${quantity(done.redriven, 'message')} moved from ${queue.name} to ${to}.${rest}`;
      }}
    />
  );
}

export function Purge({ queue }: OfQueue): JSX.Element {
  const { namespace } = caller();
  return (
    <Intervention
      id={`purge ${namespace} ${queue.name}`}
      button="Purge…"
      title={`Purge ${queue.name}`}
      confirm="Purge"
      consequence={() => (
        <p>
          <strong>{quantity(queue.depth, 'message')}</strong> of <code>{queue.name}</code> in namespace{' '}
          <code>{namespace}</code> are removed for good, delayed ones too. {claimedStay(queue)}The queue itself stays.
        </p>
      )}
      act={async () => {
        const path = ['queues', queue.name, 'purge'];
        const done = await requestJson<Schemas['PurgedQueue']>(caller(), { method: 'POST', path });
        const rest = done.complete ? '' : ' There are more: repeat it.';
        return `${quantity(done.purged, 'message')} removed from ${queue.name}.${rest}`;
      }}
    />
  );
}

export function DeleteQueue({ queue }: OfQueue): JSX.Element {
  const { namespace } = caller();
  return (
    <Intervention
      id={`delete queue ${namespace} ${queue.name}`}
      button="Delete…"
      title={`Delete ${queue.name}`}
      confirm="Delete queue"
      fields={[{ name: 'force', label: 'Even if it has messages', type: 'checkbox' }]}
      consequence={({ force = '' }) => (
        <p>
          The queue <code>{queue.name}</code> in namespace <code>{namespace}</code> and its settings are gone;{' '}
          {force === 'true' ? (
            <strong>its {quantity(queue.depth + queue.claimed, 'message')} too, claimed ones included.</strong>
          ) : (
            'it is refused if there are messages in it.'
          )}
        </p>
      )}
      act={async ({ force }) => {
        const query = { force: force === 'true' ? true : undefined };
        await requestJson(caller(), { method: 'DELETE', path: ['queues', queue.name], query });
        return `Queue ${queue.name} is deleted.`;
      }}
    />
  );
}
