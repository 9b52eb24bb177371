/** Lists of very many names, asked for by many at once: they share listings, and each sees what was made before it. */
import { expect, test } from 'vitest';
import { encodeValue } from '../../src/recipes/config/entry.js';
import { eventually } from '../support/eventually.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';

/** Of the longest names, more than may be read at once. */
const NAMES = 6_000;
const MADE_AT_ONCE = 1_000;
const ASKED_AT_ONCE = 40;

interface NamePage {
  items: { name?: string; key?: string }[];
}

async function make({ gateway }: Replica, directory: string, data: Buffer): Promise<void> {
  const { control } = gateway.context;
  await control.ensurePath(directory);
  for (let i = 0; i < NAMES; i += MADE_AT_ONCE)
    await control.multi(
      Array.from({ length: MADE_AT_ONCE }, (_, j) => ({ type: 'create', path: `${directory}/n${i + j}`, data })),
    );
}

/** That the replica has sent to ZooKeeper. */
async function requests(replica: Replica, operation: string): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  const count = new RegExp(`^postern_zookeeper_request_duration_seconds_count\\{op="${operation}"\\} (\\d+)$`, 'm');
  return Number(count.exec(page)?.[1] ?? 0);
}

test.each(['config', 'barriers'])(
  'forty pages of %s at once take few listings, and what was made before a request is in its page',
  { timeout: scaled(60_000) },
  async (kind) => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_READ_BYTES_AT_ONCE: '1048576' } });
    const { control, layout } = replica.gateway.context;
    const directory = kind === 'config' ? layout.config('default') : parentOfBarriers(replica);
    const data = kind === 'config' ? encodeValue('text/plain', Buffer.from('x'), []) : Buffer.from('{}');
    await make(replica, directory, data);
    const page = (): Promise<NamePage> => replica.expect(200, 'GET', `/v1/${kind}?limit=1`) as Promise<NamePage>;
    const nameOf = ({ items }: NamePage): string | undefined => items[0]?.name ?? items[0]?.key;
    const askMany = (): Promise<NamePage[]> => Promise.all(Array.from({ length: ASKED_AT_ONCE }, page));
    const [listed, looked] = [await requests(replica, 'getChildren'), await requests(replica, 'exists')];
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const other = control.largeReads.spend(1, performance.now() + scaled(10_000), () => held);
    const pages = askMany();
    await eventually('all wait', async () => (await requests(replica, 'exists')) >= looked + ASKED_AT_ONCE);
    await control.create(`${directory}/a`, data);
    release();
    await other;
    for (const shown of await pages) expect(nameOf(shown)).toBe('a');
    // And what the replica does by itself.
    expect((await requests(replica, 'getChildren')) - listed).toBeLessThan(ASKED_AT_ONCE / 4);
    // One that is made while those before it are listed.
    const earlier = askMany();
    await control.create(`${directory}/Z`, data);
    const later = askMany();
    for (const shown of await earlier) expect(nameOf(shown)).toBeOneOf(['Z', 'a']);
    for (const shown of await later) expect(nameOf(shown)).toBe('Z');
  },
);

function parentOfBarriers({ gateway }: Replica): string {
  const path = gateway.context.layout.barrier('default', 'a');
  return path.slice(0, path.lastIndexOf('/'));
}
