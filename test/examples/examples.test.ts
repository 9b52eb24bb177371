/** The programs in examples/, run as somebody would who tries them: several processes at a real gateway. */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { env, execPath } from 'node:process';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startReplica } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LONG_MS = scaled(90_000);
const withinMs = scaled(45_000);

class Program implements Disposable {
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  readonly lines: string[] = [];
  errors = '';

  constructor(url: string, name: string, ...args: string[]) {
    this.#child = spawn(execPath, [`examples/${name}.mjs`, ...args], {
      cwd: ROOT,
      env: { ...env, POSTERN_URL: url },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let rest = '';
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() as string;
      this.lines.push(...lines);
    });
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => (this.errors += text));
  }

  says(pattern: RegExp): Promise<string> {
    const find = (): string | undefined => this.lines.find((line) => pattern.test(line));
    return eventually(`it says ${pattern}`, find, { withinMs });
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Resolves when it has ended; fails the test if that was not as it should. */
  async ends(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'close');
    expect({ code: this.#child.exitCode, errors: this.errors }).toEqual({ code: 0, errors: '' });
  }

  [Symbol.dispose](): void {
    this.#child.kill('SIGKILL');
  }
}

test(
  'the crawler fetches every page of a site, also when one of two processes dies',
  { timeout: LONG_MS },
  async () => {
    const count = 30;
    const served: number[] = [];
    // The first pages without links are not answered while both live: however slowly the second process starts, there
    // is something left for it, and the first one dies over what it fetches.
    const unanswered: ServerResponse[] = [];
    let bothLive = true;
    await using replica = await startReplica();
    const site = createServer((request, response) => {
      const page = Number(request.url?.slice(1) || 0);
      served.push(page);
      const links = [2 * page + 1, 2 * page + 2, 0, page].filter((link) => link < count);
      if (bothLive && links.length < 3 && unanswered.length < 4) unanswered.push(response);
      else setTimeout(() => response.end(links.map((link) => `<a href="/${link === 0 ? '' : link}">`).join('')), 50);
    }).listen(0, '127.0.0.1');
    try {
      await once(site, 'listening');
      const start = `http://127.0.0.1:${(site.address() as AddressInfo).port}/`;
      using dies = new Program(replica.url, 'crawler', start);
      await dies.says(/^200 /);
      using stays = new Program(replica.url, 'crawler', start);
      await stays.says(/^200 /);
      dies.kill('SIGKILL');
      bothLive = false;
      for (const response of unanswered) response.end();
      await stays.ends();
      expect(new Set(served).size).toBe(count);
      // What the first one was fetching, four at a time, was fetched again.
      expect(served.length - count).toBeLessThanOrEqual(4);
    } finally {
      site.close();
    }
  },
);

test('one of the workers leads, and another one after it', { timeout: LONG_MS }, async () => {
  await using replica = await startReplica();
  using first = new Program(replica.url, 'leader');
  const one = await first.says(/ leads, /);
  using second = new Program(replica.url, 'leader');
  await eventually('it stands', async () => {
    const { candidateCount } = (await replica.expect(200, 'GET', '/v1/elections/reporter')) as {
      candidateCount: number;
    };
    return candidateCount === 2;
  });
  expect(second.lines).toEqual([]);
  first.kill('SIGTERM');
  const two = await second.says(/ leads, /);
  await first.ends();
  const tokenOf = (line: string): number => Number(line.split(' ').at(-1));
  expect(tokenOf(two)).toBeGreaterThan(tokenOf(one));
  await eventually('its report is there', async () => {
    const report = (await replica.call('GET', '/v1/config/reports/latest')).body as { token?: number };
    return report.token === tokenOf(two);
  });
  second.kill('SIGTERM');
  await second.ends();
});

test('the nightly job is done once by however many machines', { timeout: LONG_MS }, async () => {
  await using replica = await startReplica();
  const runs = [1, 2, 3].map(() => new Program(replica.url, 'nightly', '2026-11-22'));
  await Promise.all(runs.map((run) => run.ends()));
  const said = runs.flatMap(({ lines }) => lines);
  expect(said.filter((line) => line === 'working for 2026-11-22')).toHaveLength(1);
  expect(said.filter((line) => line.startsWith('2026-11-22 is done at '))).toHaveLength(2);
});

test('no more than two calls are under way at once, over all processes', { timeout: LONG_MS }, async () => {
  await using replica = await startReplica();
  const programs = [1, 2, 3].map(() => new Program(replica.url, 'at-most-two', '4'));
  await Promise.all(programs.map((program) => program.ends()));
  const events = programs
    .flatMap(({ lines }) => lines.map((line) => line.split(' ')))
    .map(([what, , at]) => ({ change: what === 'begin' ? 1 : -1, at: Number(at) }));
  expect(events).toHaveLength(24);
  // Of two in one millisecond the end was first: it was said before the permit was given back.
  events.sort((a, b) => a.at - b.at || a.change - b.change);
  let now = 0;
  expect(Math.max(...events.map(({ change }) => (now += change)))).toBe(2);
});
