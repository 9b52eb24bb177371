/** Messages to a group, where answers are lost, others come in between and housekeeping drops (protocol C60 to C62). */
import { describe, expect, test } from 'vitest';
import { TidyMarks } from '../../../../src/recipes/housekeeping/marks.js';
import { Sweep } from '../../../../src/recipes/housekeeping/sweep.js';
import { TidyMessages } from '../../../../src/recipes/group/messages/tidy.js';
import type { Coordination } from '../../../../src/recipes/coordination.js';
import { HOUR } from '../../../../src/time.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { eventually, passed } from '../../../support/eventually.js';
import { beforeMulti, startCuttable } from '../../../support/scene.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { countBelow } from '../../../support/zookeeper/instruments.js';
import { bodiesOf, cursorOf, messagesOf, post } from '../client.js';

/** When the replica is about to write to the log. */
function beforePost(replica: Replica, meanwhile: () => unknown): void {
  const path = replica.gateway.context.layout.groupMessages('default', 'team');
  beforeMulti(replica, meanwhile, (operations) => operations.some((one) => one.path === path));
}

/** So that no transaction is refused for the want of one. */
async function makeMarkDirectories({ gateway }: Replica): Promise<void> {
  const { control, layout } = gateway.context;
  const buckets = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'));
  await control.ensurePath(layout.groupMessageMarks('default'));
  await Promise.all(buckets.map((bucket) => control.ensurePath(`${layout.groupMessageMarks('default')}/${bucket}`)));
}

const sweepOf = (context: Coordination): Sweep => new Sweep(context, () => false);
const all = (replica: Replica): Promise<unknown[]> => messagesOf(replica, 'team', 'after=0').then(bodiesOf);

describe('a lost answer', () => {
  test.each(['loseReply', 'loseRequest'] as const)('of ZooKeeper (%s) posts a message once', async (lose) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    await makeMarkDirectories(b);
    await post(a, 'team', 'first');
    for (const requestId of [undefined, 'r1']) {
      let lost: Promise<void> | undefined;
      beforePost(a, () => void (lost = proxy[lose](OPCODE.multi)));
      const before = await cursorOf(b, 'team');
      const number = await post(a, 'team', 'mine', requestId);
      await lost;
      expect(lost).not.toBe(undefined);
      expect(await messagesOf(b, 'team', `after=${before}`)).toMatchObject({
        messages: [{ number, body: 'mine' }],
        cursor: number,
      });
    }
  });

  test('of ZooKeeper while others post: the message is found among theirs', async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    await post(b, 'team', 'first');
    proxy.refuse();
    let lost: Promise<void> | undefined;
    beforePost(a, () => void (lost = proxy.loseReply(OPCODE.multi)));
    const posting = post(a, 'team', 'mine');
    await eventually('it is there', async () => (await all(b)).includes('mine'));
    await lost;
    await post(b, 'team', 'behind it');
    proxy.accept();
    const number = await posting;
    expect(await all(b)).toEqual(['first', 'mine', 'behind it']);
    expect((await messagesOf(b, 'team', `after=${number}`)).messages).toHaveLength(1);
  });

  test('for good is outcome-unknown, and the same request at another replica finds the message', async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({
      root,
      settings: { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(2_000)) },
    });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    await makeMarkDirectories(b);
    await post(a, 'team', 'first');
    let lost: Promise<void> | undefined;
    beforePost(a, () => void (lost = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse())));
    const body = { body: 'mine', requestId: 'r1' };
    const unknown = await a.call('POST', '/v1/groups/team/messages', { body });
    await lost;
    expect(unknown).toMatchObject({ status: 503, body: { code: 'outcome-unknown', outcome: 'unknown' } });
    expect(await b.call('POST', '/v1/groups/team/messages', { body })).toMatchObject({ status: 200 });
    expect(await all(b)).toEqual(['first', 'mine']);
  });
});

describe('between the reading and the write', () => {
  test('somebody else posts: both messages are there, in the order of their numbers', async () => {
    await using pair = await startPair();
    await post(pair.a, 'team', 'first');
    let other = 0;
    beforePost(pair.a, async () => void (other = await post(pair.b, 'team', 'faster')));
    expect(await post(pair.a, 'team', 'slower')).toBe(other + 1);
    expect(await all(pair.b)).toEqual(['first', 'faster', 'slower']);
  });

  test('the same request comes through another replica: one message', async () => {
    await using pair = await startPair();
    await makeMarkDirectories(pair.b);
    await post(pair.a, 'team', 'first');
    let number = 0;
    beforePost(pair.a, async () => void (number = await post(pair.b, 'team', 'mine', 'r1')));
    const body = { body: 'mine', requestId: 'r1' };
    expect(await pair.a.call('POST', '/v1/groups/team/messages', { body })).toMatchObject({
      status: 200,
      body: { number },
    });
    expect(await all(pair.b)).toEqual(['first', 'mine']);
  });

  test('a reader whose messages are dropped just then is told so', async () => {
    await using pair = await startPair({ settings: { POSTERN_GROUP_MESSAGES: '2' } });
    const cursor = await cursorOf(pair.a, 'team');
    for (const body of [1, 2]) await post(pair.b, 'team', body);
    const { control } = pair.a.gateway.context;
    const read = control.multiRead.bind(control);
    control.multiRead = async (...what) => {
      control.multiRead = read;
      await post(pair.b, 'team', 3);
      return read(...what);
    };
    const page = await messagesOf(pair.a, 'team', `after=${cursor}`);
    expect(page).toMatchObject({ missed: true });
    expect(bodiesOf(page)).toEqual([2, 3]);
  });
});

