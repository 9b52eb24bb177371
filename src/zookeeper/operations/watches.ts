/** Operations on the watches of a session. */
import { OPCODE, type Operation, type PersistentWatchMode } from '../operations.js';
import { nothing } from './records.js';

export function addWatch(path: string, mode: PersistentWatchMode): Operation<void> {
  return {
    name: 'addWatch',
    opcode: OPCODE.addWatch,
    path,
    writes: false,
    encode: (writer) => void writer.string(path).int(mode === 'persistent' ? 0 : 1),
    decode: nothing,
  };
}

const WATCHER_TYPE = { children: 1, data: 2, any: 3 } as const;

/** Removes this session's watches of one kind from `path`; NO_WATCHER if there is none. */
export function removeWatches(path: string, type: keyof typeof WATCHER_TYPE): Operation<void> {
  return {
    name: 'removeWatches',
    opcode: OPCODE.removeWatches,
    path,
    writes: false,
    encode: (writer) => void writer.string(path).int(WATCHER_TYPE[type]),
    decode: nothing,
  };
}

/** Paths by kind of watch. */
export type WatchedPaths = Record<'data' | 'exist' | 'children' | 'persistent' | 'recursive', string[]>;

/**
 * Sets watches again on a new connection. The server reports what has changed since `lastZxid`, except for the last two
 * kinds.
 */
export function setWatches(paths: WatchedPaths, lastZxid: number): Operation<void> {
  return {
    name: 'setWatches',
    opcode: OPCODE.setWatches,
    path: '',
    writes: false,
    encode: (writer) =>
      void writer
        .long(lastZxid)
        .strings(paths.data)
        .strings(paths.exist)
        .strings(paths.children)
        .strings(paths.persistent)
        .strings(paths.recursive),
    decode: nothing,
  };
}
