/** Search in all sections of all pages, in the browser: the index is a file of the site, loaded when first needed. */
(() => {
  const SHOWN = 20;
  const AROUND = 60; // characters of the text before and behind the first word that was found
  const root = document.currentScript?.dataset['root'] ?? '.';
  const box = /** @type {HTMLElement} */ (document.querySelector('search'));
  const input = /** @type {HTMLInputElement} */ (box.querySelector('input'));
  const list = /** @type {HTMLElement} */ (box.querySelector('ol'));
  /** @type {Promise<{ page: string, url: string, title: string, text: string }[]> | undefined} */
  let index;

  const load = () =>
    (index ??= new Promise((resolve, reject) => {
      const script = document.createElement('script'); // not fetch: a page that is opened from the disk may not
      script.src = `${root}/search-index.js`;
      script.onload = () => resolve(/** @type {any} */ (window).SECTIONS);
      script.onerror = reject;
      document.head.append(script);
    }));

  async function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const sections = await load();
    const found = words.length === 0 ? [] : sections.map((section) => ({ section, rank: rankOf(section, words) }));
    const best = found.filter(({ rank }) => rank > 0).sort((a, b) => b.rank - a.rank);
    list.replaceChildren(...best.slice(0, SHOWN).map(({ section }) => itemOf(section, words[0] ?? '')));
    if (words.length > 0 && best.length === 0) list.append('Nothing found.');
  }

  function itemOf({ page, url, title, text }, word) {
    const item = document.createElement('li');
    const link = document.createElement('a');
    const excerpt = document.createElement('span');
    link.href = `${root}/${url}`;
    link.textContent = page === title ? title : `${page}: ${title}`;
    const at = Math.max(text.toLowerCase().indexOf(word) - AROUND, 0);
    excerpt.textContent = text.slice(at, at + word.length + 2 * AROUND);
    item.append(link, excerpt);
    return item;
  }

  input.addEventListener('focus', () => void load());
  input.addEventListener('input', () => void search());
  document.addEventListener('click', ({ target }) => {
    if (target !== input) list.replaceChildren(); // what was chosen may be a section of this page
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') list.replaceChildren();
    if (event.key !== '/' || document.activeElement === input) return;
    event.preventDefault();
    input.focus();
  });
  box.hidden = false;
})();

/**
 * 0 unless the section has all words; a word in a heading counts more than one in the text.
 * @param {{ page: string, title: string, text: string }} section
 * @param {string[]} words
 */
function rankOf({ page, title, text }, words) {
  const places = [title, page, text].map((place) => place.toLowerCase());
  const ranks = words.map((word) => {
    const at = places.findIndex((place) => place.includes(word));
    return at === -1 ? 0 : places.length - at;
  });
  return ranks.includes(0) ? 0 : ranks.reduce((sum, rank) => sum + rank, 0);
}
