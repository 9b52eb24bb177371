/** Where requests wait at this replica. */
import { useEffect } from 'preact/hooks';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { useFetched, type Fetched } from './fetched.js';
import { contended } from './overview.js';
import { caller } from './session.js';

const EVERY_MS = 2_000;
const TOP = 200;

export function useContention(): Fetched<Schemas['Contention']> {
  const { namespace, key } = caller();
  const fetched = useFetched<Schemas['Contention']>(
    `${namespace} ${key}`,
    (signal) => requestJson(caller(), { path: ['contention'], query: { top: TOP }, signal }),
    EVERY_MS,
  );
  useEffect(() => {
    contended.value = fetched.error === undefined ? fetched.value?.items : undefined;
  }, [fetched.value, fetched.error]);
  useEffect(() => {
    const forget = (): void => void (contended.value = undefined);
    document.addEventListener('visibilitychange', forget); // nothing was asked meanwhile
    return () => {
      document.removeEventListener('visibilitychange', forget);
      forget();
    };
  }, []);
  return fetched;
}
