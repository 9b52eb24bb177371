/** Says as whom the requests of the page are sent, and lets the reader change that. */
import { button, element } from './dom.js';
import type { Session } from './session.js';

export function showSession(panel: HTMLElement, session: Session): void {
  const words = element('p', { role: 'status' });
  const [take, end] = [button('Take a lease', takeLease), button('End the lease', () => session.endLease())];
  const key = keyField(session);
  panel.append(words, element('div', { class: 'actions' }, take, end), key);
  session.listeners.push(update);
  update();
  panel.hidden = false;

  function update(): void {
    const { lease, asksForKey, hasKey } = session;
    words.textContent = [
      `Requests that you run go to ${location.origin}, and do what they say.`,
      lease === undefined
        ? 'Some need a lease.'
        : `They are made for the lease ${lease.leaseId}, which this page keeps alive (${lease.ttlMs / 1_000} s).`,
      ...(asksForKey ? ['This gateway asks for credentials.'] : []),
    ].join(' ');
    take.hidden = lease !== undefined;
    end.hidden = lease === undefined;
    key.hidden = !asksForKey && !hasKey;
  }

  async function takeLease(): Promise<void> {
    const problem = await session.takeLease();
    if (problem !== undefined && !session.asksForKey) words.textContent = problem;
  }
}

/** A form for its Enter and for password managers; it is never submitted, which the policy of the page forbids too. */
function keyField(session: Session): HTMLElement {
  const input = element('input', { id: 'api-key', type: 'password', autocomplete: 'off', spellcheck: 'false' });
  const label = element('label', { for: 'api-key' }, 'API key or token, kept until you leave this page');
  const use = element('div', {}, element('button', {}, 'Use it'));
  const form = element('form', { class: 'fields' }, label, input, use);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    session.setKey(input.value.trim());
  });
  return form;
}
