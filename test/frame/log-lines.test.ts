/** The line of a request is put together by hand: what a caller chose must not break it. */
import { expect, test } from 'vitest';
import { startFrame } from './harness.js';

test('a line is JSON whatever the name and the namespace of a request are', async () => {
  await using frame = await startFrame();
  const names = ['quote"', 'back\\slash', 'new\nline', 'beyond Latin-1: …', 'plain-name_1.~'];
  for (const name of names) await fetch(`${frame.url}/v1/locks/${encodeURIComponent(name)}`);
  await fetch(`${frame.url}/v1/status`, { headers: { namespace: 'a"b\\' } });

  const lines = frame.log().filter(({ msg }) => msg === 'request');
  expect(lines.slice(0, names.length).map(({ name }) => name)).toEqual(names);
  expect(lines[names.length]).toMatchObject({ operation: 'status', status: 422 });
  for (const line of lines)
    expect(line).toMatchObject({ level: 'info', method: 'GET', principal: 'anonymous', outcome: expect.any(String) });
});
