import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ERROR_CODES } from '../../src/errors.js';
import { NoReplyError, ZooKeeperError, isReason, unless, zooKeeperReason } from '../../src/zookeeper/errors.js';
import { rejection } from '../support/zookeeper/sessions.js';

describe('an error code of ZooKeeper', () => {
  it('whatever its number is an error with that number (defect 7)', () => {
    fc.assert(
      fc.property(fc.oneof(fc.integer(), fc.integer({ min: -200, max: 10 }), fc.constant(NaN)), (number) => {
        const error = new ZooKeeperError(number, 'getData', '/x', 7);
        expect(error.number).toBe(number);
        expect(typeof error.reason).toBe('string');
        expect(error.message).toContain(`(${number})`);
        expect(error.outcome).toBe('not-applied');
        expect(Object.keys(ERROR_CODES)).toContain(error.code);
      }),
    );
  });

  it('is known by number and not by name', () => {
    expect(zooKeeperReason(-101)).toBe('NO_NODE');
    expect(zooKeeperReason(-126)).toBe('UNKNOWN');
    expect(isReason(new ZooKeeperError(-110, 'create', '/x', 1), 'NO_NODE', 'NODE_EXISTS')).toBe(true);
    expect(isReason(new ZooKeeperError(-110, 'create', '/x', 1), 'NO_NODE')).toBe(false);
    expect(isReason(new Error('NODE_EXISTS'), 'NODE_EXISTS')).toBe(false);
  });

  it('that was expected becomes undefined, and every other error goes on', async () => {
    expect(await unless(Promise.resolve(1), 'NO_NODE')).toBe(1);
    expect(await unless(Promise.reject(new ZooKeeperError(-101, 'exists', '/x', 1)), 'NO_NODE')).toBeUndefined();
    const other = new ZooKeeperError(-102, 'exists', '/x', 1);
    expect(await rejection(unless(Promise.reject(other), 'NO_NODE'))).toBe(other);
  });
});

describe('no reply', () => {
  it.each(['not-connected', 'connection-lost', 'deadline'] as const)(
    '(%s) says whether something may have happened',
    (what) => {
      const open = new NoReplyError('delete', what, true);
      expect(open).toMatchObject({ code: 'outcome-unknown', outcome: 'unknown' });
      expect(open.message).toContain('it may or may not have been done');
      const cause = new Error('reset');
      const nothing = new NoReplyError('delete', what, false, cause);
      expect(nothing).toMatchObject({ code: 'zookeeper-unavailable', outcome: 'not-applied', retryAfterSeconds: 1 });
      expect(nothing.message).toContain('Nothing was done');
      expect(nothing.cause).toBe(cause);
    },
  );

  it.each([
    ['quorum', 'ZooKeeper did not answer the quorum read: there was no connection to it. Nothing was done.'],
    ['create', 'ZooKeeper did not answer the request "create": there was no connection to it. Nothing was done.'],
    ['the push', 'ZooKeeper did not answer the push: there was no connection to it. Nothing was done.'],
  ])('to %s is told in a sentence', (operation, sentence) => {
    expect(new NoReplyError(operation, 'not-connected', false).message).toBe(sentence);
  });
});
