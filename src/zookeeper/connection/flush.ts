/**
 * Connections with something to send: one immediate for all, so that each sends what one turn of the event loop wrote
 * in one call.
 */

export interface Flushed {
  flush(): void;
}

let unflushed: Flushed[] = [];

export function flushSoon(connection: Flushed): void {
  if (unflushed.push(connection) === 1) setImmediate(flushAll);
}

function flushAll(): void {
  const flushed = unflushed;
  try {
    // What is passed on to another one in its flush goes out in this turn as well.
    for (const connection of flushed) connection.flush();
  } finally {
    unflushed = [];
  }
}
