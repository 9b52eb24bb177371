import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CONNECT_STRING } from '../../src/settings/zookeeper.js';
import { parseConnectString } from '../../src/zookeeper/connect-string.js';

describe('a connect string', () => {
  it.each([
    ['localhost', [{ host: 'localhost', port: 2181 }], ''],
    [
      'b:2,a:1/',
      [
        { host: 'a', port: 1 },
        { host: 'b', port: 2 },
      ],
      '',
    ],
    [
      ' a:1 , b:2/apps/postern/',
      [
        { host: 'a', port: 1 },
        { host: 'b', port: 2 },
      ],
      '/apps/postern',
    ],
    [
      'a:2,a:1,a:2',
      [
        { host: 'a', port: 1 },
        { host: 'a', port: 2 },
      ],
      '',
    ],
    ['a,a:2181', [{ host: 'a', port: 2181 }], ''],
    [
      '[::1]:2182,[fe80::1%eth0]/x',
      [
        { host: '::1', port: 2182 },
        { host: 'fe80::1%eth0', port: 2181 },
      ],
      '/x',
    ],
  ])('%j is read (defect 24)', (text, servers, chroot) => {
    expect(parseConnectString(text)).toEqual({ servers, chroot });
  });

  it.each([
    '',
    ',',
    'a,,b',
    'a:0',
    'a:65536',
    'a:x',
    'a:1:2',
    '::1',
    '[::1',
    '[zz]:1',
    'a b',
    'a//x',
    'a/../x',
    'a/./x',
    'a/x//y',
  ])('%j is refused with a sentence that shows the part', (text) => {
    expect(() => parseConnectString(text)).toThrow(/^".*" is not a (server|path)/);
  });

  it('is read if the settings take it: what they refuse is refused with the name of the setting', () => {
    const pieces = [
      'a',
      '[',
      ']',
      '::1',
      '%',
      'eth0',
      ':',
      '0',
      '2181',
      '65535',
      '65536',
      '99999',
      '/',
      '.',
      '..',
      ',',
      ' ',
    ];
    const taken = fc
      .array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 10 })
      .map((some) => some.join(''))
      .filter((text) => CONNECT_STRING.test(text));
    fc.assert(
      fc.property(taken, (text) => {
        parseConnectString(text);
      }),
    );
  });

  it('gives every replica the same order, however its list was written', () => {
    const server = fc
      .tuple(fc.constantFrom('a', 'b', 'c.example'), fc.integer({ min: 1, max: 65_535 }))
      .map(([host, port]) => `${host}:${port}`);
    fc.assert(
      fc.property(fc.uniqueArray(server, { minLength: 1, maxLength: 8 }), fc.func(fc.integer()), (servers, order) => {
        const shuffled = [...servers].sort((a, b) => order(a) - order(b));
        expect(parseConnectString(shuffled.join(','))).toEqual(parseConnectString(servers.join(',')));
        expect(parseConnectString(servers.join(',')).servers).toHaveLength(servers.length);
      }),
    );
  });
});
