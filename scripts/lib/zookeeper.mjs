/** ZooKeeper for `npm start`, `npm test` and the test harness: get it, find Java, start a server. */
export { endWithParent } from './children.mjs';
export { build } from './install.mjs';
export { checkJava } from './java.mjs';
export { provideZooKeeper } from './zookeeper-release.mjs';
export {
  assertPortFree,
  fourLetterWord,
  PortTakenError,
  startZooKeeperServer,
  WITHOUT_WORKERS,
} from './zookeeper-server.mjs';
