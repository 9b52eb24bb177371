/** Ten thousand additions to one counter through two replicas: what they cost, and what they leave behind. */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startPair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { countBelow } from '../../../support/zookeeper/instruments.js';

const USES = 10_000;
const AT_ONCE = 100;

test(
  '10 000 additions with a requestId leave one znode and their directories behind',
  { timeout: scaled(240_000) },
  async () => {
    await using pair = await startPair({ housekeeping: { everyMs: 200, idleMs: 3_600_000, markMs: 20_000 } });
    const { control, layout } = pair.a.gateway.context;
    const marks = async (): Promise<number> => {
      const directory = layout.counterMarks('default');
      const { children } = await control.getChildren(directory);
      return (await countBelow(control, directory)) - children.length;
    };
    const startedAt = performance.now();
    for (let i = 0; i < USES; i += AT_ONCE)
      await Promise.all(
        Array.from({ length: AT_ONCE }, async (_, j) => {
          const replica = [pair.a, pair.b][j % 2]!;
          const { status } = await replica.call('POST', '/v1/counters/visits/add', {
            body: { by: 1, requestId: `use-${i + j}` },
          });
          expect(status).toBe(200);
        }),
      );
    const ms = performance.now() - startedAt;
    const most = await marks();
    expect(await pair.b.expect(200, 'GET', '/v1/counters/visits')).toEqual({ name: 'visits', value: USES });
    await eventually('the marks are gone', async () => (await marks()) === 0, { withinMs: scaled(90_000) });
    const transactions = await Promise.all(
      [pair.a, pair.b].map((replica) => replica.metric('postern_counters_transactions_total')),
    );
    const { children: directories } = await control.getChildren(layout.counterMarks('default'));
    expect(directories.length).toBeLessThanOrEqual(256);
    expect(await countBelow(control, layout.counters('default'))).toBe(1);
    expect(await pair.b.expect(200, 'GET', '/v1/counters/visits')).toEqual({ name: 'visits', value: USES });
    console.log(
      `${USES} additions in ${Math.round(ms)} ms, ${transactions.join(' + ')} transactions; marks: ${most} at the end, 0 later`,
    );
  },
);
