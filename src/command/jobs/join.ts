/** `postern group join`: a member while a job runs, or while the command does. */
import { Postern, type JoinOptions, type Schemas } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { showDuration } from '../arguments/duration.js';
import { checkName } from '../arguments/name.js';
import type { join as description } from '../commands/group.js';
import { EXIT, UsageError } from '../exit.js';
import { jsonText, visible, type Output } from '../output.js';
import { diesOf, Interrupted, Interrupts } from '../process/interrupts.js';
import { acquired, holdOptions, runUnderHold, untilInterrupted } from './hold-job.js';

type GivenJoin = GivenFor<typeof description>;

/** Of what --watch prints. */
const MARKS = { joined: '+', changed: '=', left: '-' } as const;

export function join(given: GivenJoin): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { value, member, watch, again } = given.values;
  if (member !== undefined) checkName('--member', member);
  const joining = { ...(value !== undefined && { value }), ...(member !== undefined && { member }) };
  if (given.job.length === 0) return stay(given, name, joining);
  if (watch) throw new UsageError('--watch prints to standard output, which belongs to the job: give only one of them');
  return runUnderHold({
    given,
    what: membershipOf(name),
    acquire: (postern) => postern.group(name).join(joining),
    busyCode: EXIT.notAcquired,
    again,
  });
}

function membershipOf(name: string): string {
  return `the membership of the group "${name}"`;
}

/** Without a job. */
async function stay(given: GivenJoin, name: string, joining: JoinOptions): Promise<number> {
  const { output, values } = given;
  const { again, watch } = values;
  using interrupts = new Interrupts();
  await using postern = new Postern(holdOptions(given));
  const ending = new AbortController();
  const failed = new Promise<never>((_, reject) => {
    if (watch) print(output, postern.group(name).observe({ signal: ending.signal })).catch(reject);
  });
  try {
    for (let wasHeld = false; ; wasHeld = true) {
      const asking = { what: membershipOf(name), wasHeld, over: interrupts.signal, output };
      const membership = await acquired(asking, () => postern.group(name).join(joining));
      const { member, holdId, fencingToken } = membership;
      if (output.json) output.tell('joined', `a member of the group "${name}"`, { name, member, holdId, fencingToken });
      const over = untilInterrupted(endOf(membership.signal, values['max-hold']), interrupts.signal);
      const why = await Promise.race([over, failed]);
      if (again && membership.signal.aborted) continue;
      output.tell('stopped', `no member of the group "${name}" any more: ${why}`, { why, exitCode: EXIT.lost });
      return EXIT.lost;
    }
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error;
    await postern.close();
    return diesOf(error.signal);
  } finally {
    ending.abort();
  }
}

/** @returns why it is over */
export function endOf(signal: AbortSignal, maxHoldMs: number | undefined): Promise<string> {
  return new Promise((resolve) => {
    const over = (why: string): void => {
      clearTimeout(timer);
      resolve(why);
    };
    const longest = (): void => over(`${showDuration(maxHoldMs ?? 0)} is the longest hold`);
    const timer = maxHoldMs === undefined ? undefined : setTimeout(longest, maxHoldMs);
    const lost = (): void => over((signal.reason as Error).message);
    signal.addEventListener('abort', lost, { once: true });
    // Looked at last, because a look may end it: a process that stood still in between would never be told otherwise.
    if (signal.aborted) lost();
  });
}

/** Who is there first, and then what has changed. */
async function print(output: Output, states: AsyncIterable<Schemas['Group']>): Promise<void> {
  let before = new Map<string, string>();
  for await (const { members, memberCount } of states) {
    const now = new Map(members.map(({ member, value }) => [member, jsonText(value)]));
    const changed = [...now].filter(([member, value]) => before.get(member) !== value);
    const marked = changed.map(([member]) => [before.has(member) ? 'changed' : 'joined', member] as const);
    const left = [...before.keys()].filter((member) => !now.has(member)).map((member) => ['left', member] as const);
    for (const [event, member] of [...left, ...marked]) {
      const value = now.get(member);
      const details = {
        event,
        member,
        ...(value !== undefined && { value: JSON.parse(value) as unknown }),
        memberCount,
      };
      output.result(details, () => visible([MARKS[event], member, value].join(' ').trimEnd()));
    }
    before = now;
  }
}
