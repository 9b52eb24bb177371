/** The clock that the command and its guardian share. */
import { uptime } from 'node:os';
import { hrtime, platform } from 'node:process';

/**
 * Milliseconds since the machine was started, the same in all processes. Nobody sets it, and on Linux it goes on while
 * the machine is suspended, as the lease does at the gateway: Node's monotonic clock stands still meanwhile.
 */
export function sinceBootMs(): number {
  return platform === 'linux' ? uptime() * 1_000 : Number(hrtime.bigint() / 1_000_000n);
}
