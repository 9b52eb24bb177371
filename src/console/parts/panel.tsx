/** One thing looked at closely, beside its list or in place of it. */
import { Fragment, type ComponentChildren, type JSX } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { TITLES } from '../api/contract.js';
import { hrefOf, route } from '../state/route.js';

export interface PanelProps {
  readonly kind: string;
  readonly name: string;
  readonly children: ComponentChildren;
}

/** A longer name, such as that of a key with many parts, would leave no room on a phone for what is below it. */
const STAYS_MAX = 80;

/** The page begins where its reader is: what is in the address when it is loaded takes no focus. */
let isFirst = true;

export function Panel({ kind, name, children }: PanelProps): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  const id = useId();
  useEffect(() => {
    if (!isFirst) heading.current?.focus();
    isFirst = false;
  }, [kind, name]);
  return (
    <section class="panel" aria-labelledby={id}>
      <header class={name.length > STAYS_MAX ? 'panel-head' : 'panel-head panel-head-stays'}>
        <p class="kind">{TITLES[kind] ?? kind}</p>
        <h2 id={id} ref={heading} tabIndex={-1} class="name">
          {name}
        </h2>
        <a class="close" href={hrefOf(route.value.view)}>
          Close<span class="unseen"> {name}</span>
        </a>
      </header>
      <Fragment key={`${kind} ${name}`}>{children}</Fragment>
    </section>
  );
}
