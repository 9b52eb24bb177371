/** `/v1/contention`: where requests wait, in this replica or in all of them. */
import { CONTENTION_WINDOW_MS, topContention, type ContentionTold } from '../../recipes/waiting/contention.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import type { Serving } from './shared/serving.js';
import { namedNamespaceOf } from './shared/subject.js';

type Schemas = components['schemas'];

export function contentionRoutes(serving: Pick<Serving, 'contention' | 'recipes'>): Routes {
  return { showContention: (exchange) => showContention(serving, exchange) };
}

async function showContention(
  { contention, recipes }: Pick<Serving, 'contention' | 'recipes'>,
  exchange: Exchange,
): Promise<Answer> {
  const namespace = namedNamespaceOf(exchange, 'read');
  const { top = 20, scope = 'replica' } = exchange.query as { top?: number; scope?: 'replica' | 'all' };
  const itemsOf = (told: readonly (readonly ContentionTold[])[]): Schemas['ContendedName'][] =>
    topContention(told, top, (kind, name) => exchange.allows('read', namespace, { kind, name }));
  const body: Schemas['Contention'] = { windowMs: CONTENTION_WINDOW_MS, items: [] };
  if (scope === 'replica') return { status: 200, body: { ...body, items: itemsOf(await contention(namespace)) } };
  const { told, asked, silent, complete } = await recipes.contention.ask(namespace);
  const replicas = { asked, answered: asked - silent.length, silent: [...silent] };
  return { status: 200, body: { ...body, replicas, complete, items: itemsOf(told) } };
}
