/**
 * The scenarios in which a design like this one comes to two holders, over and over with random timing inside the
 * window of each. `FAULT_ROUNDS=1000` for certainty; `FAULT_SEED` repeats a run. (C2 needs an ensemble: see
 * stale-servers.test.ts.)
 */
import { expect, test } from 'vitest';
import { parentOf } from '../../../../src/zookeeper/paths.js';
import type { Reply } from '../../../support/http/client.js';
import { eventually, passed } from '../../../support/eventually.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import type { TcpProxy } from '../../../support/zookeeper/tcp-proxy.js';
import { scaled } from '../../../support/timing.js';
import { Resource, rounds, seededRandom, startCuttable, Witness } from '../../../support/scene.js';

const TTL_MS = 60_000;
const WAIT_MS = 20_000;
const TOTAL = rounds(30);
/**
 * A round takes a fraction of a second; a line that is stuck ends its round after `WAIT_MS` with a 409, which fails it.
 */
const TIMEOUT = { timeout: scaled(60_000) + TOTAL * 1_000 };

interface Stage {
  a: Replica;
  b: Replica;
  proxy: TcpProxy;
  witness: Witness;
  resource: Resource;
  random: () => number;
  /** Lets up to `ms` pass: where in the window something happens is what the rounds vary. */
  within: (ms: number) => Promise<void>;
}

/** Plays `round` again and again, and looks between the rounds whether the line is empty and nobody met anybody. */
async function play(scenario: string, round: (stage: Stage, name: string, i: number) => Promise<void>): Promise<void> {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const random = seededRandom(scenario);
  const resource = new Resource();
  const within = (ms: number): Promise<void> => passed(random() * ms);
  const stage = { a: cuttable.replica, b, proxy: cuttable.proxy, witness, resource, random, within };
  const durations: number[] = [];
  for (let i = 0; i < TOTAL; i += 1) {
    const startedAt = performance.now();
    await round(stage, 'contended', i);
    durations.push(performance.now() - startedAt);
    cuttable.proxy.heal();
    await eventually('the line is empty', async () => (await witness.line('contended')).length === 0);
    expect(resource.violations).toEqual([]);
  }
  durations.sort((x, y) => x - y);
  const [median, slowest] = [durations[TOTAL >> 1] as number, durations.at(-1) as number];
  console.log(
    `${scenario}: ${TOTAL} rounds, ${resource.used} holds, ${resource.violations.length} violations, median ${Math.round(median)} ms, slowest ${Math.round(slowest)} ms`,
  );
}

/** Enters as soon as the answer says so, and not a second time for the same hold. */
function entering({ resource }: Stage, who: string, answer: Promise<Reply>): Promise<Reply> {
  return answer.then((reply) => {
    if (reply.status === 200) resource.enter(who, (reply.body as { fencingToken: number }).fencingToken);
    return reply;
  });
}

/** Holds for a moment and releases. */
async function turn(stage: Stage, who: string, answer: Promise<Reply>, release: () => Promise<Reply>): Promise<void> {
  expect((await entering(stage, who, answer)).status).toBe(200);
  await stage.within(20);
  stage.resource.leave(who);
  expect((await release()).status).toBe(204);
}

test('a left attempt and its repetition, with others in line, never make two holders (C1)', TIMEOUT, async () => {
  await play('C1', async (stage, name) => {
    const { a, b, proxy, resource, within, random } = stage;
    const leases = await Promise.all([0, 1, 2].map(() => b.createLease({ ttlMs: TTL_MS })));
    const [holder, me, next] = leases as [(typeof leases)[0], (typeof leases)[0], (typeof leases)[0]];
    await entering(stage, 'holder', b.acquire(name, holder));
    const gone = new AbortController();
    const left = a.acquire(name, me, { waitMs: WAIT_MS }, { signal: gone.signal }).catch(() => undefined);
    await b.untilWaiting(name, 1);
    const queued = turn(stage, 'next', (random() < 0.5 ? a : b).acquire(name, next, { waitMs: WAIT_MS }), () =>
      b.release(name, next),
    );
    await b.untilWaiting(name, 2);
    proxy.delay('fromZooKeeper', Math.round(random() * 25)); // A hears late
    proxy.delay('toZooKeeper', Math.round(random() * 25)); // and what it does comes late
    const leaving = within(30).then(() => gone.abort());
    const releasing = within(30).then(() => {
      resource.leave('holder');
      return b.release(name, holder);
    });
    await within(30);
    // When A had been granted already and gives that back, I come after `next`.
    const repeated = turn(stage, 'me', b.acquire(name, me, { waitMs: WAIT_MS }), () => b.release(name, me));
    await Promise.all([queued, repeated, leaving, releasing, left]);
    await Promise.all(leases.map((lease) => b.endLease(lease)));
  });
});

