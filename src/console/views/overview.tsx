/** How things are at a glance: how many wait, where most of all, and how it was in the last minutes. */
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { TITLES, type Kind, type Schemas } from '../api/contract.js';
import { isForbidden } from '../api/refusal.js';
import { requestJson } from '../api/request.js';
import { Facts } from '../parts/facts.js';
import { ThingLink } from '../parts/link.js';
import { Page } from '../parts/page.js';
import { Plot } from '../parts/plot.js';
import { SmallTable } from '../parts/small-table.js';
import { Empty, Failed, Loading } from '../parts/states.js';
import { useContention } from '../state/contention.js';
import { useFetched } from '../state/fetched.js';
import { readCounts } from '../state/herd.js';
import { LINE_KINDS } from '../state/lines.js';
import { isTold, mayRead, thingsOf, unreadable } from '../state/live.js';
import { columns, countHeld, countWaiting } from '../state/overview.js';
import { hrefOf } from '../state/route.js';
import { caller, key } from '../state/session.js';
import { duration } from '../words/age.js';
import { factorOf, type Counts } from '../words/herd.js';
import { number } from '../words/quantity.js';

const STATUS_EVERY_MS = 10_000;
const COUNTS_EVERY_MS = 10_000;
const SHOWN = 8;

export function OverviewView(): JSX.Element {
  const contention = useContention();
  const [held, waiting] = [holds(), waits(contention.error)];
  return (
    <Page title="Overview">
      <div class="overview">
        <ul class="tiles" aria-label="At a glance">
          <Tile word="Waiting now" href={hrefOf('contention')} hint="requests at this replica" {...waiting} />
          <Tile word="Holds" href={hrefOf('lines')} {...held} />
          <Tile word="Messages" href={hrefOf('queues')} hint={hintOfMessages()} {...messages()} />
          <Herd />
        </ul>
        <section class="box" aria-labelledby="plot-title">
          <h2 id="plot-title">
            The last five minutes
            <span class="legend">
              <span class="key key-held">held</span> <span class="key key-waiting">waiting</span>
            </span>
          </h2>
          <Plot
            columns={columns.value}
            names={['held', 'waiting']}
            label={`Plot of the last five minutes; now held: ${inWords(held)}, waiting: ${inWords(waiting)}.`}
          />
        </section>
        <section class="box">
          <h2>Most contended</h2>
          <Contended contention={contention} />
        </section>
        <section class="box" aria-label="This replica">
          <h2>This replica</h2>
          <Replica />
        </section>
        {unreadable.value.size === 0 ? null : (
          <section class="box" aria-label="What this key may not read">
            <h2>Not shown</h2>
            <ul class="plain">
              {[...unreadable.value].map(([kind, refusal]) => (
                <li key={kind}>This key lacks {refusal.missingScope ?? `a scope on ${kind}`}.</li>
              ))}
            </ul>
          </section>
        )}
      </div>
    </Page>
  );
}

/** A number that is not known is null; and words, for why it is not, stand in its place. */
interface Figure {
  readonly figure: string | null;
  readonly why?: string;
}

interface TileProps extends Figure {
  readonly word: string;
  readonly hint: string;
  readonly href?: string;
}

const UNREADABLE = 'may not be read';

function Tile({ word, hint, href, figure, why }: TileProps): JSX.Element {
  return (
    <li class="tile">
      <span class="tile-word">{href === undefined ? word : <a href={href}>{word}</a>}</span>
      {figure === null && why !== undefined ? (
        <span class="tile-words">{why}</span>
      ) : (
        <span class="tile-value">{figure ?? '–'}</span>
      )}
      <span class="soft">{hint}</span>
    </li>
  );
}

function inWords({ figure, why = 'not known yet' }: Figure): string {
  return figure ?? why;
}

const plural = (kind: Kind): string => `${TITLES[kind]?.toLowerCase()}s`;

const inFigures = (count: number | null): string | null => (count === null ? null : number(count));

function waits(error: unknown): Figure {
  const figure = inFigures(countWaiting());
  return error === undefined ? { figure } : { figure, why: isForbidden(error) ? UNREADABLE : 'cannot be read' };
}

