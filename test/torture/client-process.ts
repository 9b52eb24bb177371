/** A process full of clients, as the driver sees it. What the two tell each other is here. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Operation } from '../histories/linearizable.js';
import { standStill } from '../support/stand-still.js';

/** What every client has to know from the start. */
export interface ClientSettings {
  readonly name: string;
  readonly seed: number;
  readonly urls: readonly string[];
  /** Where it writes down every call, a line of JSON each. */
  readonly callsFile: string;
  /** The API key. */
  readonly key: string;
  /** By when a replica answers, apart from the wait that it was asked for. */
  readonly requestTimeoutMs: number;
  /** On average, between two operations of one client. */
  readonly pauseMs: number;
}

/** Clients of one kind on some objects, which nobody else uses at the time. */
export interface Round {
  readonly kind: string;
  readonly number: number;
  readonly objects: readonly string[];
  /** In each process. */
  readonly clients: number;
}

export type Told =
  | { readonly do: 'settings'; readonly settings: ClientSettings }
  | { readonly do: 'begin'; readonly round: Round }
  | { readonly do: 'end'; readonly kind: string; readonly number: number }
  /** From now on all ask this replica only; undefined: any again. */
  | { readonly do: 'crowd'; readonly replica: number | undefined };

export interface Slow {
  readonly what: string;
  readonly url: string;
  readonly begin: number;
  readonly end: number;
  readonly limitMs: number;
}

export type Said =
  | { readonly say: 'ready' }
  | {
      readonly say: 'done';
      readonly kind: string;
      readonly number: number;
      readonly histories: Readonly<Record<string, readonly Operation<unknown, unknown>[]>>;
    }
  /** An answer that no replica may give. */
  | { readonly say: 'complaint'; readonly complaint: string }
  | { readonly say: 'slow'; readonly slow: Slow }
  /** In which tenths of a second somebody was served. */
  | { readonly say: 'served'; readonly tenths: readonly number[]; readonly answers: Readonly<Record<string, number>> };

const MODULE = fileURLToPath(new URL('client.ts', import.meta.url));

export class ClientProcess {
  readonly #child: ChildProcess;

  private constructor(
    readonly name: string,
    listen: (said: Said, from: ClientProcess) => void,
  ) {
    this.#child = fork(MODULE, { execArgv: ['--import', 'tsx'], serialization: 'advanced' });
    this.#child.on('message', (message) => listen(message as Said, this));
    process.once('exit', () => this.#child.kill('SIGKILL'));
  }

  static async start(
    settings: ClientSettings,
    listen: (said: Said, from: ClientProcess) => void,
  ): Promise<ClientProcess> {
    let ready = (): void => undefined;
    const isReady = new Promise<void>((resolve) => (ready = resolve));
    const client = new ClientProcess(settings.name, (said, from) =>
      said.say === 'ready' ? ready() : listen(said, from),
    );
    client.tell({ do: 'settings', settings });
    await Promise.race([
      isReady,
      once(client.#child, 'exit').then(() => {
        throw new Error(`${settings.name} ended at its start`);
      }),
    ]);
    return client;
  }

  tell(told: Told): void {
    if (this.#child.connected) this.#child.send(told);
  }

  pause(): void {
    standStill(this.#child.pid as number);
  }

  resume(): void {
    this.#child.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }
}
