/** The types of the contract, and which list of the API each kind stands in. */
import type { components } from '../../http/contract/contract.js';

export type Schemas = components['schemas'];
export type Problem = Schemas['Problem'];

/**
 * Kinds that the stream of events tells of, in the order in which they are shown. It tells of double barriers too, but
 * only whether they have been entered: who gathers there is read from their list.
 */
export const LISTS = {
  lock: 'locks',
  rwlock: 'rwlocks',
  semaphore: 'semaphores',
  pool: 'pools',
  election: 'elections',
  queue: 'queues',
  config: 'config',
  group: 'groups',
  barrier: 'barriers',
  counter: 'counters',
  run: 'runs',
  schedule: 'schedules',
} as const;

export type Kind = keyof typeof LISTS;
export const KINDS = Object.keys(LISTS) as Kind[];

export const isKind = (text: string): text is Kind => Object.hasOwn(LISTS, text);

/** What people call them. */
export const TITLES: Readonly<Record<string, string>> = {
  lock: 'Lock',
  rwlock: 'Read-write lock',
  semaphore: 'Semaphore',
  pool: 'Pool',
  election: 'Election',
  queue: 'Queue',
  config: 'Key',
  group: 'Group',
  barrier: 'Barrier',
  'double-barrier': 'Double barrier',
  counter: 'Counter',
  run: 'Run',
  schedule: 'Schedule',
  lease: 'Lease',
  transaction: 'Transaction',
};

/** What the stream tells of a lock, a read-write lock or a semaphore: who holds it, not who waits. */
export interface HeldState {
  readonly name: string;
  readonly holders: readonly Schemas['Holder'][];
  /** Of a semaphore. */
  readonly limit?: number | null;
}

export interface ElectionState {
  readonly name: string;
  readonly leader: Schemas['Leader'] | null;
}

/** The state of a thing, as the stream of its kind tells it. */
export interface States {
  lock: HeldState;
  rwlock: HeldState;
  semaphore: HeldState;
  pool: Schemas['Pool'];
  election: ElectionState;
  queue: Schemas['Queue'];
  config: Schemas['ConfigKeySummary'];
  group: Schemas['Group'];
  barrier: Schemas['Barrier'];
  counter: Schemas['Counter'];
  run: Schemas['Run'];
  schedule: Schemas['Schedule'];
}
