/** What the flags of `postern sidecar` say, checked. */
import { hostname } from 'node:os';
import type { PosternOptions } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { showDuration } from '../arguments/duration.js';
import { checkName } from '../arguments/name.js';
import type { sidecar as description } from '../commands/sidecar.js';
import { environment } from '../environment.js';
import { UsageError } from '../exit.js';
import { clientOptions } from '../gateway.js';
import { readHook, type Hook } from './hook.js';

export interface HealthSettings {
  readonly url: URL;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly failures: number;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Rendering {
  readonly key: string;
  readonly path: string;
}

export interface Settings {
  readonly client: PosternOptions & { readonly label: string };
  /** Undefined if the program's health is not checked. */
  readonly health: HealthSettings | undefined;
  readonly election: string | undefined;
  readonly preference: number | undefined;
  readonly value: string | undefined;
  readonly groups: readonly string[];
  readonly hooks: Readonly<Record<'elected' | 'lost' | 'rendered', Hook | undefined>>;
  readonly hookTimeoutMs: number;
  readonly file: string | undefined;
  readonly renderings: readonly Rendering[];
  /** Of a file that a rendering makes. */
  readonly renderMode: number;
  readonly listen: Address;
  readonly listenProbes: Address | undefined;
}

type GivenSidecar = GivenFor<typeof description>;

const LISTEN = '127.0.0.1:7071';
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/;
const PORT_MAX = 65_535;
const INTERVAL_MS = { min: 10, max: 3_600_000 };
const MANY = 100;
const RENDER_MODE = '600';
const OCTAL = 8;

/** @throws UsageError that names the flag */
export function settingsOf({ values }: GivenSidecar): Settings {
  const { elect, value, group: groups, file } = values;
  if (elect !== undefined) checkName('--elect', elect);
  if (elect === undefined) refuseWithout(values, 'elect', ['on-elected', 'on-lost', 'file', 'preference']);
  if (values.render.length === 0) refuseWithout(values, 'render', ['on-render', 'render-mode']);
  if (elect === undefined && groups.length === 0) refuseWithout(values, 'elect or --group', ['value']);
  for (const name of groups) checkName('--group', name);
  checkMany('--group', groups, groups);
  const renderings = renderingsOf(values.render);
  const listen = addressOf('--listen', values.listen ?? LISTEN);
  if (!LOOPBACK.test(listen.host))
    throw new UsageError(
      `--listen is "${values.listen}"; it must be a loopback address, because there is no authentication: --listen-probes is for others`,
    );
  const probes = values['listen-probes'];
  return {
    client: { ...clientOptions(values, environment), ttlMs: values.ttl, label: values.label ?? hostname() },
    health: healthOf(values),
    election: elect,
    preference: values.preference,
    value,
    groups,
    hooks: {
      elected: hookOf(values, 'on-elected'),
      lost: hookOf(values, 'on-lost'),
      rendered: hookOf(values, 'on-render'),
    },
    hookTimeoutMs: inBounds(values, 'hook-timeout'),
    file,
    renderings,
    renderMode: modeOf(values['render-mode'] ?? RENDER_MODE),
    listen,
    listenProbes: probes === undefined ? undefined : addressOf('--listen-probes', probes),
  };
}

function refuseWithout(values: GivenSidecar['values'], flag: string, others: (keyof GivenSidecar['values'])[]): void {
  const other = others.find((name) => values[name] !== undefined);
  if (other !== undefined) throw new UsageError(`--${other} needs --${flag}`);
}

function healthOf(values: GivenSidecar['values']): HealthSettings | undefined {
  const { health } = values;
  if (health === undefined)
    throw new UsageError(
      '--health is missing: where the program says that it is well, or none if its health is not checked',
    );
  const intervalMs = inBounds(values, 'health-interval');
  const timeoutMs = inBounds(values, 'health-timeout');
  if (health === 'none') return undefined;
  if (!URL.canParse(health) || new URL(health).protocol !== 'http:')
    throw new UsageError(`--health is "${health}"; it must look like http://127.0.0.1:8080/healthz, or none`);
  return { url: new URL(health), intervalMs, timeoutMs, failures: values['health-failures'] };
}

function inBounds(values: GivenSidecar['values'], name: 'health-interval' | 'health-timeout' | 'hook-timeout'): number {
  const ms = values[name];
  const { min, max } = INTERVAL_MS;
  if (ms >= min && ms <= max) return ms;
  throw new UsageError(`--${name} is ${showDuration(ms)}; it must be ${showDuration(min)} to ${showDuration(max)}`);
}

function hookOf(values: GivenSidecar['values'], name: 'on-elected' | 'on-lost' | 'on-render'): Hook | undefined {
  const given = values[name];
  return given === undefined ? undefined : readHook(`--${name}`, given);
}

function renderingsOf(given: readonly string[]): Rendering[] {
  const renderings = given.map((each) => {
    const [, key, path] = /^([^=]+)=(.+)$/.exec(each) ?? [];
    if (key === undefined || path === undefined)
      throw new UsageError(`--render is "${each}"; it must look like app/settings=/shared/settings.json`);
    return { key, path };
  });
  checkMany(
    '--render',
    given,
    renderings.map(({ path }) => path),
  );
  return renderings;
}

function modeOf(given: string): number {
  if (!/^0?[0-7]{3}$/.test(given)) throw new UsageError(`--render-mode is "${given}"; it must look like 600 or 0640`);
  return parseInt(given, OCTAL);
}

/** @param must what may stand there only once */
function checkMany(flag: string, given: readonly string[], must: readonly string[]): void {
  const twice = must.find((each, index) => must.indexOf(each) !== index);
  if (twice !== undefined) throw new UsageError(`${flag} names "${twice}" twice`);
  if (given.length > MANY) throw new UsageError(`${flag} is given ${given.length} times; at most ${MANY} are possible`);
}

function addressOf(flag: string, given: string): Address {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(given) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined || Number(port) > PORT_MAX)
    throw new UsageError(`${flag} is "${given}"; it must be a host and a port, such as ${LISTEN}`);
  return { host, port: Number(port) };
}
