/** `/v1/contention`: where requests wait, in this replica. */
import { CONTENTION_WINDOW_MS, topContention, type ContentionTold } from '../../recipes/contention.js';
import type { components } from '../contract.js';
import type { Answer, Exchange, Routes } from '../exchange.js';
import { namespaceOf } from './subject.js';

type Schemas = components['schemas'];

/** What each process of this replica tells of a namespace. */
export type Told = (namespace: string) => Promise<readonly (readonly ContentionTold[])[]>;

export function contentionRoutes(told: Told): Routes {
  return { showContention: (exchange) => showContention(told, exchange) };
}

async function showContention(told: Told, exchange: Exchange): Promise<Answer> {
  const namespace = namespaceOf(exchange, 'read');
  const { top = 20 } = exchange.query as { top?: number };
  const body: Schemas['Contention'] = {
    windowMs: CONTENTION_WINDOW_MS,
    items: topContention(await told(namespace), top, (kind, name) =>
      exchange.allows('read', namespace, { kind, name }),
    ),
  };
  return { status: 200, body };
}
