/** What stands above every view when what it shows may be old, or is not all there is. */
import type { JSX } from 'preact';
import { useId, useState } from 'preact/hooks';
import { requestJson } from '../api/request.js';
import { Refusal, type Refused } from '../api/refusal.js';
import { now } from '../state/clock.js';
import { late, LATE_MS, useFetched } from '../state/fetched.js';
import { connection, prefix, retryNow } from '../state/live.js';
import { place } from '../state/place.js';
import { caller } from '../state/session.js';

const READY_EVERY_MS = 3_000;

export function Banner(): JSX.Element | null {
  const told = connection.value;
  void now.value; // the seconds until the next try
  const isUntold = place.value === 'had' && told.state === 'connecting' && Date.now() - told.since > LATE_MS;
  return (
    <>
      <NotReady />
      {place.value === 'waits' ? <NoPlace /> : null}
      {isUntold ? <Untold /> : late.value > 0 && told.state !== 'lost' ? <Late /> : null}
      {told.state === 'lost' ? (
        <div class="banner banner-bad" role="alert">
          <p>
            <strong>The connection to the gateway is lost.</strong> What is shown is as it was then. {told.why}{' '}
            <span aria-hidden="true">Trying again{inSeconds(told.retryAt)}.</span>
          </p>
          <button type="button" onClick={retryNow}>
            Try now
          </button>
        </div>
      ) : null}
      {told.state === 'stopped' ? <Stopped problem={told.problem} /> : null}
      {prefix.value === '' ? null : (
        <div class="banner">
          <p>
            Only names that begin with <code>{prefix.value}</code> are shown.
          </p>
          <button type="button" onClick={() => (prefix.value = '')}>
            Show all
          </button>
        </div>
      )}
    </>
  );
}

function inSeconds(at: number): string {
  const seconds = Math.ceil((at - Date.now()) / 1_000);
  return seconds <= 0 ? ' now' : ` in ${seconds} s`;
}

function NoPlace(): JSX.Element {
  return (
    <div class="banner banner-bad" role="alert">
      <p>
        <strong>Five other windows of this console are open.</strong> This one is not live until one of them is closed
        or minimised: a browser has no more connections to one gateway.
      </p>
    </div>
  );
}

/** Somebody in between holds it up, or the browser itself, where its tabs cannot share places. */
function Untold(): JSX.Element {
  return (
    <div class="banner banner-bad" role="alert">
      <p>
        <strong>The gateway has told nothing yet.</strong> A browser has six connections to one gateway: if this console
        is open in six other tabs, this one waits until one of them is closed.
      </p>
    </div>
  );
}

/** The connection that is left to all tabs for what they ask may be taken by a page that is none of the console. */
function Late(): JSX.Element {
  return (
    <div class="banner banner-bad" role="alert">
      <p>
        <strong>Answers are late.</strong> What is asked for every few seconds may be old. Either the gateway is slow,
        or this browser has no connection left for it: it has six for all its tabs. Close some of this gateway if there
        are many, such as those that try something out in its documentation.
      </p>
    </div>
  );
}

/** The replica serves, but cannot reach ZooKeeper, or is about to stop. */
function NotReady(): JSX.Element | null {
  const { error } = useFetched(
    'readyz',
    (signal) => requestJson(caller(), { path: '/readyz', signal }),
    READY_EVERY_MS,
  );
  if (!(error instanceof Refusal) || error.problem.status !== 503) return null;
  return (
    <div class="banner banner-bad" role="alert">
      <p>
        <strong>
          {error.problem.code === 'draining' ? 'This replica is stopping.' : 'This replica cannot reach ZooKeeper.'}
        </strong>{' '}
        What is shown may be old, and nothing can be changed. {error.message}
      </p>
    </div>
  );
}

function Stopped({ problem }: { problem: Refused }): JSX.Element {
  const [text, setText] = useState('');
  const id = useId();
  if (problem.code !== 'invalid')
    return (
      <div class="banner banner-bad" role="alert">
        <p>
          <strong>Nothing is told live.</strong> {problem.detail}
        </p>
      </div>
    );
  return (
    <form
      class="banner"
      onSubmit={(event) => {
        event.preventDefault();
        prefix.value = text;
      }}
    >
      <p role="alert">
        <strong>There is more here than one stream tells of.</strong> Look at some of it:
      </p>
      <label for={id}>Names that begin with</label>
      <input
        id={id}
        value={text}
        required
        maxLength={200}
        pattern="[A-Za-z0-9._~\-]+"
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit">Show these</button>
    </form>
  );
}
