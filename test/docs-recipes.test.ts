/**
 * What the pages in docs/recipes/ show does what they say: the shell blocks of a page as one script, and its program
 * compiled and run, at a gateway in front of a ZooKeeper with the settings that it comes with.
 */
import { execPath } from 'node:process';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { compile, type Compiled } from './support/programs.js';
import { pages, recipePages, run, type Page } from './support/snippets.js';
import { startReplica, type Replica } from './support/start-gateway.js';
import { startZooKeeper, type TestZooKeeper } from './support/start-zookeeper.js';
import { scaled, timing } from './support/timing.js';

const LONG_MS = scaled(60_000);

/** What somebody sees who pastes the blocks, in this order; and what the program prints. */
const SHOWN: Record<string, { blocks: readonly RegExp[]; program: RegExp }> = {
  barrier: { blocks: [/"raised":true/, /"raised":false/, /starting the server/], program: /^the migration is done$/ },
  config: {
    blocks: [/"status":200/, /"key":"shop\/limit".*"value":30/, /room 4/, /^"[^"]+"\n40\{"key":"shop\/limit"/m],
    program: /^20 undefined\nthe limit is 20$/,
  },
  counter: {
    blocks: [/"value":41\D+"value":41\D/, /"value":2\D/, /"value":0\D/, /visits/],
    program: /^all parts are done$/,
  },
  'double-barrier': {
    blocks: [/"entered":true/, /"entered":true/, /(ada|bob) works/, /(ada|bob) works/],
    program: /^(ada works\nbob works|bob works\nada works)$/,
  },
  election: {
    blocks: [/"elected":true/, /304/, /leading in term \d+/],
    program: /^leads with http:\/\/10\.0\.0\.7:8080 in term \d+$/,
  },
  group: {
    blocks: [
      /"member":"worker-7"/,
      /"parts":\[0,1,/,
      /304/,
      /"number":\d+/,
      /"messages":\[\{[^\]]*"reload":"rates"/,
      /10\.0\.0\.7:8080/,
    ],
    program: /^my parts: \[\s+0,\s+1,[\s\S]*15\s+\]\n1 there$/,
  },
  leases: {
    blocks: [/"revocations":\[\]/, /"label":"worker-7"/, /event: state/, /"items":\[\{[^\]]*"status":200/],
    program: /^worker-7 15000$/,
  },
  lock: {
    blocks: [
      /"holders":\[\{/,
      /"current":true/,
      /"name":"account-17"/,
      /deploying under fencing token \d+/,
      /transferring/,
    ],
    program: /^deployed under fencing token \d+$/,
  },
  pools: {
    blocks: [/"id":"0"/, /"address":"10.0.0.3"/, /^204$/m, /worker number \d/, /workers +1024/, /"heldCount"/],
    program: /^worker number 0$/,
  },
  queue: {
    blocks: [/"now.png"[^]*"later.png"/, /"now.png"/, /"status":200/, /"depth":1/, /printing to: ada, delivery 1/],
    program: /^sent \{ to: 'ada' \} delivery 1$/,
  },
  'read-write-lock': {
    blocks: [/"held":true/, /"mode":"read"/, /"held":true/, /writing\nreading\nrebuilding\nserving/],
    program: /^the catalogue has 3 entries\nthe same fencing token: true$/,
  },
  reservations: {
    blocks: [
      /"reservation":\{"owner":"ann"/,
      /"reservedUntil":"[^"]+"/,
      /"reservedUntil":"[^"]+"/,
      /staging +\S+ +ann +release 4.2/,
      /reserved until/,
    ],
    program: /^reserved under a fencing token: true$/,
  },
  runs: {
    blocks: [
      /"started":false.*"state":"running".*"label":"ada"/,
      /"state":"open".*"note":"no disk"/,
      /"started":true.*"attempt":2/,
      /"started":true/,
      /"started":false.*"state":"running".*"label":"ada"/,
      /"name":"invoices","occurrences":\[\{.*"state":"running"/,
      /cleaning up, attempt 1 at \S+Z/,
      /sending statements/,
      /"state": "done"/,
    ],
    program: /^the lines of \S+, under fencing token \d+$/,
  },
  schedules: {
    blocks: [
      /"name":"nightly".*"next":\["/,
      /"paused":true/,
      /204/,
      /^20\d\d-.*Z$/m,
      /hourly +0 \* \* \* \*/,
      /"queue": "jobs"/,
    ],
    program: /^5 times, the first on a Monday$/,
  },
  semaphore: { blocks: [/"limit":5/, /"count":2/, /calling the API/], program: /'page 1 fetched'.*'page 3 fetched'/ },
  transaction: {
    blocks: [/"state":"open"/, /"state":"aborted"/, /"state":"aborted"/],
    program: /^\[ 'committed', 'committed' \]$/,
  },
};

const recipes = (await recipePages()).filter(({ name }) => !name.endsWith('/README.md'));
const recipeOf = ({ name }: Page): string => name.replace(/^docs\/recipes\/(.*)\.md$/, '$1');
const programOf = ({ programs }: Page): string => programs.join('\n');

test('every recipe has a page with requests and a program', () => {
  expect(recipes.map(recipeOf)).toEqual(Object.keys(SHOWN));
  const empty = recipes.filter(({ blocks, programs }) => blocks.length === 0 || programs.length === 0);
  expect(empty.map(({ name }) => name)).toEqual([]);
});

/** What the programs of pages with more than recipes leave to their reader. */
const YOURS = `
import { Postern } from 'postern/client';
declare const backUp: (hold: { signal: AbortSignal; fencingToken: number }) => Promise<void>;
declare const report: (signal: AbortSignal) => Promise<void>;
declare const lead: (signal: AbortSignal) => Promise<void>;
declare const send: (body: unknown) => Promise<void>;
`;

test('the programs of README.md and docs/client.md compile', { timeout: LONG_MS }, async () => {
  const others = (await pages()).filter(({ name }) => ['README.md', 'docs/client.md'].includes(name));
  const texts = others.map((page) => [page.name, YOURS + programOf(page).replace(/^import .*$/gm, '')] as const);
  await using compiled = await compile(new Map(texts));
  expect(texts.map(([name]) => name)).toEqual(['README.md', 'docs/client.md']);
  expect(compiled.problems).toBe('');
});

describe('a recipe page', () => {
  let zookeeper: TestZooKeeper;
  let replica: Replica;
  let compiled: Compiled;

  beforeAll(async () => {
    // As an ensemble comes: sessions of 4 to 40 s.
    zookeeper = await startZooKeeper({ tickTime: 2_000, config: { maxSessionTimeout: '40000' } });
    replica = await startReplica({ zookeeper: zookeeper.connectString });
    const address = new URL(replica.url).host;
    const texts = recipes.map((page) => [page.name, programOf(page).replaceAll('127.0.0.1:7070', address)] as const);
    compiled = await compile(new Map(texts));
  }, timing.processMs);

  afterAll(async () => {
    await compiled[Symbol.asyncDispose]();
    await replica[Symbol.asyncDispose]();
    await zookeeper.stop();
  });

  it('has a program that compiles', () => {
    expect(compiled.problems).toBe('');
  });

  it.each(recipes.map((page) => [recipeOf(page), page] as const))(
    'on %s shows what happens',
    async (recipe, page) => {
      const { code, output } = await run(page.blocks, replica.url);
      expect(code, output).toBe(0);
      let at = 0;
      for (const shown of SHOWN[recipe]?.blocks ?? []) {
        const found = shown.exec(output.slice(at));
        expect(found, `${String(shown)} after ${output.slice(0, at)}, but ${output.slice(at)}`).not.toBe(null);
        at += (found?.index ?? 0) + (found?.[0].length ?? 0);
      }
      const ran = await run([`exec '${execPath}' '${compiled.fileOf(page.name)}'`], replica.url);
      expect(ran.code, ran.output).toBe(0);
      expect(ran.output.trim()).toMatch(SHOWN[recipe]?.program ?? /^$/);
    },
    LONG_MS,
  );
});
