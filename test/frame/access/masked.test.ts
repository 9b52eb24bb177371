import { expect, it } from 'vitest';
import { masked } from '../../../src/http/frame/masked.js';

const TOKEN = `${'eyJhbGciOiJSUzI1NiJ9'}.${'eyJzdWIiOiJzb21lYm9keSJ9'}.${'c2lnbmVkLWJ5LW5vYm9keQ'}`;
const KEY = 'of-another-gateway-7f3a1c';
const NOBODY = { headers: {} };

it.each([
  ['a JSON Web Token', TOKEN, 'eyJ…'],
  ['one among other text', `x/${TOKEN}?y`, 'x/eyJ…?y'],
  ['one whose signature is cut off', TOKEN.slice(0, 50), 'eyJ…'],
  ['a lease token', `lt1.${'a'.repeat(40)}`, 'lt1.…'],
  ['a key of make-key with something behind it', `postern_${'B'.repeat(43)}%00`, 'postern_…%00'],
])('%s is not logged', (_, text, logged) => {
  expect(masked(text, NOBODY)).toBe(logged);
});

it('the credential of the request is not logged, whatever it looks like', () => {
  const request = { headers: { authorization: `Bearer  ${KEY}` } };
  expect(masked(`because ${KEY} said so`, request)).toBe('because … said so');
  const basic = { headers: { authorization: `Basic ${Buffer.from(`user:${KEY}`).toString('base64')}` } };
  expect(masked(`because ${KEY} said so`, basic)).toBe('because … said so');
  expect(masked(`because ${basic.headers.authorization.slice(6)} said so`, basic)).toBe('because … said so');
  expect(masked(`because ${KEY} said so`, NOBODY)).toBe(`because ${KEY} said so`);
});

it('what is none stays as it is', () => {
  const request = { headers: { authorization: 'Bearer a' } };
  for (const value of ['a', 'eyJ', 'nightly-backup-of-all-things', 'postern_of_a_boat', 7, undefined, null])
    expect(masked(value, request)).toBe(value);
});
