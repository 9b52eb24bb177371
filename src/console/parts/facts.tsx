/** What is known of one thing: pairs of a word and a value. */
import type { ComponentChildren, JSX } from 'preact';

export type Fact = readonly [word: string, value: ComponentChildren] | false | undefined;

export function Facts({ facts }: { facts: readonly Fact[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts.map((fact) =>
        fact === false || fact === undefined ? null : (
          <div key={fact[0]}>
            <dt>{fact[0]}</dt>
            <dd>{fact[1] ?? '–'}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
