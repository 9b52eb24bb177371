/**
 * The ways in which a request is made wrong. Each says what it did, and whether the gateway must refuse what comes of
 * it.
 */
import type { Chance } from './chance.js';
import { LIMITS, PRINCIPALS, type Draft } from './draft.js';
import type { Memory } from './memory.js';
import { unexpected } from './values.js';

type Breakage = (draft: Draft, chance: Chance, memory: Memory) => void;

function say(draft: Draft, what: string, must: boolean): void {
  draft.wrong.push(what);
  if (must) draft.mustRefuse ??= what;
}

/** In place of all that there are of this name. */
function setHeader(draft: Draft, name: string, value: string): void {
  removeHeader(draft, name);
  draft.headers.push([name, value]);
}

function removeHeader({ headers }: Draft, name: string): void {
  for (let at = headers.length - 1; at >= 0; at -= 1)
    if (headers[at]?.[0].toLowerCase() === name.toLowerCase()) headers.splice(at, 1);
}

type Members = Record<string, unknown>;

function members(draft: Draft): Members | undefined {
  const { json } = draft;
  return draft.bytes === undefined && typeof json === 'object' && json !== null && !Array.isArray(json)
    ? (json as Members)
    : undefined;
}

/** Somewhere in the body, perhaps deep in it. Whether that may be is seen by the schema. */
const anotherValue: Breakage = (draft, chance) => {
  let at = members(draft);
  if (at === undefined) return;
  for (;;) {
    const names = Object.keys(at);
    const name = names.length === 0 ? chance.pick(['requestId', 'waitMs', 'data', 'limit']) : chance.pick(names);
    const inside = at[name];
    if (typeof inside === 'object' && inside !== null && chance.percent(60)) {
      at = inside as Members;
      continue;
    }
    at[name] = unexpected(chance);
    return say(draft, `another ${name}`, false);
  }
};

const unknownMember: Breakage = (draft, chance) => {
  const body = members(draft);
  if (body === undefined) return;
  body[chance.pick(['colour', 'constructor', 'toString', '', 'WaitMs', 'waitMs '])] = unexpected(chance);
  say(draft, 'a member that nobody knows', false);
};

const missingMember: Breakage = (draft, chance) => {
  const body = members(draft);
  const names = Object.keys(body ?? {});
  if (body === undefined || names.length === 0) return;
  delete body[chance.pick(names)];
  say(draft, 'a member is missing', false);
};

const anotherBody: Breakage = (draft, chance) => {
  if (draft.operation.body !== 'json' || draft.bytes !== undefined) return;
  draft.json = chance.pick<unknown>([[], 'text', 5, null, true, [{}]]);
  say(draft, 'a body that is no object', true);
};

/** Texts that are not JSON, or are it in a way that is refused. */
const NO_JSON: readonly Buffer[] = [
  '{',
  '}',
  '{"a":1,}',
  '{"waitMs":NaN}',
  '{"waitMs":Infinity}',
  '{"waitMs":01}',
  '{"waitMs":0x10}',
  "{'a':1}",
  '{"a":1}{"b":2}',
  '{"a":1,"a":2}',
  '{"__proto__":{"admin":true}}',
  '{"data":{"__proto__":1}}',
  `{"data":${'['.repeat(9_000)}`,
  `{"data":${'['.repeat(9_000)}${']'.repeat(9_000)}}`,
  `{"data":${'{"a":'.repeat(3_000)}1${'}'.repeat(3_000)}}`,
  '{"data":"\u0001"}',
  '{"data":"\\u12"}',
  '<xml/>',
  'waitMs=1&b=2',
  '/* */{}',
]
  .map((text) => Buffer.from(text))
  .concat([
    Buffer.from('{"data":"\xff"}', 'latin1'),
    Buffer.from('{"data":"\xc0\x80"}', 'latin1'),
    Buffer.from('{"data":"\xed\xa0\x80"}', 'latin1'),
    Buffer.from('{\0"\0a\0"\0:\x001\0}\0', 'latin1'),
  ]);

const noJson: Breakage = (draft, chance) => {
  if (draft.operation.body !== 'json') return;
  draft.bytes = chance.pick(NO_JSON);
  say(draft, 'no JSON', true);
};

const truncatedJson: Breakage = (draft, chance) => {
  if (draft.operation.body !== 'json' || draft.bytes !== undefined) return;
  const text = JSON.stringify(draft.json ?? {});
  draft.bytes = Buffer.from(text.slice(0, chance.integer(1, text.length - 1)));
  say(draft, 'JSON cut off', text.startsWith('{'));
};

/** Numbers that JSON allows and nobody expects. */
const strangeNumber: Breakage = (draft, chance) => {
  const body = members(draft);
  if (body === undefined) return;
  const text = chance.pick(['1e400', '-1e400', '1e-400', '-0', '9'.repeat(400), '0.'.padEnd(300, '1'), '1E+2']);
  const name = chance.pick([...Object.keys(body), 'waitMs']);
  body[name] = '@@';
  draft.bytes = Buffer.from(JSON.stringify(body).replace('"@@"', text));
  say(draft, `the number ${text.slice(0, 20)} as ${name}`, false);
};

