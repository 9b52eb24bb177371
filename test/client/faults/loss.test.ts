/**
 * Whatever happens to a holder, it has stopped working before the next one is granted: judged by when each was granted
 * which fencing token, and when each last found its signal not aborted.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { eventually, passed, throughout } from '../../support/eventually.js';
import { rounds, seededRandom } from '../../support/scene.js';
import { standStill } from '../../support/stand-still.js';
import { spawnReplica } from '../../support/start-gateway.js';
import { freshRoot } from '../../support/start-zookeeper.js';
import { scaled } from '../../support/timing.js';
import { startTcpProxy, type TcpProxy } from '../../support/zookeeper/tcp-proxy.js';

const TTL_MS = 1_500;
/** Of a holder that must not lose it, though the machine starts replicas meanwhile. */
const KEPT_TTL_MS = scaled(2_000);
const ROUNDS = rounds(24);
/** The lease ends a tick after its TTL; then the heir is granted, which starts no process. */
const HEIR_MS = scaled(15_000);

interface Grant {
  fencingToken: number;
  heldAt: number;
  /** When its signal fired, and when it had last been found not to have. */
  gone?: { at: number; workedAt: number; cause: string };
}

/** A holder in a process of its own, with a network of its own. */
class Holder implements AsyncDisposable {
  readonly grants: Grant[] = [];
  readonly #child: ChildProcess;

  constructor(
    readonly proxies: readonly TcpProxy[],
    name: string,
    ttlMs = TTL_MS,
  ) {
    const urls = proxies.map(({ port }) => `http://127.0.0.1:${port}`).join();
    const program = fileURLToPath(new URL('holder.ts', import.meta.url));
    this.#child = spawn(process.execPath, ['--import', 'tsx', program, urls, name, String(ttlMs)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    createInterface({ input: this.#child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      const { event, fencingToken, at, ...rest } = JSON.parse(line);
      if (event === 'held') this.grants.push({ fencingToken, heldAt: at });
      const grant = this.grants.find((one) => one.fencingToken === fencingToken) as Grant;
      if (event === 'gone') grant.gone = { at, ...rest };
    });
  }

  get holding(): Grant | undefined {
    const last = this.grants.at(-1);
    return last?.gone ? undefined : last;
  }

  tell(what: { block?: number; isAlive?: boolean }): void {
    this.#child.stdin?.write(`${JSON.stringify(what)}\n`);
  }

  stop(): void {
    standStill(this.#child.pid as number);
  }

  goOn(): void {
    this.#child.kill('SIGCONT');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'exit');
    await Promise.all(this.proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
  }
}

/** Each ends what it began when `over` resolves. All of them cost the holder its lease. */
const FAULTS: Record<string, (holder: Holder, over: () => Promise<unknown>) => Promise<void>> = {
  async 'stopped (SIGSTOP)'(holder, over) {
    holder.stop();
    await over();
    holder.goOn();
  },
  async 'busy event loop'(holder, over) {
    holder.tell({ block: 2 * TTL_MS });
    await over();
  },
  async partition(holder, over) {
    for (const proxy of holder.proxies) proxy.suspend();
    await over();
    for (const proxy of holder.proxies) proxy.cut();
    for (const proxy of holder.proxies) proxy.heal();
  },
  async 'answers lost'(holder, over) {
    for (const proxy of holder.proxies) proxy.pause('fromZooKeeper');
    await over();
    for (const proxy of holder.proxies) proxy.cut();
    for (const proxy of holder.proxies) proxy.heal();
  },
  async 'connections cut and refused'(holder, over) {
    for (const proxy of holder.proxies) proxy.refuse();
    for (const proxy of holder.proxies) proxy.cut({ reset: true });
    await over();
    for (const proxy of holder.proxies) proxy.heal();
  },
  async 'not alive'(holder, over) {
    holder.tell({ isAlive: false });
    await over();
    holder.tell({ isAlive: true });
  },
};

test(
  'a holder has stopped working before its heir is granted, whatever costs it the lease',
  { timeout: scaled(60_000) + ROUNDS * (HEIR_MS / 2) },
  async () => {
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await spawnReplica({ root });
    const name = randomUUID();
    const holderAt = async (): Promise<Holder> =>
      new Holder(await Promise.all([a, b].map(({ url }) => proxyOf(url))), name);
    await using one = await holderAt();
    await using other = await holderAt();
    const holders = [one, other];
    const random = seededRandom('losses');

    for (let round = 0; round < ROUNDS; round += 1) {
      const holder = await eventually('somebody holds it', () => holders.find(({ holding }) => holding));
      const heir = holders.find((each) => each !== holder) as Holder;
      await a.untilWaiting(name, 1);
      const { fencingToken } = holder.holding as Grant;
      const kinds = Object.keys(FAULTS);
      // Each kind in its turn, in the order of a seed, at any moment between two heartbeats.
      const kind = kinds[(round + Math.floor(random() * kinds.length)) % kinds.length] as string;
      await passed(random() * (TTL_MS / 3));
      const granted = (): Promise<unknown> =>
        eventually(`${kind}: the heir is granted`, () => (heir.holding?.fencingToken ?? 0) > fencingToken, {
          withinMs: HEIR_MS,
        });
      await (FAULTS[kind] as (typeof FAULTS)[string])(holder, granted);
      const lost = holder.grants.find((grant) => grant.fencingToken === fencingToken) as Grant;
      await eventually(`${kind}: the holder knows`, () => lost.gone);
    }
    const gaps = gapsOf(holders.flatMap(({ grants }) => grants));
    console.log(
      `${gaps.length} losses: the last work was ${Math.round(Math.min(...gaps))} ms or more before the grant`,
    );
    expect(gaps.length).toBeGreaterThanOrEqual(ROUNDS);
    expect(Math.min(...gaps)).toBeGreaterThan(0);
  },
);

test('a holder goes on while the replicas are killed one after the other', { timeout: scaled(90_000) }, async () => {
  const root = freshRoot();
  await using a = await spawnReplica({ root });
  await using b = await spawnReplica({ root });
  const name = randomUUID();
  await using holder = new Holder(await Promise.all([a, b].map(({ url }) => proxyOf(url))), name, KEPT_TTL_MS);
  const held = await eventually('it holds', () => holder.holding);
  for (let round = 0; round < rounds(2); round += 1) {
    const [victim, rest] = round % 2 === 0 ? [a, b] : [b, a];
    await victim.kill();
    await throughout('it is held', () => holder.holding, { forMs: 2 * KEPT_TTL_MS });
    expect((await rest.showLock(name)).holders).toMatchObject([{ fencingToken: held.fencingToken }]);
    await victim.restart();
  }
  expect(holder.grants).toHaveLength(1);
});

/** From when each holder last found its signal not aborted until the next one was granted, in ms. */
function gapsOf(grants: Grant[]): number[] {
  const inOrder = [...grants].sort((one, other) => one.fencingToken - other.fencingToken);
  return inOrder.slice(1).map(({ heldAt }, index) => heldAt - (inOrder[index]?.gone?.workedAt ?? Infinity));
}

function proxyOf(url: string): Promise<TcpProxy> {
  return startTcpProxy({ port: Number(new URL(url).port), framed: false });
}
