/**
 * What several checks look at, made when the first of them asks and taken away at the end: the image, and an ensemble.
 */
import { buildImage } from './image.mjs';
import { startZooKeepers } from './zookeepers.mjs';

/** @type {(() => Promise<void>)[]} */
const leftovers = [];

/** @template {{ dispose(): Promise<void> }} T @param {() => Promise<T>} make @returns {() => Promise<T>} */
function shared(make) {
  /** @type {Promise<T> | undefined} */
  let made;
  return () => {
    made ??= make().then((thing) => {
      leftovers.push(() => thing.dispose());
      return thing;
    });
    return made;
  };
}

export const theImage = shared(buildImage);
export const theEnsemble = shared(() => startZooKeepers(3));

/** In the reverse order of their making. */
export async function disposeScene() {
  for (const dispose of leftovers.splice(0).reverse()) await dispose();
}
