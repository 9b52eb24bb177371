/** All settings in one table, in the order in which they are explained; and what is read of them. */
import { ACCESS } from './access.js';
import { LIMITS } from './limits.js';
import { LISTENER } from './listener.js';
import { PROCESS } from './process.js';
import type { Setting } from './setting.js';
import { SHARED } from './shared.js';
import { ZOOKEEPER } from './zookeeper.js';

export const SETTINGS = { ...ZOOKEEPER, ...LISTENER, ...SHARED, ...ACCESS, ...LIMITS, ...PROCESS };

type Table = typeof SETTINGS;

export type Values = {
  readonly [K in keyof Table]: Table[K] extends Setting<infer T> ? T : never;
};

/** Settings that are another way to give what a variable gives. */
export const FILES = { leaseKeys: 'leaseKeysFile', zookeeperAuth: 'zookeeperAuthFile' } as const;

export type FileOfAnother = (typeof FILES)[keyof typeof FILES];

/** All settings; `leaseKeys` and `zookeeperAuth` are those of the variable or of the file. */
export type Config = Omit<Values, FileOfAnother>;
