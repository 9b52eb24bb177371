/**
 * Three replicas on an ensemble, with clocks that differ by ten seconds, are killed and deposed while a leader of
 * ZooKeeper dies: of hundreds of occurrences each is pushed once, in order, and none is left out.
 */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eventually, passed } from '../../../support/eventually.js';
import { rounds, seededRandom } from '../../../support/scene.js';
import { spawnReplica, startReplica, type ReplicaProcess } from '../../../support/start-gateway.js';
import { freshRoot, startEnsemble } from '../../../support/start-zookeeper.js';
import { scaled, timing } from '../../../support/timing.js';
import { CLOCK_FILE, CLOCK_MODULE } from '../../../torture/clock-jump.js';
import { expectEverySecond, occurrencesOf, popAll, put, SECONDS, show, type PoppedMessage } from '../client.js';

const SCHEDULES = 20;
const KILLS = rounds(2);
const SKEWS_MS = [5_000, -5_000, 0];

test(
  'each occurrence is pushed once, whoever is killed, deposed or wrong about the time',
  { timeout: scaled(90_000) + KILLS * 15_000 },
  async () => {
    const random = seededRandom('killed schedulers');
    await using ensemble = await startEnsemble();
    const root = freshRoot();
    const zookeeper = ensemble.connectString;
    const directory = await mkdtemp(join(tmpdir(), 'postern-schedules-'));
    const [a, b, c] = await Promise.all(SKEWS_MS.map((skewMs, i) => skewed(join(directory, String(i)), skewMs)));
    await using _a = a!;
    await using _b = b!;
    await using _c = c!;
    await using witness = await startReplica({ root, zookeeper, settings: SECONDS });
    const { control, layout } = witness.gateway.context;
    const names = Array.from({ length: SCHEDULES }, (_, i) => `job-${i}`);
    await Promise.all(names.map((name) => put(witness, {}, name)));
    const fired = async (): Promise<string> => (await show(witness, names[0])).fired?.occurrence ?? '';
    const goesOn = async (what: string): Promise<void> => {
      const before = await fired();
      await eventually(`it is fired on after ${what}`, async () => (await fired()) > before, {
        withinMs: timing.processMs,
        everyMs: 50,
      });
    };
    await goesOn('the start');
    const replicas = [a!, b!, c!];
    for (let i = 0; i < KILLS; i += 1) {
      const leader = await eventually(
        'one of them fires',
        async () => {
          const office = await control.exists(layout.scheduler);
          // Deposed itself, it fires on beside the other one to the end.
          if (office?.ephemeralOwner === control.sessionId) await control.delete(layout.scheduler);
          return firingOne(replicas);
        },
        { withinMs: timing.processMs },
      );
      if (i % 2 === 0) {
        await leader.kill();
        await goesOn('a kill');
        await leader.restart();
      } else {
        // Another one takes over; this one fires on until it looks.
        await control.delete(layout.scheduler).catch(() => undefined);
        if (i === 1) await (await ensemble.leader()).kill();
        await passed(random() * 1_000);
        await goesOn('a deposition');
      }
    }
    await Promise.all(names.map((name) => witness.expect(204, 'DELETE', `/v1/schedules/${name}`)));
    const messages: PoppedMessage[] = await popAll(witness);
    expect(messages.length).toBeGreaterThan(SCHEDULES * 10);
    for (const name of names) expectEverySecond(occurrencesOf(messages, name));
    console.log(`${messages.length} occurrences of ${SCHEDULES} schedules, ${KILLS} kills and depositions`);

    async function skewed(file: string, skewMs: number): Promise<ReplicaProcess> {
      await writeFile(file, String(skewMs));
      const clock = { NODE_OPTIONS: `--import ${CLOCK_MODULE}`, [CLOCK_FILE]: file };
      return spawnReplica({ root, zookeeper, settings: { ...SECONDS, ...clock } });
    }
  },
);

async function firingOne(replicas: readonly ReplicaProcess[]): Promise<ReplicaProcess | undefined> {
  for (const replica of replicas) {
    const { body } = await replica.call('GET', '/metrics');
    if (/^postern_schedules [1-9]/m.test(String(body))) return replica;
  }
  return undefined;
}
