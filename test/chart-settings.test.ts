/** Every setting of the gateway can be set through the chart, within the same bounds. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { expect, it } from 'vitest';
import { loadConfig } from '../src/config.js';
import type { Setting } from '../src/settings/setting.js';
import { SETTINGS } from '../src/settings/table.js';

const chart = (file: string): string => readFileSync(new URL(`../helm/postern/${file}`, import.meta.url), 'utf8');

/** Settings that the chart neither sets nor has a value for. */
const NOT_IN_THE_CHART = [
  'POSTERN_ZOOKEEPER_AUTH', // mounted as a file
  'POSTERN_LEASE_KEYS', // mounted as a file
  'POSTERN_WORKERS', // a pod uses one core; more of them are more pods
  'POSTERN_DATA_DIR', // of `npm start` alone
];

/** In a pod, whose address is no loopback one. */
const NEEDED = { POSTERN_HOST: '0.0.0.0', POSTERN_INSECURE: 'true' };

const settings = Object.entries<Setting<unknown>>(SETTINGS);
const { settings: values } = parse(chart('values.yaml')) as { settings: Record<string, unknown> };
const { properties } = JSON.parse(chart('values.schema.json')) as {
  properties: { settings: { properties: Record<string, { minimum?: number; maximum?: number }> } };
};

it('has each setting in the template, and a value with a schema for each that it does not set itself', () => {
  const template = chart('templates/deployment.yaml');
  const inTemplate = new Set([...template.matchAll(/name: (POSTERN_\w+),/g)].map(([, env]) => env));
  const missing = settings.map(([, { env }]) => env).filter((env) => !inTemplate.has(env));
  expect(missing.sort()).toEqual([...NOT_IN_THE_CHART].sort());
  const used = [...template.matchAll(/name: (POSTERN_\w+), value: \{\{ (?:include "\S+" )?\.(\w+) \| quote/g)];
  const envOf = new Map(settings.map(([name, { env }]) => [name, env]));
  for (const [, env, name = ''] of used) if (name in values) expect(envOf.get(name)).toBe(env);
  expect(Object.keys(values).sort()).toEqual(Object.keys(properties.settings.properties).sort());
});

it('takes the numbers that the gateway takes, and no others', () => {
  const numbers = settings.flatMap(([name, { rule }]) => {
    const [, minimum, maximum] = /^an integer from (\d+) to (\d+)/.exec(rule) ?? [];
    return minimum !== undefined && name in values ? [[name, Number(minimum), Number(maximum)] as const] : [];
  });
  expect(numbers.length).toBeGreaterThan(20);
  const { properties: schema } = properties.settings;
  expect(numbers.map(([name]) => [name, schema[name]?.minimum, schema[name]?.maximum])).toEqual(numbers);
});

it('leaves a number that is emptied to the gateway, and reckons with the same default itself', () => {
  const template = chart('templates/deployment.yaml');
  expect(/int64/.test(template), 'int64, which makes 0 of nothing, is in the template').toBe(false);
  const reckoned = [...template.matchAll(/"postern\.integer" \.Values\.settings\.(\w+) \| default "(\d+)"/g)];
  expect(Object.fromEntries(reckoned.map(([, name = '', fallback]) => [name, Number(fallback)]))).toEqual({
    drainPauseMs: SETTINGS.drainPauseMs.fallback,
    drainMs: SETTINGS.drainMs.fallback,
  });
  const numbers = settings.filter(([name, { rule }]) => name in values && rule.startsWith('an integer'));
  const emptied = Object.fromEntries(numbers.map(([, { env }]) => [env, '']));
  expect(loadConfig({ ...NEEDED, ...emptied }).config).toEqual(loadConfig(NEEDED).config);
});
