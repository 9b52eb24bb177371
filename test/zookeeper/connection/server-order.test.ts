/** In which order the servers are tried for a lease, and what one lease tells the others about them. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { SessionTimeoutError } from '../../../src/zookeeper/errors.js';
import { ServerOrder, nameOf } from '../../../src/zookeeper/connection/server-order.js';

const SERVERS = ['one', 'two', 'three', 'four'].map((host) => ({ host, port: 2181 }));
const [ONE, TWO] = SERVERS as [(typeof SERVERS)[0], (typeof SERVERS)[0]];
const AFFINITIES = 2 ** 16;
const SILENT = new Error('nothing came');

let told: string[];
let order: ServerOrder;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  told = [];
  order = new ServerOrder(SERVERS, {
    setAside: (server, why) => void told.push(`${server}: ${why.message}`),
    back: (server) => void told.push(`${server} is back`),
  });
});

afterEach(() => {
  vi.useRealTimers();
});

const hosts = (affinity: number): string =>
  order
    .of(affinity)
    .map(({ host }) => host)
    .join(' ');

describe('the order of the servers for a lease', () => {
  it('begins with the remainder, as every earlier release has it, and is the same each time', () => {
    for (const affinity of [0, 1, 5, 1_234, 65_535, -1]) {
      expect(order.of(affinity)[0]).toBe(SERVERS[((affinity % 4) + 4) % 4]);
      expect(hosts(affinity)).toBe(hosts(affinity));
      expect(new Set(order.of(affinity)).size).toBe(SERVERS.length);
    }
  });

  it('spreads the leases of a missing server over all the others (C42)', () => {
    const second = new Map<string, number>();
    for (let affinity = 0; affinity < AFFINITIES; affinity += 4) {
      const host = order.of(affinity)[1]?.host as string;
      second.set(host, (second.get(host) ?? 0) + 1);
    }
    expect([...second.keys()].sort()).toEqual(['four', 'three', 'two']);
    for (const count of second.values()) expect(count / (AFFINITIES / 4)).toBeCloseTo(1 / 3, 2);
  });

  it('has a silent server last for everybody, until one of them has found out whether it is back (C42)', () => {
    order.setAside(ONE, SILENT);
    order.setAside(ONE, SILENT);
    expect(order.of(0).at(-1)).toBe(ONE);
    expect(order.of(2)[0]).toBe(SERVERS[2]);
    vi.advanceTimersByTime(5_001);
    expect(order.of(0)[0]).toBe(ONE);
    expect(order.of(0).at(-1)).toBe(ONE);
    order.answered(ONE);
    expect(order.of(0)[0]).toBe(ONE);
    expect(order.of(0)[0]).toBe(ONE);
    order.answered(ONE);
    expect(told).toEqual(['one:2181: nothing came', 'one:2181 is back']);
  });

  it('has a server with other session timeouts last for longer (C43)', () => {
    order.setAside(TWO, new SessionTimeoutError(nameOf(TWO), 6_000, 2_000));
    vi.advanceTimersByTime(59_000);
    expect(order.of(1).at(-1)).toBe(TWO);
    vi.advanceTimersByTime(2_000);
    expect(order.of(1)[0]).toBe(TWO);
    expect(told).toHaveLength(1);
  });

  it('stays as it is when no server will do', () => {
    const before = hosts(1_234);
    for (const server of SERVERS) order.setAside(server, SILENT);
    expect(hosts(1_234)).toBe(before);
  });
});
