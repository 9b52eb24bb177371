/** What is shown, by the fragment of the address: `#/<namespace>/<view>/<kind>/<name>`. */
import { computed, signal } from '@preact/signals';

export const VIEWS = {
  overview: 'Overview',
  lines: 'Lines',
  pools: 'Pools',
  leases: 'Leases',
  queues: 'Queues',
  config: 'Configuration',
  groups: 'Groups',
  barriers: 'Barriers',
  counters: 'Counters',
  runs: 'Runs',
  schedules: 'Schedules',
  transactions: 'Transactions',
  contention: 'Contention',
} as const;

export type View = keyof typeof VIEWS;

/** One thing that is looked at closely. */
export interface Chosen {
  readonly kind: string;
  readonly name: string;
}

export interface Route {
  readonly namespace: string;
  readonly view: View;
  readonly chosen: Chosen | undefined;
}

const VIEW_OF: Readonly<Record<string, View>> = {
  lock: 'lines',
  rwlock: 'lines',
  semaphore: 'lines',
  election: 'lines',
  pool: 'pools',
  lease: 'leases',
  queue: 'queues',
  config: 'config',
  group: 'groups',
  barrier: 'barriers',
  'double-barrier': 'barriers',
  counter: 'counters',
  run: 'runs',
  schedule: 'schedules',
  transaction: 'transactions',
};

export const NAMESPACE = /^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,200}$/;

export const route = signal(routeOf(location.hash));
export const namespace = computed(() => route.value.namespace);

addEventListener('hashchange', () => (route.value = routeOf(location.hash)));

function routeOf(hash: string): Route {
  const [, space = '', view = '', kind = '', name = ''] = hash.split('/').map(decode);
  return {
    namespace: NAMESPACE.test(space) ? space : 'default',
    view: Object.hasOwn(VIEWS, view) ? (view as View) : 'overview',
    chosen: name === '' ? undefined : { kind, name },
  };
}

export function hrefOf(view: View, chosen?: Chosen, space = namespace.value): string {
  const segments = [space, view, ...(chosen === undefined ? [] : [chosen.kind, chosen.name])];
  return `#/${segments.map(encodeURIComponent).join('/')}`;
}

/** Where a thing is shown, whatever its kind. */
export function hrefOfThing(kind: string, name: string): string | undefined {
  const view = VIEW_OF[kind];
  return view === undefined ? undefined : hrefOf(view, { kind, name });
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}
