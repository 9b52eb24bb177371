/** Asks for an API key when the gateway wants one, and says why it does. */
import type { JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { key, refusedKey, useKey, wasAccepted } from '../state/session.js';

export function SignIn(): JSX.Element {
  const [text, setText] = useState('');
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  const hadKey = key.value !== '';
  useEffect(() => {
    document.title = 'Sign in · Postern console';
    input.current?.focus();
  }, []);
  return (
    <section class="sign-in" aria-labelledby={`${id}-title`}>
      <h1 id={`${id}-title`}>
        {wasAccepted()
          ? 'This key is no longer accepted'
          : hadKey
            ? 'This key is not accepted'
            : 'An API key is needed'}
      </h1>
      {hadKey ? (
        <p class="refused" role="alert">
          {refusedKey.value?.detail}{' '}
          {wasAccepted() ? 'With another key the page goes on where it is.' : 'It may be mistyped, expired or removed.'}
        </p>
      ) : (
        <p>This gateway serves only callers that present a key.</p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (text.trim() !== '') useKey(text.trim());
        }}
      >
        <p class="field">
          <label for={id}>API key</label>
          <input
            id={id}
            ref={input}
            type="password"
            required
            autocomplete="off"
            spellcheck={false}
            value={text}
            aria-describedby={`${id}-hint`}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <small id={`${id}-hint`}>
            It stays in this tab, is sent to this gateway alone, and is forgotten when the tab is closed. A token of the
            identity provider works too.
          </small>
        </p>
        <button type="submit" class="primary">
          Use this key
        </button>
      </form>
    </section>
  );
}
