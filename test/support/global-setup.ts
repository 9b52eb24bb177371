/** One ZooKeeper server for the whole run, started before the first test file and stopped after the last. */
import type { TestProject } from 'vitest/node';
import { WITHOUT_WORKERS } from '../../scripts/lib/zookeeper.mjs';
import { startZooKeeper } from './start-zookeeper.js';
import { archiveClasses, removeAbandonedData, zooKeeperRelease } from './zookeeper/node.js';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Connect string of the shared server. */
    zookeeper: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await removeAbandonedData();
  const { version, origin } = await zooKeeperRelease();
  console.log(`ZooKeeper ${version} from ${origin}`);
  await archiveClasses();
  // It keeps what every test of the run has written under a root of its own, and lives long enough for both compilers.
  // It never starts again, so no snapshot of all that is worth writing.
  const jvmFlags = ['-Xmx2g', WITHOUT_WORKERS, '-XX:TieredStopAtLevel=4', '-Dzookeeper.snapCount=100000000'];
  const zookeeper = await startZooKeeper({ jvmFlags });
  project.provide('zookeeper', zookeeper.connectString);
  return () => zookeeper.stop();
}
