/** Shows an answer as it comes: status, headers of interest, and the body as text. */
import { element } from './dom.js';

const HEADERS = ['content-type', 'etag', 'location', 'retry-after', 'allow', 'www-authenticate', 'trace-id'];
/** More of an answer than this nobody reads; a stream goes on for as long as it likes. */
const SHOWN_MAX = 64 * 1024;

export class Result {
  readonly #status = element('p', { role: 'status' });
  readonly root = element('div', { class: 'result' }, this.#status);
  readonly #startedAt = performance.now();

  /** @returns the text, as far as it is shown */
  async show(response: Response, isStream: boolean): Promise<string> {
    const ms = Math.round(performance.now() - this.#startedAt);
    const body = element('pre', { tabindex: '0', 'aria-label': 'Body of the answer' });
    const headers = HEADERS.flatMap((name) => {
      const value = response.headers.get(name);
      return value === null ? [] : [element('dt', {}, name), element('dd', {}, value)];
    });
    const status = element('strong', {}, `${response.status} ${response.statusText}`.trim());
    const from = response.redirected ? `, from ${new URL(response.url).pathname}` : '';
    this.root.classList.add(response.ok ? 'good' : 'bad');
    this.#status.replaceChildren(status, ` after ${ms} ms${from}`);
    this.root.append(element('dl', {}, ...headers));
    const text = await read(response, (sofar) => {
      body.textContent = sofar;
      if (!body.isConnected) this.root.append(body);
    });
    if (!isStream) body.textContent = indented(text);
    return text;
  }

  say(text: string, ...more: readonly Node[]): void {
    this.root.append(element('p', {}, text), ...more);
  }
}

async function read(response: Response, onText: (sofar: string) => void): Promise<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
    text += part.value;
    if (text.length >= SHOWN_MAX) {
      text = `${text.slice(0, SHOWN_MAX)}\n… (the rest is not shown)`;
      await reader?.cancel();
    }
    onText(text);
  }
  return text;
}

function indented(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // no JSON
  }
}
