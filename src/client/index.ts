/** `postern/client`: what a program imports. */
/// <reference lib="esnext.disposable" preserve="true" />
export { Postern, type RequestOptions } from './postern.js';
export type { PosternOptions, TlsOptions } from './options.js';
export { HoldLostError, PosternError, type LossCause, type PosternErrorOptions } from './errors.js';
export type { Revocation } from './lease/bound.js';
export type { Hold } from './lease/hold.js';
export type { AcquireOptions } from './line/line.js';
export type { Acquirable } from './line/acquirable.js';
export type { Lock, LockOptions } from './line/lock.js';
export type { ReserveOptions } from './line/reservation.js';
export type { ManyLocks } from './line/many-locks.js';
export type { ReadWriteLock } from './line/read-write-lock.js';
export type { AcquireMembersOptions, HeldMembers, Pool } from './line/pool.js';
export type { Semaphore, SemaphoreOptions } from './line/semaphore.js';
export type { CampaignOptions, Election, Term } from './line/election.js';
export type { ManyQueues, Pushed, PushOptions, Queue } from './queue/queue.js';
export type { Job, NackOptions } from './queue/job.js';
export type { JobsOptions } from './queue/worker.js';
export type { Group, JoinOptions, Membership } from './state/group.js';
export type { Config, ConfigKey, ConfigValue, ListOptions, PutOptions, WriteOptions } from './state/config.js';
export type { Counter, CounterWaitOptions } from './state/counter.js';
export type { Barrier } from './state/barrier.js';
export type { DoubleBarrier, EnterOptions } from './line/double-barrier.js';
export type { GroupMessage, ListenOptions } from './state/messages.js';
export type { Once, Refused, Run, StartOptions } from './run/run.js';
export type { Attempt, FinishedOccurrence } from './run/attempt.js';
export type { ObserveOptions } from './state/observe.js';
export type { Answer, Operation, Problem, RequestParts, Schemas } from './contract.js';
