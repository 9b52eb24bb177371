/** A program with its sidecar, each a process of its own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { execPath } from 'node:process';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../support/free-port.js';
import { standStill } from '../../support/stand-still.js';
import { runCommand, type Run } from '../run-command.js';

const PROGRAM = fileURLToPath(new URL('program.ts', import.meta.url));
/** Short, so that tests are; the program answers within a few of them on a busy machine. */
const FLAGS = {
  '--health': '{program}/healthz',
  '--health-interval': '100ms',
  '--health-timeout': '300ms',
  '--health-failures': '2',
  '--listen': '127.0.0.1:0',
  '--ttl': '3s',
};

export interface Told {
  event: string;
  fencingToken: number;
  reason?: string;
}

export interface Asked {
  status: number;
  /** What it is, the test says. */
  body: ReturnType<typeof JSON.parse>;
}

export class Pod implements AsyncDisposable {
  #sidecar: Run | undefined;
  /** Where the sidecar answers. */
  url = '';
  probesUrl = '';
  readonly #port: number;
  readonly #start: () => Run;
  #program: ChildProcess | undefined;

  constructor(port: number, start: () => Run) {
    this.#port = port;
    this.#start = start;
  }

  get sidecar(): Run {
    return this.#sidecar as Run;
  }

  get programUrl(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async startProgram(): Promise<void> {
    const program = spawn(execPath, ['--import', 'tsx', PROGRAM, String(this.#port)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#program = program;
    await once(program.stdout, 'data');
  }

  /** Also after it was killed. */
  async startSidecar(): Promise<void> {
    this.#sidecar = this.#start();
    const pattern = /"event":"listening".*"url":"([^"]+)"(?:,"probesUrl":"([^"]+)")?/;
    const [, url = '', probesUrl = ''] = await this.sidecar.untilSays(pattern);
    Object.assign(this, { url, probesUrl });
  }

  stopProgram(): void {
    standStill(this.#program?.pid as number);
  }

  goOn(): void {
    this.#program?.kill('SIGCONT');
  }

  async killProgram(): Promise<void> {
    const program = this.#program as ChildProcess;
    if (program.exitCode !== null || program.signalCode !== null) return;
    program.kill('SIGKILL');
    await once(program, 'exit');
  }

  async killSidecar(): Promise<void> {
    this.sidecar.child.kill('SIGKILL');
    await this.sidecar.ended;
  }

  /** Asks the sidecar. @throws TypeError if it does not answer */
  async ask(path: string, init: RequestInit & { json?: unknown } = {}): Promise<Asked> {
    const { json, ...rest } = init;
    const posted = json === undefined ? {} : { method: 'POST', body: JSON.stringify(json) };
    const response = await fetch(`${this.url}${path}`, { ...posted, ...rest });
    return { status: response.status, body: await response.json() };
  }

  /** The fencing token with which it says that its program leads; undefined if it does not say so. */
  async leads(): Promise<number | undefined> {
    const { status, body } = await this.ask('/leader');
    return status === 200 ? body.leader.fencingToken : undefined;
  }

  /** How the program answers from now on. */
  async answers(statuses: Record<string, number>): Promise<void> {
    await fetch(`${this.programUrl}/statuses`, { method: 'POST', body: JSON.stringify(statuses) });
  }

  /** What the program was told by hooks. */
  async told(): Promise<Told[]> {
    return (await (await fetch(`${this.programUrl}/told`)).json()) as Told[];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.killProgram(), this.killSidecar()]);
  }
}

/**
 * @param url of the gateway
 * @param words further flags; `{program}` stands for where the program is
 * @param settings of the sidecar, in its environment
 */
export async function startPod(
  url: string,
  words: readonly string[] = [],
  settings: Record<string, string> = {},
): Promise<Pod> {
  const port = await freePort();
  const usual = Object.entries(FLAGS).filter(([flag]) => !words.includes(flag));
  const all = ['sidecar', '--json', ...usual.flat(), ...words].map((word) =>
    word.replace('{program}', `http://127.0.0.1:${port}`),
  );
  const pod = new Pod(port, () => runCommand(all, { url, settings }));
  await pod.startProgram();
  await pod.startSidecar();
  return pod;
}