const anotherType: Breakage = (draft, chance) => {
  const type = chance.pick([
    'text/plain',
    'application/xml',
    'multipart/form-data; boundary=x',
    'application/json; charset=latin1',
    'application/x-www-form-urlencoded',
    'a',
    '/',
    'application/json;;;',
    `a/${'b'.repeat(500)}`,
    '\xff/\xff',
  ]);
  setHeader(draft, 'Content-Type', type);
  say(draft, `the type ${type.slice(0, 40)}`, false);
};

const encodedBody: Breakage = (draft, chance) => {
  setHeader(draft, 'Content-Encoding', chance.pick(['gzip', 'br', 'deflate, gzip', 'x']));
  say(draft, 'a body that says it is compressed', draft.operation.body === 'raw');
};

const hugeBody: Breakage = (draft, chance) => {
  if (draft.operation.body === undefined) return;
  const bytes = LIMITS.maxBodyBytes + chance.pick([1, 1_000, 200_000]);
  draft.bytes = Buffer.from(`{"data":"${'x'.repeat(bytes)}"}`);
  say(draft, 'a body that is too large', true);
};

const bigBody: Breakage = (draft, chance) => {
  const body = members(draft);
  if (body === undefined) return;
  body[chance.pick(['data', 'value', 'label', 'reason', 'messages'])] = 'x'.repeat(chance.pick([4_094, 4_095, 30_000]));
  say(draft, 'a long member', false);
};

const anotherMethod: Breakage = (draft, chance) => {
  draft.method = chance.pick([
    'GET',
    'HEAD',
    'POST',
    'PUT',
    'DELETE',
    'OPTIONS',
    'PATCH',
    'TRACE',
    'PROPFIND',
    'QUERY',
  ]);
  say(draft, `the method ${draft.method}`, false);
};

const noMethod: Breakage = (draft, chance) => {
  draft.method = chance.pick(['get', 'FOO', 'G ET', '', 'GET\t', 'G\0T']);
  say(draft, 'a method that there is not', false);
};

const badName: Breakage = (draft, chance) => {
  const [name] = Object.keys(draft.params);
  if (name === undefined) return;
  draft.params[name] = chance.pick([
    '%20',
    '%00',
    '%C3%BC',
    '.',
    '..',
    '%2e%2E',
    '',
    'x'.repeat(201),
    'a%ff',
    '%',
    '%4',
    '%zz',
    'a+b',
    'a;b',
  ]);
  say(draft, `the name ${draft.params[name].slice(0, 20)}`, false);
};

const queries: Breakage = (draft, chance) => {
  const [first] = draft.query;
  const pair = chance.pick<[string, string]>([
    ['colour', 'red'],
    ['', 'x'],
    ['__proto__', '1'],
    [first?.[0] ?? 'waitMs', chance.pick(['', '-1', '1e3', 'x', '%31', '99999999999999999999', '%zz', '%00', 'true'])],
    ['limit', '%'],
    ['waitMs', '55001'],
  ]);
  draft.query.push(pair);
  say(draft, `the query ${pair.join('=')}`, pair[0] === 'colour' || pair[0] === '__proto__');
};

const targets: Breakage = (draft, chance) => {
  draft.target = chance.pick([
    '*',
    '/',
    '//',
    '/v1',
    '/v1/locks/a/b/c',
    '/V1/locks',
    `/v1/locks?prefix=${'a'.repeat(9_000)}`,
    `/v1/locks/${'a'.repeat(12_000)}`,
    '/v1/locks/../leases',
    '/v1/locks?#x',
    '/v1/locks\\a',
    'v1/locks',
    'http://localhost/v1/locks',
    'http://evil.example:99999/v1/locks',
    'http://[',
    'ftp://localhost/v1/locks',
    '/problems/nothing',
    '/problems/%00',
    '/docs/..',
    '/v1/locks/a b',
    '/v1/locks/\xff\xfe',
    '/v1/locks/%',
    '/metrics?x=1',
    '/healthz?x',
    '/openapi.json?limit=1',
  ]);
  say(draft, `the target ${draft.target.slice(0, 40)}`, false);
};

const credentials: Breakage = (draft, chance) => {
  if (chance.percent(40)) {
    if (draft.mustRefuse !== undefined) return;
    draft.principal = chance.pick(PRINCIPALS);
    setHeader(draft, 'Authorization', `Bearer ${draft.keys[draft.principal]}`);
    return say(draft, `the principal ${draft.principal}`, false);
  }
  const value = chance.pick(['', 'Bearer', 'Bearer wrong', 'Basic eDp5', `Bearer ${'x'.repeat(2_000)}`, 'Bearer \xff']);
  setHeader(draft, 'Authorization', value);
  say(draft, `the credential ${value.slice(0, 20)}`, !draft.operation.isPublic);
};

