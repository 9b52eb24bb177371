/** Which names are labels: few at a moment, few over time, none if so set. */
import { describe, expect, test } from 'vitest';
import { createMetrics } from '../../../src/metrics/metrics.js';
import { ContendedNames } from '../../../src/recipes/waiting/contended-names.js';
import { Contention } from '../../../src/recipes/waiting/contention.js';
import { HOUR, MINUTE } from '../../../src/time.js';
import { eventually } from '../../support/eventually.js';
import { startReplica } from '../../support/start-gateway.js';

function pathOf(name: string, namespace = 'default'): string {
  return `/postern/ns/${namespace}/locks/${name}`;
}

function observed(namesMax: number) {
  const contention = new Contention();
  const metrics = createMetrics({ version: 'test', processMetrics: false });
  const names = new ContendedNames(contention, metrics, namesMax);
  const shownAt = async (now: number): Promise<Record<string, number>> => {
    names.tell(now);
    const { values } = await metrics.contendedWaiters.get();
    return Object.fromEntries(
      values.map(({ labels, value }) => [`${labels.kind} ${labels.namespace}/${labels.name}`, value]),
    );
  };
  return { contention, metrics, shownAt };
}

describe('the names that are labels', () => {
  test('are those with the longest lines, and go when nobody waits for them', async () => {
    const { contention, metrics, shownAt } = observed(2);
    const ends = ['long', 'long', 'long', 'middle', 'middle', 'short'].map((name) =>
      contention.begin('lock', pathOf(name)),
    );
    contention.begin('lock', pathOf('middle', 'other'));
    expect(await shownAt(0)).toEqual({ 'lock default/long': 3, 'lock default/middle': 2 });
    const { values } = await metrics.oldestWaitSeconds.get();
    expect(values.find(({ labels }) => labels.kind === 'lock')?.value).toBeGreaterThanOrEqual(0);
    for (const end of ends.slice(0, 5)) end();
    expect(await shownAt(1)).toEqual({ 'lock default/short': 1, 'lock other/middle': 1 });
  });

  test('are at most ten times as many within an hour, however they change', async () => {
    const { contention, shownAt } = observed(3);
    const seen = new Set<string>();
    let turn = 0;
    const nextTurn = async (now: number): Promise<number> => {
      turn += 1;
      const ends = [1, 2, 3].map((i) => contention.begin('lock', pathOf(`name-${turn}-${i}`)));
      const shown = Object.keys(await shownAt(now));
      for (const name of shown) seen.add(name);
      for (const end of ends) end();
      return shown.length;
    };
    for (let i = 0; i < 50; i += 1) await nextTurn(i * MINUTE);
    expect(seen.size).toBe(30);
    const stays = contention.begin('lock', pathOf('name-1-1'));
    expect(await shownAt(50 * MINUTE)).toEqual({ 'lock default/name-1-1': 1 });
    stays();
    expect(await nextTurn(51 * MINUTE)).toBe(0);
    // The first ones were last told of more than an hour ago.
    expect(await nextTurn(HOUR + 5 * MINUTE)).toBe(3);
  });

  test('are none where the setting says so, and the rest is told all the same', async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_CONTENDED_LABELS: '0' } });
    const [holder, waiter] = [await replica.createLease(), await replica.createLease()];
    await replica.hold('secret', holder);
    const waiting = replica.acquire('secret', waiter, { waitMs: 20_000 });
    await replica.untilWaiting('secret', 1);
    const text = await eventually('the wait is told of', async () => {
      const { body } = await replica.call('GET', '/metrics');
      return /^postern_oldest_wait_seconds\{kind="lock"\} 0\.\d/m.test(String(body)) && String(body);
    });
    expect(text).not.toContain('secret');
    expect(text).toContain('postern_waiters{kind="lock"} 1');
    await replica.endLease(holder);
    expect((await waiting).status).toBe(200);
  });
});
