/** Narrows what is listed to what contains a text. */
import type { JSX } from 'preact';
import { useId } from 'preact/hooks';
import { number } from '../words/quantity.js';

export interface FilterProps {
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly shown: number;
  readonly of: number;
  readonly hint: string;
}

export function Filter({ text, onText, shown, of, hint }: FilterProps): JSX.Element {
  const id = useId();
  return (
    <div class="filter" role="search">
      <label for={id} class="unseen">
        Filter {hint}
      </label>
      <input
        id={id}
        type="search"
        value={text}
        placeholder={`Filter by ${hint}`}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => onText(event.currentTarget.value)}
      />
      <span class="soft count" role="status">
        {shown === of ? number(of) : `${number(shown)} of ${number(of)}`}
      </span>
    </div>
  );
}

/** @param texts what a row is found by */
export function matches(filter: string, ...texts: readonly (string | null | undefined)[]): boolean {
  const wanted = filter.trim().toLowerCase();
  return wanted === '' || texts.some((text) => text?.toLowerCase().includes(wanted) === true);
}
