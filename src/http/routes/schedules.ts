/** `/v1/schedules`: the requests about schedules, in the words of the contract. */
import type { Config } from '../../config.js';
import { PosternError } from '../../errors.js';
import type { Coordination } from '../../recipes/coordination.js';
import { Cadence } from '../../recipes/schedule/cadence.js';
import {
  viewOf,
  type ScheduleConfig,
  type ScheduleRecord,
  type ScheduleRef,
  type ScheduleView,
} from '../../recipes/schedule/schedule.js';
import type { Schedules } from '../../recipes/schedule/schedules.js';
import { instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import type { Building } from './shared/serving.js';
import { StateRoutes } from './shared/state-routes.js';
import { namespaceOf, pageOfAllowed, pageTokenOf } from './shared/subject.js';

type Schemas = components['schemas'];

const NEXT_SHOWN = 5;

export function scheduleRoutes({ watchables, context, recipes: { schedule }, config }: Building): Routes {
  const { schedules } = schedule;
  const state = new StateRoutes<ScheduleRef, ScheduleView, ScheduleView>(context, {
    what: 'the schedule',
    observers: schedules.observers,
    subject: (namespace, name) => schedules.ref(namespace, name),
    read: async ({ name, path }, zk) => viewOf(name, await zk.find(path)),
    etagOf: ({ etag }) => etag,
    show: ({ record }, ref) => ({ body: describe(ref.name, present(record, ref)) }),
    event: ({ record }, { name }) => record && describe(name, record),
    inUse: ({ record }) => record !== undefined,
  });
  watchables.set('schedule', state);
  return {
    putSchedule: (exchange) => put(context, schedules, config, exchange),
    deleteSchedule: async (exchange) => {
      const namespace = await namespaceOf(exchange, context.leases, 'use');
      await schedules.remove(schedules.ref(namespace, nameOf(exchange)), exchange);
      return { status: 204 };
    },
    showSchedule: (exchange) => state.show(exchange),
    watchSchedule: (exchange) => state.watch(exchange),
    listSchedules: (exchange) => list(context, schedules, exchange),
  };
}

async function put(
  { leases }: Coordination,
  schedules: Schedules,
  { maxScheduleBytes, maxMessageBytes }: Pick<Config, 'maxScheduleBytes' | 'maxMessageBytes'>,
  exchange: Exchange,
): Promise<Answer> {
  const {
    timeZone = 'UTC',
    misfire = 'skip',
    paused = false,
    ...body
  } = exchange.body as Schemas['PutScheduleRequest'];
  const namespace = await namespaceOf(exchange, leases, 'use');
  exchange.authorize('use', namespace, { kind: 'queue', name: body.to.queue });
  const maxBytes = Math.min(maxScheduleBytes, maxMessageBytes);
  const bytes = Buffer.byteLength(JSON.stringify(body.to.body));
  if (bytes > maxBytes)
    throw new PosternError(
      'too-large',
      `to.body has ${bytes} bytes; the message of a schedule has at most ${maxBytes}. Nothing was done.`,
      { members: { maxBytes, bytes } },
    );
  const config: ScheduleConfig = { ...body, timeZone, misfire, paused };
  const name = nameOf(exchange);
  const { made, record } = await schedules.put(schedules.ref(namespace, name), config, exchange.principal.id, exchange);
  const shown: Schemas['WrittenSchedule'] = exchange.allows('read', namespace, { name })
    ? describe(name, record)
    : { name };
  return { status: made ? 201 : 200, body: shown };
}

async function list({ leases }: Coordination, schedules: Schedules, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOf(exchange, leases);
  const page = pageOfAllowed(exchange, namespace);
  const isStale = exchange.query['consistency'] === 'stale';
  const { items, next } = await schedules.list(namespace, page, isStale, exchange.deadline);
  const shown = items.map(({ name, record }) => summaryOf(name, record));
  const body: Schemas['ScheduleList'] = { items: shown, ...pageTokenOf(next) };
  return { status: 200, body };
}

function present(record: ScheduleRecord | undefined, { namespace, name }: ScheduleRef): ScheduleRecord {
  if (record !== undefined) return record;
  throw new PosternError('not-found', `There is no schedule "${name}" in namespace "${namespace}".`);
}

function describe(name: string, record: ScheduleRecord): Schemas['Schedule'] {
  const { to, principal } = record;
  return { ...summaryOf(name, record), to: to as Schemas['ScheduleTarget'], next: nextOf(record), principal };
}

function summaryOf(name: string, record: ScheduleRecord): Schemas['ScheduleSummary'] {
  const { cron, timeZone, to, misfire, paused, dueAt, fired, missed, refused } = record;
  return {
    name,
    cron,
    timeZone,
    queue: to.queue,
    misfire,
    paused,
    ...(dueAt !== undefined && { dueAt: instant(dueAt) }),
    ...(fired !== undefined && { fired: { occurrence: instant(fired.occurrence), at: instant(fired.at) } }),
    ...(missed !== undefined && { missed: { ...missed, occurrence: instant(missed.occurrence) } }),
    ...(refused !== undefined && {
      refused: { ...refused, occurrence: instant(refused.occurrence), at: instant(refused.at) },
    }),
  };
}

function nextOf(record: ScheduleRecord): string[] {
  if (record.dueAt === undefined) return [];
  const cadence = new Cadence(record, { seconds: true });
  const next: string[] = [];
  for (let at: number | undefined = record.dueAt; at !== undefined && next.length < NEXT_SHOWN;) {
    next.push(instant(at));
    at = cadence.nextAfter(at);
  }
  return next;
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}
