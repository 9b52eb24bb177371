/** A mutation whose text has moved would be found out when somebody asks for it, months later. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { mutated, MUTATIONS } from './list.js';

const SOURCE = fileURLToPath(new URL('../../../src', import.meta.url));

test.each(MUTATIONS.map((mutation) => [mutation.name, mutation] as const))(
  'the code has what %s changes',
  async (_name, mutation) => {
    expect((await mutated(SOURCE, mutation)).size).toBeGreaterThan(0);
  },
);
