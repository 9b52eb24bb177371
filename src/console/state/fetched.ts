/** What is asked for while it is shown: again after a pause, and not while nobody looks. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { isForbidden, Refusal } from '../api/refusal.js';
import { key, refusedKey } from './session.js';

/** An answer that takes longer is late; longer than the gateway takes to tell of everything. */
export const LATE_MS = 6_000;

/** How many of the requests that are asked while they are shown are late now. */
export const late = signal(0);

export interface Fetched<T> {
  /** The newest answer; undefined until there is one, and when it may not be read any more. */
  readonly value: T | undefined;
  /** Of the newest attempt. */
  readonly error: unknown;
  /** Asks at once. */
  readonly again: () => void;
}

/**
 * @param subject what is asked for: another one begins anew
 * @param everyMs the pause between an answer and the next request, or what says how long it is now
 */
export function useFetched<T>(
  subject: string,
  load: (signal: AbortSignal) => Promise<T>,
  everyMs: number | (() => number),
): Fetched<T> {
  const [result, setResult] = useState<{ subject: string; value?: T; error?: unknown }>({ subject });
  const wake = useRef<() => void>(() => undefined);
  const latest = useRef({ load, everyMs });
  latest.current = { load, everyMs };
  useEffect(() => {
    const closed = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isAsking = false;
    const ask = async (): Promise<void> => {
      clearTimeout(timer);
      if (isAsking || document.hidden) return;
      isAsking = true;
      const answered = expectAnswer();
      try {
        const value = await latest.current.load(closed.signal);
        if (closed.signal.aborted) return;
        setResult({ subject, value });
      } catch (error) {
        if (closed.signal.aborted) return;
        noteRefusedKey(error);
        setResult((before) =>
          !isForbidden(error) && before.subject === subject ? { ...before, error } : { subject, error },
        );
      } finally {
        answered();
        isAsking = false;
      }
      if (closed.signal.aborted) return;
      const pause = latest.current.everyMs;
      timer = setTimeout(() => void ask(), typeof pause === 'number' ? pause : pause());
    };
    wake.current = () => void ask();
    const onVisible = (): void => void ask();
    document.addEventListener('visibilitychange', onVisible);
    void ask();
    return () => {
      closed.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisible);
    };
  }, [subject]);
  const again = useCallback(() => wake.current(), []);
  const isCurrent = result.subject === subject;
  return { value: isCurrent ? result.value : undefined, error: isCurrent ? result.error : undefined, again };
}

/** @returns what is to be called when there is an answer, or nobody waits for it any more */
function expectAnswer(): () => void {
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    late.value += 1;
  }, LATE_MS);
  return () => {
    clearTimeout(timer);
    if (isLate) late.value -= 1;
  };
}

/** The answer may come late: of a key that has been replaced since, it says nothing. */
export function noteRefusedKey(error: unknown): void {
  if (error instanceof Refusal && error.problem.status === 401 && error.key === key.peek())
    refusedKey.value = error.problem;
}
