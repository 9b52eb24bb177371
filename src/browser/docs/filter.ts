/** The box that narrows the list of operations, of all pages, while somebody types; and the menu on a narrow screen. */
import { byId } from './dom.js';

interface Item {
  readonly row: HTMLElement;
  readonly link: HTMLAnchorElement;
  /** In lower case: what it does, its path and its name. */
  readonly text: string;
}

export function startFilter(): void {
  const nav = document.querySelector('nav');
  const input = byId('filter') as HTMLInputElement;
  if (nav === null) return;
  const groups = [...nav.querySelectorAll<HTMLElement>('.tags > li')].map((row) => ({ row, items: itemsOf(row) }));
  const general = nav.querySelector<HTMLElement>('.general');
  const shown = (): Item[] => groups.flatMap(({ items }) => items.filter(({ row }) => !row.hidden));

  const narrow = (): void => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    nav.classList.toggle('filtering', words.length > 0);
    if (general !== null) general.hidden = words.length > 0;
    for (const { row, items } of groups) {
      for (const item of items) item.row.hidden = !words.every((word) => item.text.includes(word));
      row.hidden = items.every((item) => item.row.hidden);
    }
    byId('filter-status').textContent = words.length === 0 ? '' : found(shown().length);
  };
  input.addEventListener('input', narrow);
  input.addEventListener('keydown', (event) => {
    const [first] = shown();
    if (event.key === 'Escape') clear(input, narrow);
    else if (event.key === 'Enter' && input.value !== '') first?.link.click();
    else if (event.key === 'ArrowDown' && input.value !== '') first?.link.focus();
    else return;
    event.preventDefault();
  });
  nav.addEventListener('keydown', (event) => walk(event, input, shown()));
  // A match on this page is shown by the browser; the list has then done its work.
  nav.addEventListener('click', (event) => {
    if (!(event.target instanceof Element) || event.target.closest('a') === null) return;
    clear(input, narrow);
    openMenu(nav, false);
  });
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
  byId('filter-box').hidden = false;
  startMenu(nav);
}

function itemsOf(group: HTMLElement): Item[] {
  return [...group.querySelectorAll<HTMLElement>('ul > li')].flatMap((row) => {
    const link = row.querySelector('a');
    return link === null ? [] : [{ row, link, text: `${row.textContent} ${link.hash.slice(1)}`.toLowerCase() }];
  });
}

function found(count: number): string {
  return count === 0 ? 'No operation matches.' : `${count} operation${count === 1 ? '' : 's'}`;
}

function clear(input: HTMLInputElement, narrow: () => void): void {
  input.value = '';
  narrow();
}

/** Arrows lead from match to match, and back into the box. */
function walk(event: KeyboardEvent, input: HTMLInputElement, items: readonly Item[]): void {
  if (event.defaultPrevented) return; // the box has led to the first match
  const at = items.findIndex(({ link }) => link === document.activeElement);
  if (at === -1 || input.value === '') return;
  if (event.key === 'ArrowDown') items[at + 1]?.link.focus();
  else if (event.key === 'ArrowUp') (items[at - 1]?.link ?? input).focus();
  else if (event.key === 'Escape') input.focus();
  else return;
  event.preventDefault();
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement;
}

function startMenu(nav: HTMLElement): void {
  const menu = byId('menu');
  const narrow = matchMedia('(max-width: 60rem)');
  const follow = (): void => void (menu.hidden = !narrow.matches);
  narrow.addEventListener('change', follow);
  follow();
  menu.addEventListener('click', () => openMenu(nav, !nav.classList.contains('open')));
}

function openMenu(nav: HTMLElement, open: boolean): void {
  nav.classList.toggle('open', open);
  byId('menu').setAttribute('aria-expanded', String(open));
}