const tokens: Breakage = (draft, chance, memory) => {
  const known = memory.lease(chance)?.leaseToken ?? 'v1.x';
  const at = chance.integer(0, known.length - 1);
  const value = chance.pick([
    known,
    known.slice(0, at),
    known.slice(0, at) + (known[at] === 'A' ? 'B' : 'A') + known.slice(at + 1),
    'v1.',
    'v9.abc',
    'x'.repeat(2_049),
    '\xe4',
    '',
  ]);
  setHeader(draft, 'Lease-Token', value);
  say(draft, 'another lease token', false);
};

const headers: Breakage = (draft, chance) => {
  const header = chance.pick<[string, string]>([
    ['Namespace', chance.pick(['a/b', '..', '', '*', 'x'.repeat(201), 'nowhere', '\xe4'])],
    ['Idempotency-Key', chance.pick(['k', 'x'.repeat(65), 'a b', ''])],
    ['If-Match', chance.pick(['*', '"x"', 'x', '"', 'W/"1"', '"a","b"', '""'])],
    ['If-None-Match', chance.pick(['*', '"x"', 'x', '', `"${'y'.repeat(1_100)}"`])],
    ['Guard', chance.pick(['lock=a;token=1', 'lock=a', 'lock=a;token=-1', `lock=a;token=${'9'.repeat(17)}`, 'x'])],
    ['Last-Event-ID', chance.pick(['1', 'x'.repeat(1_100), '\xff'])],
    ['Accept', chance.pick(['text/html', 'text/event-stream', '*/*;q=0', ',,,', 'application/json;q=x', 'a/b;q=0.5,'])],
    ['Origin', 'https://evil.example'],
    ['Expect', chance.pick(['100-continue', 'a-miracle'])],
    ['Connection', chance.pick(['close', 'keep-alive', 'upgrade', 'Lease-Token'])],
    ['Upgrade', 'websocket'],
    [
      'traceparent',
      chance.pick(['x', `00-${'0'.repeat(32)}-${'1'.repeat(16)}-01`, `00-${'a'.repeat(32)}-${'1'.repeat(16)}-01`]),
    ],
    ['X-Long', 'x'.repeat(chance.pick([1_000, 17_000]))],
    ['Range', 'bytes=0-1'],
    ['X-HTTP-Method-Override', 'DELETE'],
    ['Trailer', 'Lease-Token'],
    ['Cookie', 'a=b'],
  ]);
  setHeader(draft, ...header);
  say(draft, `the header ${header[0]}: ${header[1].slice(0, 20)}`, false);
};

/** The same header once more, with the same value or another one. */
const twice: Breakage = (draft, chance) => {
  const [name, value] = chance.pick(draft.headers);
  draft.headers.push([name, chance.pick([value, 'x', ''])]);
  say(draft, `${name} twice`, false);
};

const noHost: Breakage = (draft) => {
  removeHeader(draft, 'Host');
  say(draft, 'no Host', true);
};

const noHeader: Breakage = (draft, chance) => {
  draft.headers.push([
    chance.pick(['bad header', '', 'a\0b', 'X-Bad', 'X\xff']),
    chance.pick(['x', 'a\0b', 'a\rb', 'x\ny']),
  ]);
  say(draft, 'a header that is none', false);
};

const manyHeaders: Breakage = (draft, chance) => {
  for (let i = chance.pick([50, 200, 2_100]); i > 0; i -= 1) draft.headers.push([`X-${i}`, '']);
  say(draft, 'many headers', false);
};

/** What the headers say of the body's length, and what smuggles a second request past a proxy. */
const framings: Breakage = (draft, chance) => {
  draft.framing = chance.pick([
    ['Content-Length: 5', 'Content-Length: 6'],
    ['Content-Length: 5', 'Transfer-Encoding: chunked'],
    ['Transfer-Encoding: chunked', 'Content-Length: 5'],
    ['Transfer-Encoding: chunked, identity'],
    ['Transfer-Encoding: identity, chunked'],
    ['Transfer-Encoding: xchunked'],
    ['Transfer-Encoding : chunked'],
    ['Transfer-Encoding:\tchunked'],
    ['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'],
    ['Content-Length: -1'],
    ['Content-Length: +5'],
    ['Content-Length: 5, 5'],
    ['Content-Length: 0x5'],
    ['Content-Length: 99999999999999999999'],
    ['Content-Length: 5 6'],
    ['Content-Length:'],
  ]);
  say(draft, `the length as ${draft.framing.join(' and ')}`, false);
};

export const breakages: readonly Breakage[] = [
  ...[
    anotherValue,
    anotherValue,
    anotherValue,
    anotherValue,
    unknownMember,
    missingMember,
    anotherBody,
    noJson,
    truncatedJson,
  ],
  ...[
    strangeNumber,
    anotherType,
    encodedBody,
    hugeBody,
    bigBody,
    anotherMethod,
    noMethod,
    badName,
    badName,
    queries,
    queries,
  ],
  ...[targets, credentials, tokens, tokens, headers, headers, headers, twice, noHost, noHeader, manyHeaders, framings],
];