function holds(): Figure & Pick<TileProps, 'hint'> {
  const readable = LINE_KINDS.filter(mayRead);
  if (readable.length === 0) return { figure: null, why: UNREADABLE, hint: 'of locks, permits and elections' };
  const isAll = readable.length === LINE_KINDS.length;
  return {
    figure: inFigures(countHeld()),
    hint: isAll ? 'of locks, permits and elections' : `of ${readable.map(plural).join(', ')} alone`,
  };
}

/** The stream leaves out what the key may not read, name by name. */
function hintOfMessages(): string {
  return key.value === '' ? 'in all queues' : 'in all queues that this key may read';
}

function messages(): Figure {
  if (!mayRead('queue')) return { figure: null, why: UNREADABLE };
  return { figure: isTold.value ? number(countMessages()) : null };
}

/** Each hand-over should wake one waiter, not the herd. */
function Herd(): JSX.Element {
  const { value, error } = useFetched('metrics', readCounts, COUNTS_EVERY_MS);
  const seen = useRef<{ now: Counts | undefined; before: Counts | undefined }>({ now: undefined, before: undefined });
  if (value !== undefined && value !== seen.current.now) seen.current = { now: value, before: seen.current.now };
  const { now, before } = seen.current;
  const recent =
    now !== undefined && before !== undefined
      ? factorOf({ wakeups: now.wakeups - before.wakeups, handoffs: now.handoffs - before.handoffs })
      : undefined;
  const factor = recent ?? (now === undefined ? undefined : factorOf(now));
  const hint =
    error !== undefined
      ? 'woken per hand-over'
      : value === undefined
        ? 'metrics are at the port for operations'
        : recent === undefined
          ? 'woken per hand-over, since the start'
          : 'woken per hand-over, just now';
  const figure = error !== undefined || factor === undefined ? null : factor.toFixed(2);
  return (
    <Tile word="Herd factor" hint={hint} figure={figure} {...(error !== undefined && { why: 'cannot be read' })} />
  );
}

function Contended({ contention: { value, error } }: { contention: ReturnType<typeof useContention> }): JSX.Element {
  if (error !== undefined) return <Failed error={error} what="where requests wait" />;
  if (value === undefined) return <Loading what="where requests wait" />;
  if (value.items.length === 0) return <Empty>No request has waited within the last minutes.</Empty>;
  return (
    <SmallTable
      caption="Most contended names"
      heads={['Name', 'Waiting', 'Oldest', 'Longest']}
      rows={value.items.slice(0, SHOWN).map(({ kind, name, waiting, oldestWaitMs, longestWaitMs }) => [
        <>
          <ThingLink kind={kind} name={name} /> <span class="soft">{kind}</span>
        </>,
        number(waiting),
        oldestWaitMs === 0 ? '–' : duration(oldestWaitMs),
        longestWaitMs === 0 ? '–' : duration(longestWaitMs),
      ])}
    />
  );
}

function Replica(): JSX.Element {
  const { namespace, key } = caller();
  const { value, error } = useFetched<Schemas['Status']>(
    `${namespace} ${key}`,
    (signal) => requestJson(caller(), { path: ['status'], signal }),
    STATUS_EVERY_MS,
  );
  if (error !== undefined) return <Failed error={error} what="the status" />;
  if (value === undefined) return <Loading what="the status" />;
  const { sessionBounds } = value;
  return (
    <Facts
      facts={[
        ['State', value.ready ? 'ready' : value.reasons.join(' ')],
        ['Version', value.version],
        ['Node.js', value.node],
        ['Up for', duration(value.uptimeMs)],
        sessionBounds != null && ['TTL', `${duration(sessionBounds.minTtlMs)} to ${duration(sessionBounds.maxTtlMs)}`],
        ['API', <a href="docs">documentation</a>],
      ]}
    />
  );
}

function countMessages(): number {
  let depth = 0;
  for (const queue of thingsOf('queue').values()) depth += queue.depth;
  return depth;
}
