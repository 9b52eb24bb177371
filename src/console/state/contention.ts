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
    contended.value = fetched.value?.items;
  }, [fetched.value]);
  return fetched;
}
