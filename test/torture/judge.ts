/** Has histories judged by a process of its own, one after the other, so that a search does not hold up the proxies. */
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Operation } from '../histories/linearizable.js';
import type { Circumstances } from '../histories/workload.js';
import type { Judgement, Question } from './checker.js';

const MODULE = fileURLToPath(new URL('checker.ts', import.meta.url));

export class Judge {
  readonly #child: ChildProcess;
  readonly #open = new Map<number, (judgement: Judgement) => void>();
  #asked = 0;

  constructor() {
    this.#child = fork(MODULE, { execArgv: ['--import', 'tsx'], serialization: 'advanced' });
    process.once('exit', () => this.#child.kill('SIGKILL'));
    this.#child.on('message', (message) => {
      const judgement = message as Judgement;
      this.#open.get(judgement.id)?.(judgement);
      this.#open.delete(judgement.id);
    });
    this.#child.once('exit', () => {
      for (const [id, answer] of this.#open) answer({ id, complaints: [], undecided: 'the checker ended', ms: 0 });
      this.#open.clear();
    });
  }

  of(
    kind: string,
    operations: readonly Operation<unknown, unknown>[],
    circumstances: Circumstances,
  ): Promise<Judgement> {
    const id = (this.#asked += 1);
    return new Promise((resolve) => {
      this.#open.set(id, resolve);
      this.#child.send({ id, kind, operations, circumstances } satisfies Question);
    });
  }

  stop(): void {
    this.#child.kill('SIGKILL');
  }
}
