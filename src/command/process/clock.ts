/** The clock that the command and its guardian share. */
import { uptime } from 'node:os';

/**
 * Milliseconds since the machine was started, the same in all processes. Nobody sets it, and on Linux it goes on while
 * the machine is suspended, as the lease does at the gateway: Node's monotonic clock stands still meanwhile.
 */
export function sinceBootMs(): number {
  return process.platform === 'linux' ? uptime() * 1_000 : Number(process.hrtime.bigint() / 1_000_000n);
}
