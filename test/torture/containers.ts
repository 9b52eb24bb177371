/** Directories of lines as Curator makes them: containers without data, which ZooKeeper removes when their last child has gone. */
import { Layout, LINE_KINDS, type LineKind } from '../../src/leases/layout.js';
import { isReason } from '../../src/zookeeper/errors.js';
import { parentOf } from '../../src/zookeeper/paths.js';
import { TestControl } from '../zookeeper/sessions.js';
import { ROOT, type Stage } from './stage.js';

/** Those that stand in line with Curator's; the directory of a semaphore says how many permits there are. */
const KINDS: readonly LineKind[] = ['lock', 'rwlock', 'election'];

/** @returns the names of what they were made for */
export async function makeContainers(stage: Stage): Promise<string[]> {
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
