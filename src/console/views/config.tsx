/** Keys of the configuration. Their values are secrets as likely as not: each is read when it is asked for. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Schemas } from '../api/contract.js';
import { request } from '../api/request.js';
import { Age } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { Intervention } from '../parts/intervention.js';
import { ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { Listing } from '../parts/listing.js';
import { Failed, Loading } from '../parts/states.js';
import { ToldPanel } from '../parts/told-panel.js';
import { Value } from '../parts/value.js';
import { noteRefusedKey } from '../state/fetched.js';
import { isTold, revisionOf, thingsOf, unreadable } from '../state/live.js';
import { route } from '../state/route.js';
import { caller } from '../state/session.js';
import { bytes } from '../words/quantity.js';
import { textOfBytes } from '../words/value.js';

type Key = Schemas['ConfigKeySummary'];

const COLUMNS: readonly Column<Key>[] = [
  {
    title: 'Key',
    width: 'minmax(5rem, 2fr)',
    cell: ({ key }) => <ThingLink kind="config" name={key} />,
    order: (one, other) => (one.key < other.key ? -1 : 1),
  },
  { title: 'Type', width: 'minmax(8rem, 1fr)', cell: ({ contentType }) => contentType, isMinor: true },
  {
    title: 'Size',
    width: '6rem',
    cell: (key) => bytes(key.bytes),
    order: (one, other) => one.bytes - other.bytes,
    isNumber: true,
  },
  {
    title: 'Changed',
    width: '6.5rem',
    cell: ({ modifiedAt }) => <Age since={modifiedAt} />,
    order: (one, other) => (one.modifiedAt < other.modifiedAt ? -1 : 1),
    isNumber: true,
  },
];

export function ConfigView(): JSX.Element {
  const revision = revisionOf('config');
  const rows = useMemo(() => [...thingsOf('config').values()].sort((a, b) => (a.key < b.key ? -1 : 1)), [revision]);
  const { chosen } = route.value;
  return (
    <Listing
      title="Configuration"
      what="keys"
      rows={rows}
      columns={COLUMNS}
      keyOf={({ key }) => key}
      textsOf={({ key }) => [key]}
      hint="key"
      isRead={isTold.value}
      error={unreadable.value.get('config')}
      empty="There is no key in this namespace."
      chosen={chosen?.name}
      panel={chosen === undefined ? null : <KeyPanel name={chosen.name} />}
    />
  );
}

function KeyPanel({ name }: { name: string }): JSX.Element {
  return (
    <ToldPanel
      kind="config"
      name={name}
      absent="There is no such key."
      show={(key) => (
        <>
          <Facts
            facts={[
              ['Type', key.contentType],
              ['Size', bytes(key.bytes)],
              ['Changed', <Age since={key.modifiedAt} />],
              ['ETag', <span class="name">{key.etag}</span>],
            ]}
          />
          <ValueOnRequest key={`${name} ${key.etag}`} name={name} />
          <DeleteKey key={`delete ${key.key} ${key.etag}`} config={key} />
        </>
      )}
    />
  );
}

/** Hidden again when the value is another. */
function ValueOnRequest({ name }: { name: string }): JSX.Element {
  const [isAsked, setAsked] = useState(false);
  const [read, setRead] = useState<{ text?: string; error?: unknown }>({});
  useEffect(() => {
    if (!isAsked) return;
    const closed = new AbortController();
    const { signal } = closed;
    request(caller(), { path: ['config', ...name.split('/')], signal })
      .then(async (response) => setRead({ text: textOfBytes(new Uint8Array(await response.arrayBuffer())) }))
      .catch((error: unknown) => {
        if (signal.aborted) return;
        noteRefusedKey(error);
        setRead({ error });
      });
    return () => closed.abort();
  }, [isAsked]);
  if (!isAsked)
    return (
      <button type="button" onClick={() => setAsked(true)}>
        Show value
      </button>
    );
  if (read.error !== undefined) return <Failed error={read.error} what="the value" />;
  return read.text === undefined ? (
    <Loading what="the value" />
  ) : (
    <Value value={read.text} label={`Value of ${name}`} />
  );
}

function DeleteKey({ config }: { config: Key }): JSX.Element {
  const { namespace } = caller();
  return (
    <Intervention
      id={`delete config ${namespace} ${config.key}`}
      button="Delete…"
      title="Delete this key"
      confirm="Delete key"
      consequence={() => (
        <p>
          The key <code>{config.key}</code> in namespace <code>{namespace}</code> and its value of {bytes(config.bytes)}{' '}
          are gone, for everybody who reads or watches it. Keys below it stay. It is refused if the value has changed
          since <code>{config.etag}</code>.
        </p>
      )}
      act={async () => {
        const headers = { 'If-Match': `"${config.etag}"` };
        await request(caller(), { method: 'DELETE', path: ['config', ...config.key.split('/')], headers });
        return `Key ${config.key} is deleted.`;
      }}
    />
  );
}
