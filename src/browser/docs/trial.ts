/** Makes a curl line of the page one that can be edited, copied and run. */
import { curlLine } from '../../http/pages/docs/curl.js';
import { button, element } from './dom.js';
import { Result } from './result.js';
import type { Lease, Session } from './session.js';
import type { Learned } from './learned.js';

const CREATES_LEASE = 'POST /v1/leases';
const ENDS_LEASE = 'DELETE /v1/leases/self';

export class Trial {
  readonly #box: HTMLElement;
  readonly #session: Session;
  readonly #learned: Learned;
  readonly #code: HTMLElement;
  readonly #method: string;
  readonly #path: HTMLInputElement;
  readonly #body: HTMLTextAreaElement;
  readonly #run = button('Run', () => this.#press(), true);
  readonly #results = element('div');
  #isEdited = false;
  #running: AbortController | undefined;

  constructor(box: HTMLElement, session: Session, learned: Learned) {
    const { method = 'GET', path = '', body = '' } = box.dataset;
    [this.#box, this.#session, this.#learned, this.#method] = [box, session, learned, method];
    this.#code = box.querySelector('code') ?? box;
    this.#path = element('input', { value: path, spellcheck: 'false' });
    this.#body = element('textarea', { spellcheck: 'false' }, body);
    const fields = this.#fields();
    const edit = button('Edit', () => {
      fields.hidden = !fields.hidden;
      edit.setAttribute('aria-expanded', String(!fields.hidden));
      if (!fields.hidden) this.#path.focus();
    });
    edit.setAttribute('aria-expanded', 'false');
    const actions = element('div', { class: 'actions' }, this.#run, edit, ...this.#copyButton());
    box.append(actions, fields, this.#results);
    session.listeners.push(() => this.update());
    learned.listeners.push(() => this.update());
    this.update();
  }

  /** Writes the curl line as it would be run now. */
  update(): void {
    const { lease, hasKey } = this.#session;
    const { body } = this.#box.dataset;
    if (!this.#isEdited && body !== undefined) this.#body.value = this.#learned.fill(this.#path.value, body);
    this.#code.textContent = curlLine({
      origin: location.origin,
      method: this.#method,
      path: this.#path.value,
      headers: [
        ...(this.#has('lease') ? [`Lease-Token: ${lease?.leaseToken ?? '$TOKEN'}`] : []),
        ...(hasKey ? ['Authorization: Bearer $POSTERN_API_KEY'] : []),
      ],
      body: this.#bodyToSend(),
      isRaw: this.#has('raw'),
      isStream: this.#has('stream'),
    });
  }

  #fields(): HTMLElement {
    const labelled = (text: string, field: HTMLElement): HTMLElement => element('label', {}, text, field);
    const parts = [labelled('Path', this.#path), ...(this.#has('takesBody') ? [labelled('Body', this.#body)] : [])];
    const fields = element('div', { class: 'fields', hidden: true }, ...parts);
    fields.addEventListener('input', () => {
      this.#isEdited = true;
      this.update();
    });
    return fields;
  }

  #copyButton(): HTMLButtonElement[] {
    if (!isSecureContext) return []; // there is no clipboard
    const copy = button('Copy', async () => {
      await navigator.clipboard.writeText(this.#code.textContent ?? '');
      copy.textContent = 'Copied';
    });
    copy.addEventListener('blur', () => void (copy.textContent = 'Copy'));
    return [copy];
  }

  #has(flag: string): boolean {
    return this.#box.dataset[flag] !== undefined;
  }

  #bodyToSend(): string | undefined {
    return this.#has('takesBody') && this.#body.value !== '' ? this.#body.value : undefined;
  }

  #press(): void {
    if (this.#running !== undefined) this.#running.abort();
    else if (this.#has('lease') && this.#session.lease === undefined) this.#offerLease();
    else if (
      !this.#has('asks') ||
      confirm(`${this.#method} ${this.#path.value}\n\nThis changes or removes what others may use. Run it?`)
    )
      void this.#send();
  }

  #offerLease(): void {
    const result = new Result();
    const take = button('Take a lease and run it', async () => {
      const problem = await this.#session.takeLease();
      if (problem === undefined) {
        this.#run.focus();
        this.#press();
      } else result.say(problem);
    });
    result.say('This request is made for a lease, and this page has none.', take);
    this.#results.replaceChildren(result.root);
    take.focus();
  }

  async #send(): Promise<void> {
    const result = new Result();
    const running = (this.#running = new AbortController());
    this.#results.replaceChildren(result.root);
    this.#run.textContent = 'Stop';
    try {
      const response = await this.#session.send({
        method: this.#method,
        path: this.#path.value,
        body: this.#bodyToSend(),
        isRaw: this.#has('raw'),
        forLease: this.#has('lease'),
        signal: running.signal,
      });
      const text = await result.show(response, this.#has('stream'));
      if (response.status === 401)
        result.say(
          'This gateway asks for credentials.',
          button('Give an API key', () => document.getElementById('api-key')?.focus()),
        );
      if (response.ok) this.#learn(text);
      else if (response.status === 410 && this.#has('lease')) this.#session.forget();
    } catch (error) {
      result.say(running.signal.aborted ? 'Stopped.' : `There is no answer: ${String(error)}`);
    } finally {
      this.#running = undefined;
      this.#run.textContent = 'Run';
    }
  }

  #learn(text: string): void {
    const request = `${this.#method} ${this.#path.value}`;
    if (request === ENDS_LEASE) this.#session.forget();
    else if (request === CREATES_LEASE) this.#session.adopt(JSON.parse(text) as Lease);
    else this.#learned.take(this.#path.value, text);
  }
}
