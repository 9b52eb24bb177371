/** `postern ls`, `show`, `revoke`, `transfer`, `nodes`, `break`. */
import type { Postern, Schemas } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type * as descriptions from '../commands/names.js';
import { EXIT, UsageError } from '../exit.js';
import { jsonText, table } from '../output.js';
import { listed, withClient } from './client.js';

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
  pools: { MEMBERS: 'total', 'QUARANTINE MS': 'quarantineMs' },
  runs: {},
  schedules: { CRON: 'cron', ZONE: 'timeZone', QUEUE: 'queue', DUE: 'dueAt', PAUSED: 'paused' },
  leases: { LABEL: 'label', TTL: 'ttlMs', PRINCIPAL: 'principal' },
  reservations: { UNTIL: 'reservedUntil', OWNER: 'owner', REASON: 'reason', PRINCIPAL: 'principal' },
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
  const query = { limit: Math.min(PAGE, limit), ...(prefix !== undefined && { prefix }) };
  for await (const item of listed(postern, kind as 'locks', query)) {
    items.push(item);
    if (items.length >= limit) break;
  }
  return items;
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

export async function transfer(given: GivenFor<typeof descriptions.transfer>): Promise<number> {
  const [name = '', candidateId = ''] = given.arguments;
  checkName('ELECTION', name);
  const { grace = 0, reason } = given.values;
  const body = {
    candidateId,
    graceMs: grace,
    ...(reason !== undefined && { reason }),
  };
  const operation = 'POST /v1/elections/{name}/transfer';
  const transferred = await withClient(given, (postern) => postern.request(operation, { path: { name }, body }));
  const { leads, breakAt, overtaken } = transferred.body;
  const when = leads || breakAt === undefined ? 'leads' : `leads at ${breakAt}, or when the leader resigns`;
  given.output.result(transferred.body, () => `${when}; ${overtaken} overtaken`);
  return EXIT.ok;
}

export async function nodes(given: GivenFor<typeof descriptions.nodes>): Promise<number> {
  const [kind = '', name = ''] = given.arguments;
  checkName('NAME', name);
  const { limit } = given.values;
  const operation = `GET /v1/${kind}s/{name}/nodes` as 'GET /v1/locks/{name}/nodes';
  const { body } = await withClient(given, (postern) =>
    postern.request(operation, { path: { name }, query: { limit } }),
  );
  given.output.result(body.items, () =>
    table(
      ['NODE', 'VERSION', 'SINCE', 'BELONGS TO', 'BREAKABLE'],
      body.items.map((item) => [
        item.node,
        String(item.version),
        item.since,
        belongsTo(item),
        item.breakable ? 'yes' : 'no',
      ]),
    ),
  );
  return EXIT.ok;
}

function belongsTo({ leaseId, ephemeral, external, reservation }: Schemas['LineNode']): string {
  if (reservation !== undefined) return `${reservation.owner}, until ${reservation.until}`;
  if (leaseId !== null) return `lease ${leaseId}`;
  if (!ephemeral) return 'nobody';
  return external ? 'another program' : 'a lease';
}

export async function breakNode(given: GivenFor<typeof descriptions.breakNode>): Promise<number> {
  const [kind = '', name = '', node = ''] = given.arguments;
  checkName('NAME', name);
  const { version, reason } = given.values;
  if (version === undefined) throw new UsageError('--version must be given: "postern nodes" shows it');
  const body = { node, version, ...(reason !== undefined && { reason }) };
  const operation = `POST /v1/${kind}s/{name}/break` as 'POST /v1/locks/{name}/break';
  await withClient(given, (postern) => postern.request(operation, { path: { name }, body }));
  if (given.output.json) given.output.result({ name, node, broken: true }, () => '');
  return EXIT.ok;
}
