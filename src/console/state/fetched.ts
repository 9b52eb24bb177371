/** What is asked for while it is shown: again after a pause, and not while nobody looks. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Refusal } from '../api/refusal.js';
import { refusedKey } from './session.js';

export interface Fetched<T> {
  /** The newest answer; undefined until there is one. */
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
      try {
        const value = await latest.current.load(closed.signal);
        if (!closed.signal.aborted) setResult({ subject, value });
      } catch (error) {
        if (closed.signal.aborted) return;
        noteRefusedKey(error);
        setResult((before) => (before.subject === subject ? { ...before, error } : { subject, error }));
      } finally {
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

export function noteRefusedKey(error: unknown): void {
  if (error instanceof Refusal && error.problem.status === 401) refusedKey.value = error.problem;
}
