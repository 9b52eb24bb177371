/** The top of the page: which namespace, whether the stream is live, and whose key it is. */
import type { JSX } from 'preact';
import { useEffect, useId, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { connection } from '../state/live.js';
import { place } from '../state/place.js';
import { hrefOf, NAMESPACE, namespace, route } from '../state/route.js';
import { key, refusedKey, useKey } from '../state/session.js';

const REMEMBERED_MAX = 20;

/** Namespaces that were looked at in this tab, for the list of proposals: the API has no list of them. */
const seen = signal<readonly string[]>(['default']);

export function Bar(): JSX.Element {
  return (
    <header class="bar">
      <p class="brand">
        Postern <span>console</span>
      </p>
      <NamespaceChooser />
      <Live />
      {key.value === '' ? null : (
        <button type="button" class="quiet" onClick={() => useKey('')}>
          Forget key
        </button>
      )}
    </header>
  );
}

function NamespaceChooser(): JSX.Element {
  const [text, setText] = useState(namespace.value);
  const id = useId();
  const here = namespace.value;
  useEffect(() => {
    setText(here);
    seen.value = [here, ...seen.peek().filter((one) => one !== here)].slice(0, REMEMBERED_MAX);
  }, [here]);
  const go = (): void => {
    if (NAMESPACE.test(text) && text !== here) location.hash = hrefOf(route.value.view, undefined, text);
  };
  return (
    <form
      class="namespace"
      onSubmit={(event) => {
        event.preventDefault();
        go();
      }}
    >
      <label for={id}>Namespace</label>
      <input
        id={id}
        list={`${id}-seen`}
        value={text}
        required
        maxLength={200}
        pattern="(?!\.{1,2}$)[A-Za-z0-9._~\-]+"
        title="Letters, digits and . _ ~ -, and neither . nor .."
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => setText(event.currentTarget.value)}
        onChange={go}
        onBlur={() => NAMESPACE.test(text) || setText(here)} // what stands there is where one is
      />
      <datalist id={`${id}-seen`}>
        {seen.value.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </form>
  );
}

const WORDS = {
  connecting: 'Connecting',
  live: 'Live',
  lost: 'Connection lost',
  stopped: 'Stopped',
  waits: 'Waiting',
} as const;

function Live(): JSX.Element {
  const state = refusedKey.value !== undefined ? 'stopped' : place.value === 'waits' ? 'waits' : connection.value.state;
  return (
    <p class={`live live-${state}`} role="status">
      <span class="dot" aria-hidden="true" />
      {WORDS[state]}
    </p>
  );
}
