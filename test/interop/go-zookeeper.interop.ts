/** go-zookeeper (github.com/go-zookeeper/zk): its one recipe, the lock, in one line with ours. */
import { describeLock, sharedScene } from './scene.js';

const scene = sharedScene('go-zookeeper');

describeLock("go-zookeeper's Lock in the line of a lock", scene, 'go-zookeeper', (peer, path) =>
  peer.make('lock', path),
);
