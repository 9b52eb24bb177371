/** Two ensembles, a file that says which namespace lies on which, and replicas that go by it. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/eventually.js';
import type { Client } from '../support/http/client.js';
import { startReplica, type Replica, type ReplicaOptions } from '../support/start-gateway.js';
import { freshRoot, startZooKeeper, type TestZooKeeper } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';

export type Namespaces = Record<string, string | { ensemble: string; closed?: boolean }>;

/** How often a replica looks at its file, ms. */
const POLL_MS = 50;
/** Far above what a fresh server has counted: so tokens rise in a move to `west`. */
const FLOOR = 2 ** 40;

export const inNamespace = (namespace: string): { headers: { namespace: string } } => ({ headers: { namespace } });

export class Two implements AsyncDisposable {
  readonly root = freshRoot();
  readonly directory = mkdtempSync(join(tmpdir(), 'postern-ensembles-'));

  constructor(
    readonly east: TestZooKeeper,
    readonly west: TestZooKeeper,
  ) {}

  /** Writes the file. @param at where it says that `west` is @returns its path */
  file(
    version: number,
    namespaces: Namespaces,
    name = 'ensembles.json',
    at = this.west.connectString,
    fencingFloor = FLOOR,
  ): string {
    const path = join(this.directory, name);
    const west = { zookeeper: at, fencingFloor };
    writeFileSync(path, JSON.stringify({ version, ensembles: { west }, namespaces }));
    return path;
  }

  start(path: string, options: ReplicaOptions = {}): Promise<Replica> {
    const settings = { POSTERN_ENSEMBLES: path, ...options.settings };
    const { root } = this;
    return startReplica({ zookeeper: this.east.connectString, root, pollMs: POLL_MS, ...options, settings });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.east.stop(), this.west.stop()]);
  }
}

export async function startTwo(): Promise<Two> {
  const [east, west] = await Promise.all([startZooKeeper(), startZooKeeper()]);
  return new Two(east, west);
}

/** Puts the file in force, and stops: for what would not come into force later. */
export async function startOnce(two: Two, path: string): Promise<void> {
  await using replica = await two.start(path);
  await untilInForce(replica, 1);
}

export async function reasonsOf(replica: Client): Promise<string[]> {
  const { body } = await replica.call('GET', '/readyz');
  return body.reasons;
}

export function untilRefused(replica: Client, why: RegExp): Promise<unknown> {
  return eventually(
    `the file is refused: ${why.source}`,
    async () => (await reasonsOf(replica)).some((reason) => why.test(reason)),
    { withinMs: timing.processMs },
  );
}

/** The replica serves these ensembles, and all by this version of the map. */
export async function untilInForce(replica: Client, version: number, names = ['default', 'west']): Promise<void> {
  const isInForce = async (): Promise<boolean> => {
    const text = (await replica.call('GET', '/metrics')).body as string;
    return names.every(
      (name) =>
        text.includes(`postern_ensemble_map_version{ensemble="${name}"} ${version}\n`) &&
        text.includes(`postern_ensemble_ready{ensemble="${name}"} 1\n`),
    );
  };
  // It may wait for the end of a session.
  await eventually(`version ${version} is in force`, isInForce, { withinMs: timing.processMs });
}
