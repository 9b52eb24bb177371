/** `postern ls`, `show`, `revoke`. */
import type { Postern } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type * as descriptions from '../commands/names.js';
import { EXIT } from '../exit.js';
import { jsonText, table } from '../output.js';
import { withClient } from './client.js';

type Kind = (typeof descriptions.LISTED)[number];
type Item = Readonly<Record<string, unknown>>;

const PAGE = 1_000;
/** The columns of each kind, beside its name: what to show, and where that is. */
const LINE = { HOLDERS: 'holderCount', WAITING: 'waiterCount', 'OLDEST WAIT': 'oldestWaitSince' };
const COLUMNS: Readonly<Record<Kind, Readonly<Record<string, string>>>> = {
  locks: LINE,
  rwlocks: LINE,
  semaphores: { ...LINE, LIMIT: 'limit' },
  elections: { TERM: 'fencingToken', CANDIDATES: 'candidateCount' },
  queues: { DEPTH: 'depth', DELAYED: 'delayed' },
  groups: { MEMBERS: 'memberCount' },
  barriers: { RAISED: 'raised' },
  'double-barriers': {},
  config: { BYTES: 'bytes', TYPE: 'contentType', ETAG: 'etag' },
  counters: { VALUE: 'value' },
  leases: { LABEL: 'label', TTL: 'ttlMs', PRINCIPAL: 'principal' },
};

export async function ls(given: GivenFor<typeof descriptions.ls>): Promise<number> {
  const kind = given.arguments[0] as Kind;
  const items = await withClient(given, (postern) => allItems(postern, kind, given.values));
  const columns = Object.entries(COLUMNS[kind]).filter(([, member]) => items.some((item) => item[member] != null));
  given.output.result(items, () =>
    table(
      ['NAME', ...columns.map(([title]) => title)],
      items.map((item) => [nameOf(item), ...columns.map(([, member]) => shown(item[member]))]),
    ),
  );
  return EXIT.ok;
}

async function allItems(
  postern: Postern,
  kind: Kind,
  { prefix, limit }: { prefix: string | undefined; limit: number },
): Promise<Item[]> {
  const items: Item[] = [];
  for (let pageToken: string | undefined; ;) {
    const query = {
      limit: Math.min(PAGE, limit - items.length),
      ...(prefix !== undefined && { prefix }),
      ...(pageToken !== undefined && { pageToken }),
    };
    // The lists of all kinds are asked for alike.
    const { body } = await postern.request(`GET /v1/${kind}` as 'GET /v1/locks', { query });
    items.push(...(body.items as unknown as Item[]));
    pageToken = body.nextPageToken;
    if (pageToken === undefined || items.length >= limit) return items;
  }
}

function nameOf(item: Item): string {
  return shown(item['name'] ?? item['key'] ?? item['leaseId']);
}

function shown(value: unknown): string {
  if (value == null) return '-';
  return typeof value === 'string' ? value : jsonText(value);
}

export async function show(given: GivenFor<typeof descriptions.show>): Promise<number> {
  const [kind = '', name = ''] = given.arguments;
  checkName('NAME', name);
  const body = await withClient(given, async (postern) => {
    if (kind === 'lease') return (await postern.request('GET /v1/leases/{leaseId}', { path: { leaseId: name } })).body;
    const operation = `GET /v1/${kind}s/{name}` as 'GET /v1/locks/{name}';
    return (await postern.request(operation, { path: { name } })).body;
  });
  given.output.result(body, () => jsonText(body, 2));
  return EXIT.ok;
}

export async function revoke(given: GivenFor<typeof descriptions.revoke>): Promise<number> {
  const [kind = '', name = ''] = given.arguments;
  checkName('NAME', name);
  const { grace, reason, 'hold-id': holdId } = given.values;
  const body = {
    ...(grace !== undefined && { graceMs: grace }),
    ...(reason !== undefined && { reason }),
    ...(holdId !== undefined && { holdId }),
  };
  const operation = `POST /v1/${kind}s/{name}/revoke` as 'POST /v1/locks/{name}/revoke';
  const revoked = await withClient(given, (postern) => postern.request(operation, { path: { name }, body }));
  const { holds, breakAt } = revoked.body;
  given.output.result(
    revoked.body,
    () => `${holds.length} asked${breakAt === undefined ? '' : `; broken at ${breakAt}`}`,
  );
  return EXIT.ok;
}
