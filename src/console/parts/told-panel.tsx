/** A thing of a kind that the stream tells of, looked at closely, in whichever state it is: told, absent, refused. */
import type { ComponentChildren, JSX } from 'preact';
import { LISTS, type Kind, type States } from '../api/contract.js';
import { Refusal } from '../api/refusal.js';
import { request } from '../api/request.js';
import { useFetched } from '../state/fetched.js';
import { isTold, prefix, thingsOf, unreadable } from '../state/live.js';
import { caller } from '../state/session.js';
import { Panel } from './panel.js';
import { Empty, Failed, Loading } from './states.js';

export interface ToldPanelProps<K extends Kind> {
  readonly kind: K;
  readonly name: string;
  /** That there is none, in a sentence. */
  readonly absent: string;
  readonly show: (thing: States[K]) => JSX.Element;
  /** What stands below, also where there is none. */
  readonly children?: ComponentChildren;
}

export function ToldPanel<K extends Kind>({ children, ...told }: ToldPanelProps<K>): JSX.Element {
  const { kind, name } = told;
  return (
    <Panel kind={kind} name={name}>
      <Told {...told} />
      {unreadable.value.has(kind) ? null : children}
    </Panel>
  );
}

function Told<K extends Kind>({ kind, name, absent, show }: Omit<ToldPanelProps<K>, 'children'>): JSX.Element {
  const thing = thingsOf(kind).get(name);
  const refusal = unreadable.value.get(kind);
  if (refusal !== undefined) return <Failed error={refusal} what={name} />;
  if (thing !== undefined) return show(thing);
  if (!isTold.value) return <Loading what={name} />;
  if (!name.startsWith(prefix.value)) return <Empty>Its name does not begin as those that are shown.</Empty>;
  return <Untold kind={kind} name={name} absent={absent} />;
}

const EVERY_MS = 5_000;

/** The stream does not tell of what is not there, nor of a name that this key may not read: the gateway knows which. */
function Untold({ kind, name, absent }: { kind: Kind; name: string; absent: string }): JSX.Element {
  const path = [LISTS[kind], ...(kind === 'config' ? name.split('/') : [name])];
  const { value, error } = useFetched(
    `${caller().namespace} ${kind} ${name}`,
    async (signal) => {
      const { body } = await request(caller(), { path, signal });
      await body?.cancel(); // whatever has come to be meanwhile, the stream tells of it
      return true;
    },
    EVERY_MS,
  );
  // Of a name that none can have there is nothing either.
  const isAbsent = error instanceof Refusal && (error.problem.status === 404 || error.problem.code === 'invalid');
  if (error !== undefined && !isAbsent) return <Failed error={error} what={name} />;
  return value === undefined && !isAbsent ? <Loading what={name} /> : <Empty>{absent}</Empty>;
}
