/**
 * Directories of lines as Curator makes them: containers without data, which ZooKeeper removes when their last child
 * has gone.
 */
import { Layout, LINE_KINDS, type LineKind } from '../../src/leases/layout.js';
import { isReason } from '../../src/zookeeper/errors.js';
import { parentOf } from '../../src/zookeeper/paths.js';
import { eventually } from '../support/eventually.js';
import { scaled } from '../support/timing.js';
import { TestControl } from '../support/zookeeper/sessions.js';
import { ROOT, type Stage } from './stage.js';

/** Those that stand in line with Curator's; the directory of a semaphore says how many permits there are. */
const KINDS: readonly LineKind[] = ['lock', 'rwlock', 'election'];

/** Again and again: the ensemble is struck meanwhile. @returns the names of what they were made for */
export function makeContainers(stage: Stage): Promise<string[]> {
  return eventually('the containers are made', () => makeAll(stage), { withinMs: scaled(60_000), everyMs: 200 });
}

async function makeAll(stage: Stage): Promise<string[]> {
  const layout = new Layout(ROOT);
  await using control = await TestControl.open(stage.ensemble.connectString);
  const made: string[] = [];
  for (const kind of LINE_KINDS.filter((one) => KINDS.includes(one))) {
    for (const name of stage.nextObjects.get(kind) ?? []) {
      const path = layout.line(kind, 'default', name);
      try {
        await control.ensurePath(parentOf(path));
        await control.create(path, Buffer.alloc(0), { mode: 'container' });
        made.push(name);
      } catch (error) {
        if (!isReason(error, 'NODE_EXISTS')) throw error;
      }
    }
  }
  return made;
}
