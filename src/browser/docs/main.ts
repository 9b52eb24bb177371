/** The script of the documentation: without it every page can be read, and nothing is run. */
import { startFilter } from './filter.js';
import { Learned } from './learned.js';
import { Session } from './session.js';
import { showSession } from './session-panel.js';
import { Trial } from './trial.js';

/** Everything was one page once: a link to a part of it leads to where that part is now. */
function followOldLink(): void {
  const moved = document.getElementById(location.hash.slice(1));
  const link = moved?.dataset['moved'] === undefined ? null : moved.querySelector('a');
  if (link !== null) location.replace(link.href);
}

followOldLink();
addEventListener('hashchange', followOldLink);
startFilter();
const panel = document.getElementById('session');
if (panel !== null) {
  const [session, learned] = [new Session(), new Learned()];
  showSession(panel, session);
  for (const box of document.querySelectorAll<HTMLElement>('.try')) new Trial(box, session, learned);
  session.resume();
}
for (const part of document.querySelectorAll<HTMLElement>('pre > code'))
  if (part.closest('.try') === null)
    part.textContent = (part.textContent ?? '').replaceAll('localhost:7070', location.host);
