/** The simulation of many replicas, where arithmetic alone says what has to come of it. */
import { describe, expect, it } from 'vitest';
import { simulate } from '../../bench/scale/simulate.js';

const LENGTH_MS = 2_000;
const leader = { perTransactionUs: 80, perWriteUs: 4, cores: 4, delayMs: 2 };

describe('many replicas in front of one leader', () => {
  it('wait for no one where few ask: a write takes its delay and its own transaction', () => {
    const { done, refused, perTransaction, p50 } = simulate(
      leader,
      { replicas: 1, perReplica: 10, alone: 0.5 },
      60_000,
    );
    expect(p50).toBeCloseTo(2 + (80 + 4) / 4 / 1_000, 3);
    expect(perTransaction).toBeLessThan(1.1);
    expect(refused).toBe(0);
    expect(done).toBeGreaterThan(8);
    expect(done).toBeLessThan(12);
  });

  it('share the leader where each write is a transaction of its own', () => {
    const { done, perTransaction } = simulate(leader, { replicas: 8, perReplica: 20_000, alone: 1 }, LENGTH_MS);
    expect(perTransaction).toBe(1);
    expect(done / (4e6 / (80 + 4))).toBeCloseTo(1, 1);
  });

  it('fill their transactions before the leader is at its end', () => {
    const { done, perTransaction } = simulate(leader, { replicas: 64, perReplica: 10_000, alone: 0 }, LENGTH_MS);
    expect(perTransaction).toBeGreaterThan(30);
    expect(done / 640_000).toBeCloseTo(1, 1);
  });

  it('refuse what is beyond full transactions, and do as much as before', () => {
    const { done, refused, perTransaction } = simulate(
      leader,
      { replicas: 8, perReplica: 500_000, alone: 0 },
      LENGTH_MS,
    );
    expect(perTransaction).toBeGreaterThan(250);
    expect(done / (256 * (4e6 / (80 + 256 * 4)))).toBeCloseTo(1, 1);
    expect(refused).toBeGreaterThan(0.5);
  });
});