test(
  'an abandoned place at the head, its client that comes back and a newcomer never make two holders (C3)',
  TIMEOUT,
  async () => {
    await play('C3', async (stage, name) => {
      const { a, b, proxy, witness, resource, within, random } = stage;
      const leases = await Promise.all([0, 1, 2].map(() => b.createLease({ ttlMs: TTL_MS })));
      const [holder, me, rival] = leases as [(typeof leases)[0], (typeof leases)[0], (typeof leases)[0]];
      await entering(stage, 'holder', b.acquire(name, holder));
      expect((await b.acquire(name, me, { waitMs: 1, keepPlace: true })).status).toBe(202);
      const [, place] = await witness.line(name);
      if (place === undefined) throw new Error('the place was not kept');
      await witness.rewrite(place, { waitUntil: 1 }); // long ago
      proxy.delay('fromZooKeeper', Math.round(random() * 10));
      resource.leave('holder');
      await b.release(name, holder);
      const coming = within(25).then(() => entering(stage, 'me', b.acquire(name, me)));
      // A client that ends its lease leaves before that, and does not come in by an answer that it gets later.
      let [isIn, isGone] = [false, false];
      const newcomer = within(25).then(async () => {
        const reply = await a.acquire(name, rival);
        if (isGone) return reply;
        isIn = reply.status === 200;
        return entering(stage, 'rival', Promise.resolve(reply));
      });
      const ending =
        random() < 0.2
          ? within(25).then(() => {
              if (isIn) resource.leave('rival');
              [isIn, isGone] = [false, true];
              return b.endLease(rival);
            })
          : undefined;
      const answers = await Promise.all([coming, newcomer]);
      await ending;
      if (answers[0].status === 200) resource.leave('me');
      if (isIn) resource.leave('rival');
      if (ending === undefined) expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
      await Promise.all(leases.map((lease) => b.endLease(lease)));
    });
  },
);

test('repetitions whose answers and connections are lost never hold two places (C6)', TIMEOUT, async () => {
  await play('C6', async (stage, name) => {
    const { a, b, proxy, witness, resource, within, random } = stage;
    const [me, next] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
    if (random() < 0.5) void proxy.loseReply(15, 14);
    const cutting = within(25).then(() => random() < 0.7 && proxy.cut());
    const tries = [a, b, a].map((replica) => within(15).then(() => replica.acquire(name, me, { waitMs: WAIT_MS })));
    const answers = await Promise.all(tries);
    await cutting;
    proxy.heal();
    const held = answers
      .filter(({ status }) => status === 200)
      .map(({ body }) => (body as { fencingToken: number }).fencingToken);
    // Tries at once may take the place over from each other, which is a conflict; one of them has it in the end.
    expect(answers.map(({ status }) => status).filter((status) => status !== 200 && status !== 409)).toEqual([]);
    expect(new Set(held).size).toBe(1);
    resource.enter('me', held[0] as number);
    const line = await witness.line(name);
    expect(line.map(({ stat }) => stat.czxid)).toEqual([held[0]]);
    const queued = entering(stage, 'next', (random() < 0.5 ? a : b).acquire(name, next, { waitMs: WAIT_MS }));
    await b.untilWaiting(name, 1);
    resource.leave('me');
    expect((await (random() < 0.5 ? a : b).release(name, me)).status).toBe(204);
    expect((await queued).status).toBe(200);
    resource.leave('next');
    await b.endLease(next);
    await b.endLease(me);
  });
});

test('late releases never free a hold that has the same path in a directory made anew (C10)', TIMEOUT, async () => {
  await play('C10', async (stage, name) => {
    const { a, b, proxy, witness, resource, within, random } = stage;
    const [me, rival] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
    const directory = witness.directory(name);
    const anew = async (): Promise<void> => {
      await witness.control.removeRecursive(directory);
      await witness.control.ensurePath(parentOf(directory));
      await witness.control.create(directory, undefined, { mode: 'container' }); // as Curator does
    };
    await anew();
    const first = await entering(stage, 'me', a.acquire(name, me));
    const { holdId } = first.body as { holdId: string };
    const [old] = await witness.line(name);
    resource.leave('me');
    await b.release(name, me);
    await anew();
    proxy.delay('toZooKeeper', Math.round(random() * 10));
    const again = within(10).then(() => entering(stage, 'me', b.acquire(name, me)));
    const late = [a, b, a].map((replica) => within(25).then(() => replica.release(name, me, { holdId })));
    const answer = await again;
    expect(answer.status).toBe(200);
    expect((await witness.line(name))[0]?.path).toBe(old?.path);
    const refused = [a, b].map((replica) =>
      within(20).then(() => entering(stage, 'rival', replica.acquire(name, rival))),
    );
    for (const reply of await Promise.all(late)) expect(reply.body).toMatchObject({ code: 'not-holder' });
    for (const reply of await Promise.all(refused)) expect(reply.body).toMatchObject({ code: 'lock-held' });
    expect(await witness.holder(name)).toBe((answer.body as { fencingToken: number }).fencingToken);
    resource.leave('me');
    expect((await b.release(name, me)).status).toBe(204);
    await b.endLease(me);
    await b.endLease(rival);
  });
});
