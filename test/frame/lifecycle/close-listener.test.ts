/** What is left of a listener that has been closed. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import { queryObjects } from 'node:v8';
import { expect, it } from 'vitest';
import { closeListener } from '../../../src/http/server/close-listener.js';
import { eventually } from '../../support/eventually.js';

/** A listener whose requests can be told from all others in this process. */
class Marked {}

async function openAndClose(): Promise<void> {
  const mark = new Marked();
  const server = createServer(() => mark);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  expect(queryObjects(Marked)).toBe(1);
  await closeListener(server, 0);
}

it('is nothing: no timer keeps it in memory', async () => {
  await openAndClose();
  await eventually('it is out of memory', () => queryObjects(Marked) === 0);
});
