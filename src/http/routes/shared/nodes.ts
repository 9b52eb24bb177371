/**
 * `GET /v1/{locks,rwlocks,semaphores,elections}/{name}/nodes` and `POST …/break`: the nodes of a line for
 * administrators, in the words of the contract.
 */
import type { LineKind } from '../../../leases/layout.js';
import type { Coordination } from '../../../recipes/coordination.js';
import { breakNode, listNodes, type LineNode } from '../../../recipes/line/break-node.js';
import { PLACE_KEY } from '../../../recipes/line-page.js';
import { instant } from '../../../time.js';
import type { components } from '../../contract/contract.js';
import type { Answer, Exchange } from '../../frame/exchange.js';
import { describeReservation } from './holder-reservation.js';
import { namespaceOf, pageOf, pageTokenOf } from './subject.js';

type Schemas = components['schemas'];

export async function showNodes(context: Coordination, kind: LineKind, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOf(exchange, context.leases, 'admin');
  const name = exchange.params['name'] as string;
  const page = pageOf(exchange, PLACE_KEY);
  const { items, next } = await listNodes(context, { kind, namespace, name }, page, exchange.deadline);
  const body: Schemas['LineNodeList'] = { items: items.map(describe), ...pageTokenOf(next) };
  return { status: 200, body };
}

export async function breakOne(context: Coordination, kind: LineKind, exchange: Exchange): Promise<Answer> {
  const { node, version } = exchange.body as Schemas['BreakNodeRequest'];
  const namespace = await namespaceOf(exchange, context.leases, 'admin');
  const { deadline, requester, params } = exchange;
  const name = params['name'] as string;
  await breakNode(context, { kind, namespace, name, node, version, deadline, requester });
  return { status: 204 };
}

function describe({ node, version, ephemeral, madeAt, view, breakable }: LineNode): Schemas['LineNode'] {
  const { external, leaseId, state, reservation } = view;
  return {
    node,
    version,
    ephemeral,
    external,
    breakable,
    leaseId: external || !ephemeral ? null : leaseId,
    state: external ? null : state,
    since: instant(madeAt),
    ...(reservation?.until === undefined ? {} : { reservation: describeReservation(reservation) }),
  };
}
