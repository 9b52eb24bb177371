/**
 * Directories that have given nearly all their sequence numbers: written into a snapshot of a server that is not
 * running.
 *
 *   header | sessions | ACLs | for each node: path, data, ACL, Stat | "/" | checksum, "/" | digest, which need not
 *   fit | checksum, "/" | zxid | checksum, "/"
 *
 * Source: FileSnap, SnapStream and DataTree of ZooKeeper 3.9.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestZooKeeper } from '../start-zookeeper.js';

const SEAL_BYTES = 8 + 4 + 1;
/** Between the seals: the digest, and the last zxid. */
const SEALED_BYTES = [8 + 4 + 8, 8];
const ADLER = 65_521;

/** Starts the server again with directories in which the next sequential node gets the given number. */
export async function wearOut(zookeeper: TestZooKeeper, next: Readonly<Record<string, number>>): Promise<void> {
  await zookeeper.restart(); // which leaves a snapshot of all there is
  await zookeeper.kill();
  const directory = join(zookeeper.dataDir, 'server-1', 'version-2');
  const snapshots = (await readdir(directory)).filter((name) => name.startsWith('snapshot.'));
  const newest = snapshots.sort((a, b) => zxidOf(a) - zxidOf(b)).at(-1);
  if (newest === undefined) throw new Error(`there is no snapshot in ${directory}`);
  const file = join(directory, newest);
  await writeFile(file, withNext(await readFile(file), next));
  await zookeeper.restart();
}

function zxidOf(snapshot: string): number {
  return Number.parseInt(snapshot.slice('snapshot.'.length), 16);
}

function withNext(snapshot: Buffer, next: Readonly<Record<string, number>>): Buffer {
  const bytes = Buffer.from(snapshot);
  let at = 4 + 4 + 8;
  const int = (): number => bytes.readInt32BE((at += 4) - 4);
  const text = (): string => {
    const length = int();
    return bytes.toString('utf8', at, (at += length));
  };
  for (let sessions = int(); sessions > 0; sessions -= 1) at += 8 + 4;
  for (let lists = int(); lists > 0; lists -= 1) {
    at += 8;
    for (let entries = int(); entries > 0; entries -= 1) {
      at += 4;
      text();
      text();
    }
  }
  const left = new Set(Object.keys(next));
  for (let path = text(); path !== '/'; path = text()) {
    const length = Math.max(0, int());
    at += length + 8 + 4 * 8 + 4; // data, ACL, when it was made and changed, version
    const number = next[path];
    if (number !== undefined) bytes.writeInt32BE(number, at);
    left.delete(path);
    at += 4 + 4 + 8 + 8;
  }
  if (left.size > 0) throw new Error(`the snapshot does not have ${[...left].join(', ')}`);
  for (const more of [...SEALED_BYTES, 0]) {
    if (at >= bytes.length) break; // older servers write fewer of them
    bytes.writeBigInt64BE(BigInt(adler32(bytes.subarray(0, at))), at);
    at += SEAL_BYTES + more;
  }
  return bytes;
}

function adler32(bytes: Uint8Array): number {
  let [a, b] = [1, 0];
  for (const byte of bytes) {
    a = (a + byte) % ADLER;
    b = (b + a) % ADLER;
  }
  return b * 65_536 + a;
}
