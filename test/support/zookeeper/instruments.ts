/** What only tests ask of ZooKeeper: who may do what, who is asking, and how many nodes there are. */
import { fourLetterWord } from '../../../scripts/lib/zookeeper.mjs';
import type { ControlSession } from '../../../src/zookeeper/control-session.js';
import { unless } from '../../../src/zookeeper/errors.js';
import type { ZooKeeperClient } from '../../../src/zookeeper/client.js';
import type { Acl, Operation, Stat } from '../../../src/zookeeper/operations.js';
import { timing } from '../timing.js';
import { readStat, writeAcl } from '../../../src/zookeeper/operations/records.js';

/** The number of all nodes below `path`, at any depth: not of one moment, when they change meanwhile. */
export async function countBelow(client: ZooKeeperClient, path: string): Promise<number> {
  const { children } = await client.getChildren(path);
  const below = path === '/' ? path : `${path}/`;
  const counts = await Promise.all(children.map((name) => unless(countBelow(client, below + name), 'NO_NODE')));
  return counts.reduce<number>((sum, count) => sum + (count === undefined ? 0 : count + 1), 0);
}

/**
 * The nodes whose data or existence the session watches, as the server at `address` (`host:port`) says once all that
 * was asked before is done there. Of watches on children no server tells.
 *
 * @returns absolute paths
 */
export async function watchedPaths(
  control: Pick<ControlSession, 'sync' | 'sessionId'>,
  address: string,
): Promise<string[]> {
  await control.sync('/', performance.now() + timing.eventuallyMs);
  const text = await fourLetterWord(Number(address.split(':')[1]), 'wchc');
  const session = text.split(/^(?=0x)/m).find((part) => part.startsWith(`0x${control.sessionId.toString(16)}\n`)) ?? '';
  return [...session.matchAll(/^\t(.*)$/gm)].map(([, path = '']) => path);
}

/** @param path absolute */
export function getAcl(path: string): Operation<{ acl: Acl[]; stat: Stat }> {
  return {
    name: 'getAcl',
    opcode: 6,
    path,
    writes: false,
    encode: (writer) => void writer.string(path),
    decode: (reader) => ({
      acl: reader.vector(() => ({ permission: reader.int(), id: { scheme: reader.string(), id: reader.string() } })),
      stat: readStat(reader),
    }),
  };
}

/** @param path absolute */
export function setAcl(path: string, acl: readonly Acl[], version = -1): Operation<Stat> {
  return {
    name: 'setAcl',
    opcode: 7,
    path,
    writes: true,
    encode(writer) {
      writeAcl(writer.string(path), acl);
      writer.int(version);
    },
    decode: readStat,
  };
}

export function whoAmI(): Operation<{ scheme: string; user: string }[]> {
  return {
    name: 'whoAmI',
    opcode: 107,
    path: '',
    writes: false,
    encode: () => undefined,
    decode: (reader) => reader.vector(() => ({ scheme: reader.string(), user: reader.string() })),
  };
}
