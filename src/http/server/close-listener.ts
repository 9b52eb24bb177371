/**
 * Closes a listener without cutting off a request that was sent before.
 *
 *   listening ──▶ no new connections ──▶ kept ones may ask once more ──▶ idle ones closed ──▶ closed
 *                                              └── every answer says `Connection: close` ────▶ closed
 *
 * A connection must not be closed while bytes of a request are on their way: the client would see a reset and not know
 * what happened to its request. So the listener closes only once the event loop has found no new connection (the system
 * resets those that it had accepted but the process had not). Idle connections are closed some time later, after
 * everything that arrived has been read. Node's own `close` closes idle connections immediately.
 */
import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import { setImmediate as turnOfTheLoop, setTimeout as passed } from 'node:timers/promises';

/** How long a client that is about to use a kept connection has for it: a round trip, with room for a busy machine. */
const LAST_REQUEST_MS = 500;
const IDLE_SWEEP_MS = 50;
/**
 * A client that was answered `Connection: close` returns at once, until its balancer sees that this replica is not
 * ready.
 */
const QUIET_MS = 50;
const QUIET_WITHIN_MS = 500;
/** The first turn may have begun after connections were looked for. */
const QUIET_TURNS = 2;
/** Under so many new connections that every turn has one, this must end nevertheless. */
const QUIET_TURNS_MAX = 100;

/**
 * Resolves when no connection is left; those left after `withinMs` are cut off. Answers must say `Connection: close`
 * from now on.
 */
export async function closeListener(server: Server, withinMs: number): Promise<void> {
  await untilQuiet(server);
  await new Promise<void>((resolve) => {
    let sweep: NodeJS.Timeout | undefined;
    const linger = setTimeout(() => {
      // A stream that ends leaves its connection idle but open: its headers were sent before the stop began. Runs after
      // the poll phase of the event loop, so that a connection with unread data does not count as idle.
      sweep = setInterval(() => setImmediate(() => server.closeIdleConnections()), IDLE_SWEEP_MS);
    }, LAST_REQUEST_MS);
    const force = setTimeout(() => server.closeAllConnections(), withinMs);
    NetServer.prototype.close.call(server, () => {
      clearTimeout(linger);
      clearTimeout(force);
      clearInterval(sweep);
      // With nothing left to close, this ends Node's checks for slow requests, which would keep the server in memory.
      server.close();
      resolve();
    });
  });
}

/** Resolves when some time, and then whole turns of the event loop, have brought no new connection. */
async function untilQuiet(server: Server): Promise<void> {
  let accepted = 0;
  const count = (): void => void (accepted += 1);
  server.on('connection', count);
  for (const until = performance.now() + QUIET_WITHIN_MS; performance.now() < until;) {
    const before = accepted;
    await passed(QUIET_MS);
    if (accepted === before) break;
  }
  for (let turn = 0, quiet = 0; quiet < QUIET_TURNS && turn < QUIET_TURNS_MAX; turn += 1) {
    const before = accepted;
    await turnOfTheLoop();
    quiet = accepted === before ? quiet + 1 : 0;
  }
  server.off('connection', count);
}
