/** What the project says of the Node that it runs on is the same everywhere. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
// @ts-expect-error -- plain JavaScript without declarations
import { isNodeGoodEnough } from '../../scripts/lib/install.mjs';

const read = (file: string): string => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } };

it('the start admits the Node releases that engines names, and their later ones', () => {
  const good = isNodeGoodEnough as (version: string) => boolean;
  const floors = [...engines.node.matchAll(/(\d+)\.(\d+)\.(\d+)/g)].map(([, ...parts]) => parts.map(Number));
  expect(floors).toHaveLength(4);
  for (const [major = 0, minor = 0, patch = 0] of floors) {
    expect(good(`${major}.${minor}.${patch}`)).toBe(true);
    expect(good(`${major}.${minor + 1}.0`)).toBe(true);
    expect(good(patch > 0 ? `${major}.${minor}.${patch - 1}` : `${major}.${minor - 1}.9`)).toBe(false);
  }
  for (const never of ['18.20.8', '21.7.3', '23.11.1', '24.0.0']) expect(good(never)).toBe(false);
  expect(good('26.0.0')).toBe(true);
});
