/**
 * The judgement of a soak: what grows is said to grow, what is left is said to be left. The work itself is done by
 * `npm run soak`.
 */
import { describe, expect, it } from 'vitest';
import { judge } from '../../bench/soak/levels.js';
import { plot } from '../../bench/soak/plot.js';
import type { ReplicaSample, Sample } from '../../bench/soak/samples.js';

const REPLICA: ReplicaSample = {
  rssMiB: 200,
  heapMiB: 80,
  descriptors: 5_000,
  timers: 1_000,
  sockets: 4_900,
  watches: 1_000,
  attached: 2_500,
  waiters: 500,
  inFlight: 800,
  refused: 0,
  cpuSeconds: 0,
};

const ZOOKEEPER = { znodes: 12_000, ephemerals: 6_000, watches: 2_000, sessions: 5_002, rssMiB: 900, cpuSeconds: 0 };

function sample(at: number, replica: Partial<ReplicaSample> = {}, zookeeper: Partial<typeof ZOOKEEPER> = {}): Sample {
  const one = { ...REPLICA, ...replica };
  const replicas = [one, REPLICA];
  return { at, replicas, zookeeper: { ...ZOOKEEPER, ...zookeeper }, load: undefined, machineCpuSeconds: 0 };
}

const steady = (of: (part: number) => Sample): Sample[] => Array.from({ length: 100 }, (_, i) => of(i / 99));
const names = (judged: ReturnType<typeof judge>, is: 'isFlat' | 'isBack'): string[] =>
  judged.filter((one) => !one[is]).map(({ level }) => level.name);

describe('a soak', () => {
  it('is level when nothing grows, whatever goes up and down', () => {
    const waves = steady((part) => sample(part * 100, { heapMiB: 80 + 30 * Math.sin(part * 60) }));
    const judged = judge(sample(0), waves, sample(200));
    expect(names(judged, 'isFlat')).toEqual([]);
    expect(names(judged, 'isBack')).toEqual([]);
  });

  it.each([
    ['resident memory of the replicas', (part: number) => sample(0, { rssMiB: 200 + 100 * part })],
    ['descriptors', (part: number) => sample(0, { descriptors: 5_000 + 400 * part })],
    ['timers', (part: number) => sample(0, { timers: 1_000 + 400 * part })],
    ['znodes', (part: number) => sample(0, {}, { znodes: 12_000 + 4_000 * part })],
    ['sessions', (part: number) => sample(0, {}, { sessions: 5_002 + 100 * part })],
  ])('says that %s grow', (name, of) => {
    expect(names(judge(sample(0), steady(of), sample(0)), 'isFlat')).toEqual([name]);
  });

  it('says what was left behind', () => {
    const after = sample(200, { attached: 2_501, timers: 1_030 }, { ephemerals: 6_003 });
    const left = names(
      judge(
        sample(0),
        steady(() => sample(0)),
        after,
      ),
      'isBack',
    );
    expect(left).toEqual(['timers', 'ephemeral znodes', 'attached leases']);
  });

  it('draws every point between the axes, and no text that is not escaped', () => {
    const svg = plot('a < b & c', 'MiB', [{ name: 'x', points: [[0, 0], [60, 125], [120, NaN]] }]); // prettier-ignore
    expect(svg).toContain('a &lt; b &amp; c');
    const [, points = ''] = /points="([^"]*)"/.exec(svg) ?? [];
    expect(points.split(' ')).toHaveLength(2);
    for (const [x, y] of points.split(' ').map((point) => point.split(',').map(Number)) as [number, number][]) {
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x).toBeLessThanOrEqual(760);
      expect(y).toBeGreaterThanOrEqual(34);
      expect(y).toBeLessThanOrEqual(240);
    }
  });
});
