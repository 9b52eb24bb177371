/**
 * `postern queue work`: one process per message. The message is acknowledged when that exits with 0 and given back
 * otherwise; a job that the command could not keep its claim for is dead before the message is delivered again.
 */
import { hostname } from 'node:os';
import { HoldLostError, Postern, PosternError, type Job } from '../../client/index.js';
import { pause } from '../../client/lease/clock.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type { work as description } from '../commands/queue.js';
import { EXIT } from '../exit.js';
import { Guardian, type Ending } from '../process/guarded.js';
import { diesOf, Interrupted, Interrupts } from '../process/interrupts.js';
import { runJob } from '../process/job.js';
import { jobClientOptions } from './hold-job.js';
import { reasonOf } from './reason.js';

type GivenWork = GivenFor<typeof description>;

export async function work(given: GivenWork): Promise<number> {
  const [argument = ''] = given.arguments;
  const names = argument.split(',');
  for (const name of names) checkName('NAME', name);
  const { concurrency, max } = given.values;
  const options = jobClientOptions(given);
  using interrupts = new Interrupts();
  await using postern = new Postern({ ...options, label: options.label ?? hostname() });
  const atOnce = Math.min(concurrency, max ?? Infinity);
  const idle = Array.from({ length: atOnce }, () => new Guardian());
  const enough = new AbortController();
  const signal = AbortSignal.any([interrupts.signal, enough.signal]);
  const busy = new Set<Promise<void>>();
  const failures: unknown[] = [];
  let taken = 0;
  try {
    for await (const job of postern.queues(names).jobs({ concurrency: atOnce, signal })) {
      taken += 1;
      if (taken === max) enough.abort();
      // One whose lease was lost has its guardian until it is dead.
      while (idle.length === 0) await Promise.race(busy);
      if (interrupts.signal.aborted) {
        await job.nack().catch(() => undefined);
        break;
      }
      const guardian = idle.pop() as Guardian;
      const doing = one(given, job, { guardian, interrupts })
        .catch((error: unknown) => {
          failures.push(error);
          enough.abort();
        })
        .finally(() => {
          idle.push(guardian);
          busy.delete(doing);
        });
      busy.add(doing);
    }
  } finally {
    await Promise.all(busy); // their messages are theirs until they have ended
    for (const guardian of idle) guardian.dismiss();
  }
  if (failures.length > 0) throw failures[0];
  const { reason } = interrupts.signal as { reason: unknown };
  if (!(reason instanceof Interrupted)) return EXIT.ok;
  await postern.close();
  return diesOf(reason.signal);
}

async function one(given: GivenWork, job: Job, parts: { guardian: Guardian; interrupts: Interrupts }): Promise<void> {
  const { values, output } = given;
  const { message } = job;
  try {
    job.assertHeld();
    const ending = await runJob({
      ...parts,
      kept: { signals: [job.signal], leftMs: () => job.leftMs, ttlMs: values.ttl },
      argv: given.job,
      env: { POSTERN_QUEUE: job.name, POSTERN_MESSAGE_ID: message.id, POSTERN_DELIVERIES: String(message.deliveries) },
      input: inputOf(job.body),
      output,
      killAfterMs: values['kill-after'],
      maxHoldMs: values['max-hold'],
    });
    const done = ending.kind === 'ended' && ending.code === 0;
    if (done) await job.ack();
    else if (!job.signal.aborted) await giveBack(given, job, ending, parts.interrupts.signal);
    const details = { id: message.id, deliveries: message.deliveries };
    const where = isHopeless(given, ending) ? 'goes to the dead letters' : 'is given back';
    if (!done) output.tell('failed', `the message ${message.id} ${where}: ${reasonOf(ending)}`, details);
    else if (output.json) output.tell('done', `the message ${message.id} is done`, details);
  } catch (error) {
    if (!(error instanceof PosternError || error instanceof HoldLostError)) throw error;
    output.tell('unsettled', `the message ${message.id} is delivered again: ${error.message}`, { id: message.id });
  }
}

/** Whether the job says that nobody will ever be able to process the message. */
function isHopeless({ values }: GivenWork, ending: Ending): boolean {
  return ending.kind === 'ended' && ending.code !== null && ending.code === values['dead-letter-exit'];
}

async function giveBack(given: GivenWork, job: Job, ending: Ending, interrupted: AbortSignal): Promise<void> {
  const reason = reasonOf(ending);
  const delayMs = given.values['retry-delay'];
  if (isHopeless(given, ending)) return job.nack({ reason, deadLetter: true });
  if (job.message.group === undefined) return job.nack({ reason, delayMs });
  // What is given back to a group is delivered at once, and what is behind it waits anyway: it is kept for that time.
  await pause(delayMs, AbortSignal.any([interrupted, job.signal]));
  return job.nack({ reason });
}

/** Texts and bytes as they are, other values as JSON. */
function inputOf(body: unknown): Uint8Array {
  if (body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}
