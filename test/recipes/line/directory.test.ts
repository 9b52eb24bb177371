/** What the length of a directory's data tells of its line. */
import { expect, test } from 'vitest';
import { idleDirectory, ownDirectory, readLineDirectory, withDelays } from '../../../src/recipes/line/directory.js';
import { encodeAgreement } from '../../../src/recipes/line/permits/agreement.js';
import type { Stat } from '../../../src/zookeeper/operations.js';

const PLAIN = { removable: false, idle: false, delays: false, byPriority: false };

function read(data: Buffer): ReturnType<typeof readLineDirectory> {
  return readLineDirectory({ version: 1, mzxid: 2, dataLength: data.length } as Stat);
}

test('each state is read as it was written', () => {
  const [own, byPriority] = [read(ownDirectory(false)), read(ownDirectory(false, true))];
  expect(own).toMatchObject(PLAIN);
  expect(byPriority).toMatchObject({ ...PLAIN, byPriority: true });
  expect(read(withDelays(own))).toMatchObject({ ...PLAIN, delays: true });
  const idle = { removable: true, idle: true };
  expect(read(idleDirectory(own))).toMatchObject({ ...PLAIN, ...idle });
  expect(read(idleDirectory(byPriority))).toMatchObject({ ...PLAIN, ...idle, byPriority: true });
  expect(read(withDelays(read(idleDirectory(own))))).toMatchObject({ ...PLAIN, ...idle, delays: true });
});

test('what the users of a semaphore agreed on is read as none of them', () => {
  const limits = Array.from({ length: 16 }, (_, digits) => Math.min(10 ** digits, Number.MAX_SAFE_INTEGER));
  for (const limit of [0, ...limits])
    for (const high of [0, ...limits]) expect(read(encodeAgreement({ limit, high }))).toMatchObject(PLAIN);
});