test('a message that somebody has removed beside us stops neither readers nor those who post', async () => {
  await using replica = await startReplica({ settings: { POSTERN_GROUP_MESSAGES: '2' } });
  const cursor = await cursorOf(replica, 'team');
  const first = await post(replica, 'team', 1);
  const { control, layout } = replica.gateway.context;
  await control.delete(`${layout.groupMessages('default', 'team')}/${first}`);
  await post(replica, 'team', 2);
  expect(await messagesOf(replica, 'team', `after=${cursor}`)).toMatchObject({ messages: [{ body: 2 }] });
  for (const body of [3, 4]) await post(replica, 'team', body);
  expect(await all(replica)).toEqual([3, 4]);
});

describe('housekeeping', () => {
  const AGE_MS = scaled(300);

  test('drops messages that are too old, and no others; who has not read them is told', async () => {
    await using pair = await startPair();
    const { context } = pair.a.gateway;
    const cursor = await cursorOf(pair.b, 'team');
    for (let i = 0; i < 120; i += 1) await post(pair.a, 'team', i);
    await new TidyMessages(context, HOUR).sweep(sweepOf(context));
    expect(await all(pair.b)).toHaveLength(100);
    const last = await cursorOf(pair.b, 'team');
    await passed(AGE_MS);
    const young = await post(pair.b, 'team', 'young');
    await new TidyMessages(context, AGE_MS).sweep(sweepOf(context));
    expect(await messagesOf(pair.b, 'team', `after=${cursor}`)).toMatchObject({
      messages: [{ number: young, body: 'young' }],
      missed: true,
    });
    expect(await messagesOf(pair.b, 'team', `after=${last}`)).toMatchObject({ missed: false });
    expect(await pair.a.metric('postern_group_messages_total', { outcome: 'expired' })).toBe(120);
    expect(await countBelow(context.control, context.layout.groupMessages('default', 'team'))).toBe(1);
  });

  test('leaves what is posted while it drops', async () => {
    await using pair = await startPair();
    const { context } = pair.a.gateway;
    await post(pair.a, 'team', 'old');
    await passed(AGE_MS);
    beforePost(pair.a, () => post(pair.b, 'team', 'meanwhile'));
    await new TidyMessages(context, AGE_MS).sweep(sweepOf(context));
    expect(await all(pair.b)).toEqual(['old', 'meanwhile']);
  });

  test('removes a log without messages; cursors from before stay good, and know what they missed', async () => {
    await using pair = await startPair();
    const { context } = pair.a.gateway;
    const log = context.layout.groupMessages('default', 'team');
    const tidy = (): Promise<void> => new TidyMessages(context, AGE_MS, AGE_MS).sweep(sweepOf(context));
    const never = await cursorOf(pair.b, 'team');
    const numbers = [await post(pair.a, 'team', 1), await post(pair.a, 'team', 2)];
    await tidy();
    expect(await context.control.exists(log)).not.toBe(undefined);
    await eventually('it is removed', async () => {
      await tidy();
      return (await context.control.exists(log)) === undefined;
    });
    const between = await cursorOf(pair.b, 'team');
    expect(await messagesOf(pair.b, 'team', `after=${numbers[0]}`)).toMatchObject({ messages: [], missed: true });
    const number = await post(pair.b, 'team', 'new');
    expect(number).toBeGreaterThan(Math.max(between, ...numbers));
    for (const after of [never, ...numbers])
      expect(await messagesOf(pair.b, 'team', `after=${after}`)).toMatchObject({
        messages: [{ number, body: 'new' }],
        missed: true,
      });
    expect(await messagesOf(pair.b, 'team', `after=${between}`)).toMatchObject({
      messages: [{ number, body: 'new' }],
      missed: false,
    });
  });

  test('removes the marks of requests that can no longer be repeated', async () => {
    await using replica = await startReplica();
    const { context } = replica.gateway;
    const { control, layout } = context;
    await post(replica, 'team', 1, 'r1');
    const tidy = new TidyMarks((namespace) => layout.groupMessageMarks(namespace), 50);
    const marks = (): Promise<number> => countBelow(control, layout.groupMessageMarks('default'));
    const made = await marks();
    await eventually('the mark is removed', async () => {
      await tidy.sweep(sweepOf(context));
      return (await marks()) === made - 1;
    });
  });
});
