import { describe, expect, it } from 'vitest';
import { eventually, passed, throughout } from './eventually.js';

describe('eventually', () => {
  it('returns the first truthy value', async () => {
    let looks = 0;
    const value = await eventually('three looks', () => (++looks >= 3 ? `seen ${looks}` : undefined), { everyMs: 1 });
    expect(value).toBe('seen 3');
  });

  it('takes an error of the condition for "not yet"', async () => {
    let looks = 0;
    await eventually('no more errors', () => {
      looks += 1;
      if (looks < 3) throw new Error('not there');
      return true;
    });
    expect(looks).toBe(3);
  });

  it('fails with what was waited for and the last value', async () => {
    await expect(eventually('a holder', () => 0, { withinMs: 20 })).rejects.toThrow(
      'not within 20 ms: a holder (last value: 0)',
    );
  });

  it('fails with the last error, and keeps it as the cause', async () => {
    const error = new Error('connection refused');
    const failed: unknown = await eventually(
      'an answer',
      () => {
        throw error;
      },
      { withinMs: 20 },
    ).catch((reason: unknown) => reason);
    expect(failed).toMatchObject({ message: 'not within 20 ms: an answer (last error: connection refused)' });
    expect((failed as Error).cause).toBe(error);
  });

  it('gives others the processor after a look that took long', async () => {
    const lookMs = 100;
    let looks = 0;
    const look = (): Promise<boolean> => {
      looks += 1;
      return passed(lookMs).then(() => false);
    };
    await eventually('never', look, { withinMs: 20 * lookMs, everyMs: 1 }).catch(() => undefined);
    expect(looks).toBeLessThan(14);
  });

  it('does not hang on a condition that never answers', async () => {
    const never = new Promise<boolean>(() => undefined);
    await expect(eventually('an answer', () => never, { withinMs: 30 })).rejects.toThrow('did not answer');
  });
});

describe('throughout', () => {
  it('passes when the condition holds all the time', async () => {
    await throughout('nothing happens', () => true, { forMs: 30 });
  });

  it('fails as soon as the condition is broken', async () => {
    let looks = 0;
    await expect(throughout('at most 2 looks', () => ++looks < 3, { forMs: 5_000, everyMs: 1 })).rejects.toThrow(
      'at most 2 looks',
    );
    expect(looks).toBe(3);
  });
});
