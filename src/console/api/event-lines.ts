/** Server-sent events (WHATWG HTML, section 9.2), read from text as it arrives in pieces. */

export interface StreamedEvent {
  readonly event: string;
  readonly id: string | undefined;
  /** Parsed JSON. */
  readonly data: unknown;
  /** How long to wait before the stream is opened again, as the gateway wishes, ms. */
  readonly retryMs: number | undefined;
}

export class EventLines {
  /** Pieces of a line that has not ended: joined once, however many pieces a long line comes in. */
  readonly #begun: string[] = [];
  #fields = new Map<string, string>();
  #retryMs: number | undefined;

  /** @returns the events that end in this piece */
  read(piece: string): StreamedEvent[] {
    const events: StreamedEvent[] = [];
    const lines = piece.split('\n');
    const rest = lines.pop() as string;
    for (const line of lines) {
      this.#begun.push(line);
      const whole = this.#begun.join('');
      this.#begun.length = 0;
      const event = this.#line(whole.endsWith('\r') ? whole.slice(0, -1) : whole);
      if (event !== undefined) events.push(event);
    }
    if (rest !== '') this.#begun.push(rest);
    return events;
  }

  #line(line: string): StreamedEvent | undefined {
    if (line === '') return this.#end();
    const colon = line.indexOf(':');
    if (colon === 0) return undefined; // a comment
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'retry') this.#retryMs = Number(value);
    else this.#fields.set(name, value);
    return undefined;
  }

  #end(): StreamedEvent | undefined {
    const fields = this.#fields;
    this.#fields = new Map();
    const data = fields.get('data');
    if (data === undefined) return undefined;
    const retryMs = this.#retryMs;
    this.#retryMs = undefined;
    return { event: fields.get('event') ?? 'message', id: fields.get('id'), data: JSON.parse(data), retryMs };
  }
}
