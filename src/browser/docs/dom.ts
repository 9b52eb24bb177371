/** Elements, made without markup: what a replica answers is only ever text. */

type Attributes = Readonly<Record<string, string | boolean>>;

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== false) made.setAttribute(key, value === true ? '' : value);
  made.append(...children);
  return made;
}

/** @param onClick is not awaited: it shows its own failures */
export function button(text: string, onClick: () => unknown, isMain = false): HTMLButtonElement {
  const made = element('button', { type: 'button', ...(isMain && { class: 'main' }) }, text);
  made.addEventListener('click', () => void onClick());
  return made;
}

/** @throws Error if the page has no such element: it and this script are of one version */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}
