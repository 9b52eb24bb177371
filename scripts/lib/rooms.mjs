/**
 * The rooms of src/recipes, and what does not fit into them yet. Lint (eslint.config.js) holds who imports whom,
 * `scripts/rooms.mjs` the rest.
 *
 *   waiting, observing, housekeeping, membership ◀── line ◀── a recipe each ◀── lease-view
 *
 * A recipe imports what stands to the left of it, and no other recipe. The list of recipes is the folder's: a new one
 * needs no entry here.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './install.mjs';

/** What recipes are made with. */
export const KITS = ['waiting', 'observing', 'housekeeping', 'membership'];
/** The line in which contenders stand: locks, read-write locks, semaphores and elections are made with it. */
export const LINE = 'line';
/** Shows what a lease has of every recipe. */
export const LEASE_VIEW = 'lease-view';

export const RECIPES = readdirSync(join(ROOT, 'src', 'recipes'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && ![...KITS, LINE, LEASE_VIEW].includes(entry.name))
  .map(({ name }) => name);

/**
 * Imports across rooms that should not be, by the file that has them. Strike an entry with its reason; add none.
 * @type {Record<string, readonly string[]>}
 */
export const KNOWN_IMPORTS = {};

/** Imports that close circles: without them there is none. Strike those that are gone; add none. */
/** @type {readonly string[]} */
export const KNOWN_CIRCLES = [];

/**
 * Files (globs) in which something is longer than `lengths.mjs` allows, by the rule that they break. Strike those that
 * break it no more; add none.
 * @type {Record<string, readonly string[]>}
 */
export const KNOWN_LENGTHS = {
  'lengths/function': [
    'bench/generator/depth.ts',
    'test/recipes/double-barrier/faults/losses.test.ts',
    'test/recipes/lock/faults/kill-replica.test.ts',
    'test/recipes/semaphore/scale/crowd.test.ts',
  ],
  'max-len': ['scripts/lib/zookeeper-server.mjs'],
};
