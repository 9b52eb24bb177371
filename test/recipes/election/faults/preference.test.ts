/** Candidates that are preferred, where they are cut off, or many things happen at once. */
import { expect, test } from 'vitest';
import { advance } from '../../../../src/recipes/election/preference.js';
import { decodeRecord, encodeRecord, sortLine, type ContenderRecord } from '../../../../src/recipes/line/contender.js';
import { Place } from '../../../../src/recipes/line/place.js';
import { campaign, electionOf, leaseFor, speak } from '../client.js';
import type { LeaseHandle } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

interface Elected {
  elected: boolean;
  candidateId: string;
  fencingToken: number;
}

/** The last candidate's place, as its replica knows it, and with another preference than it came with. */
async function lastPlace({ gateway: { context } }: Replica, name: string, preference: number): Promise<Place> {
  const directory = context.layout.line('election', 'default', name);
  const line = sortLine((await context.control.getChildren(directory)).children);
  const last = line.at(-1)!;
  const { data, stat } = await context.control.getData(`${directory}/${last.name}`);
  const record: ContenderRecord = { ...decodeRecord(data)!, candidate: { acknowledged: false, preference } };
  return new Place(context, directory, last, stat, record);
}

const REQUEST = { namespace: 'default', requester: { signal: new AbortController().signal } as never };

test('one that dies after it has looked passes nobody, nor one whose own place was passed (C96)', async () => {
  await using pair = await startPair();
  const { a } = pair;
  const { context } = a.gateway;
  for (let i = 0; i < 2; i += 1) await campaign(a, 'dies', await leaseFor(a));
  const lease = await leaseFor(a);
  await campaign(a, 'dies', lease);
  const place = await lastPlace(a, 'dies', 5);
  const line = context.lines.enter(context.layout.line('election', 'default', 'dies'), 'election');
  const request = { ...REQUEST, name: 'dies', deadline: performance.now() + scaled(10_000) };
  await line.list(request.deadline);
  await speak(a, 'dies', 'resign', lease);
  const before = (await electionOf(a, 'dies')).candidates;
  expect(before).toHaveLength(2);
  expect(await advance(context, request, place, line)).toBe('lost');
  expect((await electionOf(a, 'dies')).candidates).toEqual(before);
  context.lines.leave(line);
});

test('one that knew somebody to stand who leads by now does not depose it (C96)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const { context } = a.gateway;
  const leases = [await leaseFor(a), await leaseFor(a), await leaseFor(a)];
  for (const lease of leases) await campaign(a, 'leads', lease);
  const place = await lastPlace(a, 'leads', 5);
  const line = context.lines.enter(context.layout.line('election', 'default', 'leads'), 'election');
  const request = { ...REQUEST, name: 'leads', deadline: performance.now() + scaled(10_000) };
  await line.list(request.deadline);
  await speak(b, 'leads', 'resign', leases[0]!);
  expect(await advance(context, request, place, line)).toBe('written');
  expect((await electionOf(a, 'leads')).candidateCount).toBe(2);
  expect((await speak(a, 'leads', 'acknowledge', leases[1]!)).status).toBe(200);
  context.lines.leave(line);
});

test('a campaign that was cut off before it passed the others passes them when it is repeated (C96)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  for (let i = 0; i < 2; i += 1) await campaign(a, 'cut', await leaseFor(a));
  const lease = await leaseFor(a);
  const { candidateId } = (await campaign(a, 'cut', lease)).body as Elected;
  const { path, record, version } = await lastPlace(a, 'cut', 5);
  await a.gateway.context.control.setData(path, encodeRecord(record), version);
  expect((await electionOf(b, 'cut')).candidates.map((each) => each.candidateId)[2]).toBe(candidateId);
  expect((await campaign(b, 'cut', lease)).body).toMatchObject({ candidateId, position: 1 });
});

test(
  'whoever comes and goes meanwhile: tokens rise, nobody leads beside another, and all have led in the end (C96)',
  async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    const replicas = [a, b];
    let leading = 0;
    const tokens: number[] = [];
    const run = async (replica: Replica, preference: number): Promise<void> => {
      const lease: LeaseHandle = await leaseFor(replica, { ttlMs: 6_000 });
      for (let term = 0; term < 3; term += 1) {
        let elected: Elected | undefined;
        while (elected?.elected !== true) {
          const body = { preference, waitMs: 50_000, requestId: `t${term}` };
          const reply = await campaign(replica, 'busy', lease, body);
          expect([200, 202]).toContain(reply.status);
          elected = reply.body as Elected;
        }
        leading += 1;
        expect(leading).toBe(1);
        tokens.push(elected.fencingToken);
        expect((await speak(replica, 'busy', 'acknowledge', lease, { requestId: `t${term}` })).status).toBe(200);
        leading -= 1;
        expect((await speak(replica, 'busy', 'resign', lease, { requestId: `t${term}` })).status).toBe(204);
      }
    };
    await Promise.all([0, 0, 1, 2, 3, 3].map((preference, i) => run(replicas[i % 2]!, preference)));
    expect(tokens).toEqual(tokens.toSorted((x, y) => x - y));
    expect(tokens).toHaveLength(18);
    await eventually('nobody stands', async () => (await electionOf(a, 'busy')).candidateCount === 0);
    for (const { gateway } of replicas) {
      const { control, layout } = gateway.context;
      expect((await control.getChildren(layout.line('election', 'default', 'busy'))).children).toEqual([]);
    }
  },
  scaled(90_000),
);
