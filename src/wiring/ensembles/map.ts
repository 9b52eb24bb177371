/**
 * Which namespace lies on which ensemble (ADR 41): as the file of `POSTERN_ENSEMBLES` says it, and as it is stored in
 * each ensemble.
 *
 * {
 *   "version": 2,
 *   "ensembles": { "west": { "zookeeper": "zk-west:2181", "fencingFloor": 0 } },
 *   "namespaces": { "orders": "west", "billing": { "ensemble": "west", "closed": true } }
 * }
 *
 * The ensemble of `POSTERN_ZOOKEEPER` is called `default`; a namespace that is not named lies there.
 */
import { z } from 'zod';
import { parseJson } from '../../http/access/watched-file.js';
import { join } from '../../zookeeper/paths.js';
import { CONNECT_STRING, CONNECT_STRING_RULE, FENCING_FLOOR_MAX } from '../../settings/zookeeper.js';

export const DEFAULT_ENSEMBLE = 'default';

/** Where an ensemble keeps its copy. @param root below which everything is stored */
export const mapPath = (root: string): string => join(root, 'ensembles');

/** Each has a control session and, in each process, caches of its own. */
const ENSEMBLES_MAX = 16;
/** With the longest names they fit into one znode. */
const NAMESPACES_MAX = 2_000;
const NAME = z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,200}$/, 'must be a name of 1 to 200 characters');
const PLACE = z.union([NAME, z.strictObject({ ensemble: NAME, closed: z.boolean().optional() })], {
  error: 'must be the name of an ensemble, or {"ensemble": …, "closed": true}',
});
const VERSION = z
  .number()
  .refine((value) => Number.isSafeInteger(value) && value >= 1, 'must be an integer from 1 to 9007199254740991');
const NAMESPACES = z.record(NAME, PLACE);
const FILE = z.strictObject({
  version: VERSION,
  ensembles: z.record(
    NAME,
    z.strictObject({
      zookeeper: z.string().regex(CONNECT_STRING, `must be ${CONNECT_STRING_RULE}`),
      fencingFloor: z
        .number()
        .refine(
          (value) => Number.isSafeInteger(value) && value >= 0 && value <= FENCING_FLOOR_MAX,
          `must be an integer from 0 to ${FENCING_FLOOR_MAX}`,
        )
        .optional(),
    }),
  ),
  namespaces: NAMESPACES,
});
/** Version 0: an id has been given, and there is no map yet. */
const STORED = z.strictObject({
  version: z.union([z.literal(0), VERSION]),
  ensemble: NAME,
  ids: z.record(NAME, z.string().regex(/^[0-9a-f]{32}$/, 'must be 32 hexadecimal digits')).optional(),
  namespaces: NAMESPACES,
});

/** By the name of an ensemble: what tells it from each other one that could be reached under that name. */
export type EnsembleIds = Readonly<Record<string, string>>;

/** How another ensemble than `default` is reached, and from where it counts fencing tokens. */
export interface EnsembleEntry {
  readonly zookeeper: string;
  readonly fencingFloor: number;
}

export interface EnsemblesFile {
  readonly map: EnsembleMap;
  /** All but `default`. */
  readonly entries: ReadonlyMap<string, EnsembleEntry>;
}

/** Where a namespace lies. */
export interface Place {
  readonly ensemble: string;
  /** Nothing but reads is done in it. */
  readonly closed: boolean;
}

const AT_DEFAULT: Place = { ensemble: DEFAULT_ENSEMBLE, closed: false };

export class EnsembleMap {
  /** Before there is a map, everything lies on `default`. */
  static readonly NONE = new EnsembleMap(0, {});
  readonly version: number;
  readonly #places: ReadonlyMap<string, Place>;

  constructor(version: number, namespaces: z.infer<typeof NAMESPACES>) {
    this.version = version;
    const places = Object.entries(namespaces).map(([namespace, place]): [string, Place] => [
      namespace,
      typeof place === 'string'
        ? { ensemble: place, closed: false }
        : { ensemble: place.ensemble, closed: place.closed ?? false },
    ]);
    this.#places = new Map(places.sort(([a], [b]) => (a < b ? -1 : 1)).filter(([, place]) => !isAtDefault(place)));
  }

  placeOf(namespace: string): Place {
    return this.#places.get(namespace) ?? AT_DEFAULT;
  }

  /** Those that do not lie on `default`, or are closed. */
  get named(): readonly string[] {
    return [...this.#places.keys()];
  }

  /** As it is stored in the ensemble of that name, with the ids known there. */
  encode(ensemble: string, ids: EnsembleIds = {}): Buffer {
    return Buffer.from(
      JSON.stringify({ version: this.version, ensemble, ids, namespaces: Object.fromEntries(this.#places) }),
    );
  }

  isSameAs(other: EnsembleMap): boolean {
    return this.encode('').equals(other.encode(''));
  }
}

function isAtDefault({ ensemble, closed }: Place): boolean {
  return ensemble === DEFAULT_ENSEMBLE && !closed;
}

/** @throws Error with a sentence about the first error found */
export function parseFile(text: string): EnsemblesFile {
  const { version, ensembles, namespaces } = parseJson(text, FILE);
  const names = Object.keys(ensembles);
  if (names.includes(DEFAULT_ENSEMBLE))
    throw new Error(`ensembles.${DEFAULT_ENSEMBLE}: this is the ensemble of POSTERN_ZOOKEEPER`);
  if (names.length > ENSEMBLES_MAX)
    throw new Error(`ensembles: there are ${names.length}, of at most ${ENSEMBLES_MAX}`);
  const map = new EnsembleMap(version, namespaces);
  const count = Object.keys(namespaces).length;
  if (count > NAMESPACES_MAX) throw new Error(`namespaces: there are ${count}, of at most ${NAMESPACES_MAX}`);
  for (const namespace of map.named) {
    const { ensemble } = map.placeOf(namespace);
    if (ensemble !== DEFAULT_ENSEMBLE && !names.includes(ensemble))
      throw new Error(`namespaces.${namespace}: there is no ensemble "${ensemble}" in the file`);
  }
  const entries = Object.entries(ensembles).map(([name, { zookeeper, fencingFloor = 0 }]): [string, EnsembleEntry] => [
    name,
    { zookeeper, fencingFloor },
  ]);
  return { map, entries: new Map(entries) };
}

/**
 * What is stored in an ensemble, and as which.
 * @throws Error with a sentence about the first error found
 */
export function parseStored(data: Buffer): {
  readonly map: EnsembleMap;
  readonly ensemble: string;
  readonly ids: EnsembleIds;
} {
  const { version, ensemble, ids = {}, namespaces } = parseJson(data.toString(), STORED);
  return { map: new EnsembleMap(version, namespaces), ensemble, ids };
}

/** Whether what is stored says no more than that everything lies on `default`. */
export function isOfDefaultAlone(data: Buffer): boolean {
  try {
    const { map, ensemble } = parseStored(data);
    return ensemble === DEFAULT_ENSEMBLE && map.named.length === 0;
  } catch {
    return false;
  }
}
