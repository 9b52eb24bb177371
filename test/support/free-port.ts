/** Ports for processes that are stopped and started again. */
import { randomInt } from 'node:crypto';
import { env } from 'node:process';
import { assertPortFree, PortTakenError } from '../../scripts/lib/zookeeper.mjs';

/**
 * Below the range from which the kernel takes ports for outgoing connections: one of those may be in use again by the
 * time it is listened on, or when a process that was killed is started again.
 */
const PORTS = { from: 20_000, to: 32_000 };
/**
 * Each worker of the runner has a part of them for its own: what one process leaves while it is restarted, another test
 * file must not take. The servers that all files share have the first part.
 */
const PARTS = 4;
const SIZE = (PORTS.to - PORTS.from) / PARTS;
const FROM = PORTS.from + (Number(env['VITEST_POOL_ID'] ?? 0) % PARTS) * SIZE;

/** @param taken ports that are given out but not listened on yet; the one that is found is added */
export async function freePort(taken: Set<number> = new Set()): Promise<number> {
  for (;;) {
    const port = randomInt(FROM, FROM + SIZE);
    if (taken.has(port)) continue;
    try {
      await assertPortFree(port);
      taken.add(port);
      return port;
    } catch (error) {
      if (!(error instanceof PortTakenError)) throw error;
    }
  }
}
