/** Reads a stream of server-sent events as a test wants to see it: one event after the other. */
import { Agent, request } from 'undici';
import { expectContract } from './contract.js';
import { eventually } from '../eventually.js';

/* eslint-disable @typescript-eslint/no-explicit-any -- the shape of an event is what the test is about */

export interface StreamedEvent {
  event: string;
  id: string | undefined;
  data: any;
}

export interface OpenOptions {
  leaseToken?: string;
  headers?: Record<string, string>;
}

export class EventReader implements AsyncDisposable {
  /** All that came so far, in order. */
  readonly seen: StreamedEvent[] = [];
  /** True when the server has ended the stream. */
  ended = false;
  /** When the last event came, monotonic. */
  lastEventAt = 0;
  /** Lines of any kind that are not part of an event. */
  readonly comments: string[] = [];
  #taken = 0;

  private constructor(private readonly agent: Agent) {}

  /** Resolves when the answer's head is there; anything but an event stream fails the test. */
  static async open(url: string, path: string, { leaseToken, headers = {} }: OpenOptions = {}): Promise<EventReader> {
    const agent = new Agent({ bodyTimeout: 0 });
    const reader = new EventReader(agent);
    const response = await request(url + path, {
      dispatcher: agent,
      headers: {
        accept: 'text/event-stream',
        ...headers,
        ...(leaseToken !== undefined && { 'lease-token': leaseToken }),
      },
    });
    expectContract('GET', path, { status: response.statusCode, headers: response.headers, body: 'event: …' });
    if (response.statusCode !== 200)
      throw new Error(`${path} answered ${response.statusCode}: ${await response.body.text()}`);
    response.body.setEncoding('utf8');
    let text = '';
    response.body.on('data', (chunk: string) => {
      text += chunk;
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        reader.#take(text.slice(0, end));
        text = text.slice(end + 2);
      }
    });
    response.body.on('end', () => (reader.ended = true));
    response.body.on('error', () => {}); // cut off; `ended` stays false
    return reader;
  }

  /** The next event that was not taken yet. */
  async next(withinMs?: number): Promise<StreamedEvent> {
    await eventually(
      'the stream has another event',
      () => this.seen.length > this.#taken,
      withinMs === undefined ? {} : { withinMs },
    );
    return this.seen[this.#taken++] as StreamedEvent;
  }

  /** Events that have come and were not taken. */
  get pending(): StreamedEvent[] {
    return this.seen.slice(this.#taken);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent.destroy();
  }

  #take(block: string): void {
    const fields = new Map<string, string>();
    for (const line of block.split('\n')) {
      if (line === '') continue;
      const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
      if (name === '') this.comments.push(value);
      else fields.set(name, value);
    }
    const data = fields.get('data');
    const event = fields.get('event');
    if (event === undefined && data === undefined) return; // a comment, or `retry`
    this.lastEventAt = performance.now();
    this.seen.push({
      event: event ?? 'message',
      id: fields.get('id'),
      data: data === undefined || data === '' ? undefined : JSON.parse(data),
    });
  }
}
