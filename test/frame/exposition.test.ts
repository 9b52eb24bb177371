/** `/metrics` is made once for all who ask within some time. */
import { describe, expect, it } from 'vitest';
import { sharedFor } from '../../src/http/frame/exposition.js';
import { startReplica, type Replica } from '../support/start-gateway.js';

const scrape = async (replica: Replica): Promise<string> => (await replica.expect(200, 'GET', '/metrics')) as string;

describe('/metrics', () => {
  it('is the same for all who ask before its time is over, however many at once', async () => {
    await using replica = await startReplica({ expositionMs: 600_000 });
    const first = await scrape(replica);
    await replica.createLease();
    const texts = await Promise.all(Array.from({ length: 20 }, () => scrape(replica)));
    expect(new Set(texts)).toEqual(new Set([first]));
  });

  it('is made anew after that', async () => {
    await using replica = await startReplica({ expositionMs: 0 });
    const first = await scrape(replica);
    await replica.createLease();
    expect(await scrape(replica)).not.toBe(first);
  });
});

describe('what is shared', () => {
  function counted(): {
    make: () => Promise<string>;
    made: ((text: string) => void)[];
    fail: ((error: Error) => void)[];
  } {
    const made: ((text: string) => void)[] = [];
    const fail: ((error: Error) => void)[] = [];
    const make = (): Promise<string> =>
      new Promise((resolve, reject) => {
        made.push(resolve);
        fail.push(reject);
      });
    return { make, made, fail };
  }

  it('is never made twice at once, however long it takes, and is as old as its begin', async () => {
    let now = 0;
    const { make, made } = counted();
    const shared = sharedFor(1_000, { now: () => 0, monotonic: () => now }, make);
    const first = shared();
    now = 5_000;
    expect(shared()).toBe(first);
    made[0]?.('a');
    expect((await first).toString()).toBe('a');
    const second = shared();
    expect(made).toHaveLength(2);
    made[1]?.('b');
    await second;
    now = 5_999;
    expect(shared()).toBe(second);
    now = 6_000;
    void shared();
    expect(made).toHaveLength(3);
  });

  it('is tried again by the next who asks, when it could not be made', async () => {
    const { make, made, fail } = counted();
    const shared = sharedFor(1_000, { now: () => 0, monotonic: () => 0 }, make);
    const first = shared();
    fail[0]?.(new Error('a worker did not answer'));
    await expect(first).rejects.toThrow('a worker');
    void shared();
    expect(made).toHaveLength(2);
  });
});
