/** All subcommands, in the order of the help. */
import { entry, type Command, type Entry } from './arguments/command.js';
import * as backup from './commands/backup.js';
import * as barrier from './commands/barrier.js';
import * as config from './commands/config.js';
import * as group from './commands/group.js';
import { elect, lock } from './commands/lock.js';
import * as names from './commands/names.js';
import { once } from './commands/once.js';
import * as queue from './commands/queue.js';
import * as reservation from './commands/reservation.js';
import * as schedule from './commands/schedule.js';
import { completion, doctor } from './commands/self.js';
import { sidecar } from './commands/sidecar.js';
import { slot } from './commands/slot.js';
import { top } from './commands/top.js';

export const ENTRIES: readonly Entry[] = [
  entry(lock, async () => (await import('./jobs/lock.js')).lock),
  entry(once, async () => (await import('./jobs/once.js')).once),
  entry(slot, async () => (await import('./jobs/slot.js')).slot),
  entry(elect, async () => (await import('./jobs/elect.js')).elect),
  entry(reservation.reserve, async () => (await import('./plain/reservation.js')).reserve),
  entry(reservation.extend, async () => (await import('./plain/reservation.js')).extend),
  entry(reservation.release, async () => (await import('./plain/reservation.js')).release),
  entry(sidecar, async () => (await import('./sidecar/sidecar.js')).sidecar),
  entry(group.join, async () => (await import('./jobs/join.js')).join),
  entry(group.post, async () => (await import('./plain/group.js')).post),
  entry(group.messages, async () => (await import('./plain/group.js')).messages),
  entry(barrier.wait, async () => (await import('./plain/barrier.js')).wait),
  entry(barrier.raise, async () => (await import('./plain/barrier.js')).raise),
  entry(barrier.lift, async () => (await import('./plain/barrier.js')).lift),
  entry(barrier.enter, async () => (await import('./jobs/enter.js')).enter),
  entry(queue.push, async () => (await import('./plain/queue.js')).push),
  entry(queue.work, async () => (await import('./jobs/work.js')).work),
  entry(queue.peek, async () => (await import('./plain/queue.js')).peek),
  entry(queue.tail, async () => (await import('./plain/tail.js')).tail),
  entry(queue.rm, async () => (await import('./plain/queue.js')).rm),
  entry(queue.pause, async () => (await import('./plain/queue.js')).pause),
  entry(queue.resume, async () => (await import('./plain/queue.js')).resume),
  entry(queue.redrive, async () => (await import('./plain/queue.js')).redrive),
  entry(schedule.put, async () => (await import('./plain/schedule.js')).put),
  entry(schedule.rm, async () => (await import('./plain/schedule.js')).rm),
  entry(config.get, async () => (await import('./plain/config.js')).get),
  entry(config.put, async () => (await import('./plain/config.js')).put),
  entry(config.watch, async () => (await import('./plain/config.js')).watch),
  entry(config.exportKeys, async () => (await import('./plain/config.js')).exportKeys),
  entry(config.importKeys, async () => (await import('./plain/config-import.js')).importKeys),
  entry(backup.exportAll, async () => (await import('./backup/export.js')).exportAll),
  entry(backup.importAll, async () => (await import('./backup/import.js')).importAll),
  entry(names.ls, async () => (await import('./plain/names.js')).ls),
  entry(names.show, async () => (await import('./plain/names.js')).show),
  entry(top, async () => (await import('./top/top.js')).top),
  entry(names.revoke, async () => (await import('./plain/names.js')).revoke),
  entry(names.transfer, async () => (await import('./plain/names.js')).transfer),
  entry(names.nodes, async () => (await import('./plain/names.js')).nodes),
  entry(names.breakNode, async () => (await import('./plain/names.js')).breakNode),
  entry(doctor, async () => (await import('./doctor/doctor.js')).doctor),
  entry(completion, async () => {
    const module = await import('./completion/completion.js');
    return (given) => module.completion(given, COMMANDS);
  }),
];

export const COMMANDS: readonly Command[] = ENTRIES.map((each) => each.command);
