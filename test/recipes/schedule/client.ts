/** What tests of schedules say to a replica. */
import { expect } from 'vitest';
import type { Client } from '../../support/http/client.js';

export const NAME = 'nightly';
export const EVERY_SECOND = '* * * * * *';
/** For replicas whose schedules may be due every second. */
export const SECONDS = { POSTERN_SCHEDULE_SECONDS: 'true' };

export interface ShownSchedule {
  name: string;
  cron: string;
  timeZone: string;
  queue: string;
  to: { queue: string; body: unknown; priority?: number };
  misfire: 'skip' | 'once';
  paused: boolean;
  dueAt?: string;
  next: string[];
  fired?: { occurrence: string; at: string };
  missed?: { count: number; occurrence: string };
  refused?: { occurrence: string; at: string; code: string; detail: string };
  principal: string;
}

export interface PoppedMessage {
  id: string;
  body: unknown;
  priority: number;
  attributes: { schedule: string; occurrence: string };
}

/** Writes a schedule that is due every second, unless told otherwise. */
export async function put(replica: Client, body: Record<string, unknown> = {}, name = NAME): Promise<ShownSchedule> {
  const reply = await replica.call('PUT', `/v1/schedules/${name}`, {
    body: { cron: EVERY_SECOND, to: { queue: 'jobs', body: { job: name } }, ...body },
  });
  expect([200, 201], JSON.stringify(reply.body)).toContain(reply.status);
  return reply.body as ShownSchedule;
}

export async function show(replica: Client, name = NAME): Promise<ShownSchedule> {
  return (await replica.expect(200, 'GET', `/v1/schedules/${name}`)) as ShownSchedule;
}

/** All that is in a queue now, oldest first. */
export async function popAll(replica: Client, queue = 'jobs'): Promise<PoppedMessage[]> {
  const all: PoppedMessage[] = [];
  for (;;) {
    const { status, body } = await replica.call('POST', `/v1/queues/${queue}/pop`, { body: { max: 1000 } });
    if (status === 404 || status === 204) return all;
    expect(status).toBe(200);
    all.push(...(body as { items: PoppedMessage[] }).items);
  }
}

export function occurrencesOf(messages: readonly PoppedMessage[], name = NAME): number[] {
  return messages
    .filter(({ attributes }) => attributes.schedule === name)
    .map(({ attributes }) => Date.parse(attributes.occurrence));
}

/** Each of the seconds between the first and the last, once and in order. */
export function expectEverySecond(occurrences: readonly number[]): void {
  const [first = 0] = occurrences;
  expect(occurrences).toEqual(occurrences.map((_, i) => first + i * 1_000));
}
