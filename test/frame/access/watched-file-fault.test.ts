/** What the log says of a file that was changed into one that cannot be used. */
import { rename, writeFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { makeApiKeys } from '../../support/http/api-keys.js';
import { eventually } from '../../support/eventually.js';
import { timing } from '../../support/timing.js';
import { startFrame } from '../harness.js';

it('is one sentence for who has to mend it, said once and without a stack', async () => {
  await using keys = await makeApiKeys({ me: { default: ['read'] } });
  await using frame = await startFrame({ config: { authFile: keys.file }, authPollMs: timing.pollMs });
  await writeFile(`${keys.file}.new`, '{"keys": "none"}');
  await rename(`${keys.file}.new`, keys.file); // a reader of half of it would say something else
  const line = await eventually('the line', () =>
    frame.log().find(({ msg }) => String(msg).startsWith('failed to reload the API keys')),
  );
  expect(line).toMatchObject({ level: 'error', file: keys.file });
  expect(line).not.toHaveProperty('err');
  expect(String(line['reason'])).toMatch(
    /^POSTERN_AUTH_FILE is ".*"; it must be a readable file of API keys: keys: it must be of the type array, and is of the type string\.$/,
  );
});
