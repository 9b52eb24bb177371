/** Every program that package.json runs is there: what nobody runs in a test is not noticed when it moves. */
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const at = (file: string): URL => new URL(`../../${file}`, import.meta.url);
const { scripts } = JSON.parse(readFileSync(at('package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};
const files = Object.entries(scripts).flatMap(([name, command]) =>
  command
    .split(' ')
    .filter((word) => /\.(ts|mjs|json)$/.test(word))
    .map((file) => ({ name, file })),
);

describe('the scripts of package.json', () => {
  it('name files at all', () => expect(files.length).toBeGreaterThan(10));

  it.each(files)('$name: $file is there', ({ file }) => expect(existsSync(at(file))).toBe(true));
});
