/** `/v1/contention`: where requests wait, in this replica. */
import { CONTENTION_WINDOW_MS, topContention } from '../../recipes/waiting/contention.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import type { Serving } from './shared/serving.js';
import { namedNamespaceOf } from './shared/subject.js';

type Schemas = components['schemas'];

export function contentionRoutes({ contention }: Pick<Serving, 'contention'>): Routes {
  return { showContention: (exchange) => showContention(contention, exchange) };
}

async function showContention(told: Serving['contention'], exchange: Exchange): Promise<Answer> {
  const namespace = namedNamespaceOf(exchange, 'read');
  const { top = 20 } = exchange.query as { top?: number };
  const body: Schemas['Contention'] = {
    windowMs: CONTENTION_WINDOW_MS,
    items: topContention(await told(namespace), top, (kind, name) =>
      exchange.allows('read', namespace, { kind, name }),
    ),
  };
  return { status: 200, body };
}
