/** A view: its heading, what narrows it, its list, and beside that what is chosen in it. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { isNarrow } from '../state/screen.js';

export interface PageProps {
  readonly title: string;
  readonly tools?: ComponentChildren;
  readonly panel?: ComponentChildren;
  readonly children: ComponentChildren;
}

let isFirst = true;

export function Page({ title, tools, panel, children }: PageProps): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  const hasPanel = panel != null && panel !== false;
  useEffect(() => {
    document.title = `${title} · Postern console`;
    if (!isFirst && !hasPanel) heading.current?.focus();
    isFirst = false;
  }, [title, hasPanel]);
  return (
    <div class={hasPanel ? 'page page-split' : 'page'}>
      <div class="page-main" hidden={hasPanel && isNarrow.value}>
        <div class="page-head">
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {tools}
        </div>
        {children}
      </div>
      {hasPanel && isNarrow.value ? <h1 class="unseen">{title}</h1> : null}
      {hasPanel ? panel : null}
    </div>
  );
}
