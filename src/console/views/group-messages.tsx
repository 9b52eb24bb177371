/** The last messages to a group, the newest first. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Age } from '../parts/age.js';
import { Failed } from '../parts/states.js';
import { Value } from '../parts/value.js';
import { useFetched } from '../state/fetched.js';
import { caller } from '../state/session.js';
import { bounded } from '../words/value.js';

type Page = Schemas['GroupMessages'];

const EVERY_MS = 3_000;
const SHOWN = 20;
/** Of one message. */
const BODY_SHOWN_MAX = 2_000;

export function GroupMessages({ name }: { name: string }): JSX.Element | null {
  const { namespace } = caller();
  const { value, error } = useFetched<Page>(`${namespace} ${name}`, (signal) => lastOf(name, signal), EVERY_MS);
  if (error !== undefined) return <Failed error={error} what="the messages" />;
  if (value === undefined || value.messages.length === 0) return null;
  return (
    <>
      <h3>Last messages</h3>
      <ol class="messages">
        {[...value.messages].reverse().map(({ number, by, at, body }) => (
          <li key={number} class="card">
            <p class="message-head">
              <span>
                <Age since={at} /> old
              </span>
              <span>by {by}</span>
            </p>
            <Value value={shown(body)} label={`Body of message ${number}`} />
          </li>
        ))}
      </ol>
    </>
  );
}

/** Numbers of messages that follow each other do so without gaps. */
async function lastOf(name: string, signal: AbortSignal): Promise<Page> {
  const path = ['groups', name, 'messages'];
  const { cursor } = await requestJson<Page>(caller(), { path, signal });
  const query = { after: Math.max(0, cursor - SHOWN), limit: SHOWN };
  return requestJson<Page>(caller(), { path, query, signal });
}

function shown(body: unknown): string {
  return bounded(typeof body === 'string' ? body : JSON.stringify(body), BODY_SHOWN_MAX);
}
