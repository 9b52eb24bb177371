/** `/v1/contention`: where requests wait, in this replica. */
import { CONTENTION_WINDOW_MS } from '../../recipes/contention.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { components } from '../contract.js';
import type { Answer, Exchange, Routes } from '../exchange.js';
import { namespaceOf } from './subject.js';

type Schemas = components['schemas'];

export function contentionRoutes(context: Coordination): Routes {
  return { showContention: (exchange) => showContention(context, exchange) };
}

function showContention({ contention }: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = namespaceOf(exchange, 'read');
  const { top = 20 } = exchange.query as { top?: number };
  const body: Schemas['Contention'] = {
    windowMs: CONTENTION_WINDOW_MS,
    items: contention.top(namespace, top, (kind, name) => exchange.allows('read', namespace, { kind, name })),
  };
  return Promise.resolve({ status: 200, body });
}
