/**
 * Lint finds mistakes; how the code looks is prettier's. The zones below are the architecture: see CONTRIBUTING.md.
 */
import { createNodeResolver, importX } from 'eslint-plugin-import-x';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';
import { LENGTHS } from './scripts/lib/lengths.mjs';
import { KITS, KNOWN_IMPORTS, KNOWN_LENGTHS, LEASE_VIEW, LINE, RECIPES } from './scripts/lib/rooms.mjs';

/** From left to right: a folder may import from those after it, and from the leaves. */
const LAYERS = ['http', 'recipes', 'leases', 'zookeeper'];

/** Where `http` stops: it knows what recipes and leases say, not how ZooKeeper says it. */
const HTTP_MAY_NOT = ['zookeeper'];

const CONSOLE_MESSAGE =
  'The console is a user of the API: it imports its own files, npm libraries and the types of the contract.';
const ENTRIES = ['./src/{main,run,gateway}.ts', './src/{cli,wiring,workers}/**']; // globs all: the rule does not mix them with paths
const inside = (/** @type {string} */ name) => `./src/${name}/**`;

const zones = [
  ...LAYERS.map((layer, index) => ({
    target: inside(layer),
    from: [...LAYERS.slice(0, index), ...(layer === 'http' ? HTTP_MAY_NOT : []), 'client'].map(inside).concat(ENTRIES),
    message: `The layers are http → recipes → leases → zookeeper: "${layer}" does not look there.`,
  })),
  {
    target: ['./src/!(main|run|gateway).ts', inside('settings')],
    from: [...LAYERS, 'metrics'].map(inside).concat(ENTRIES),
    message: 'The leaves are what everyone shares: they import nothing of ours but other leaves.',
  },
  {
    target: './src/metrics/**',
    from: [...LAYERS.map(inside), ...ENTRIES, './src/*.ts', inside('settings')],
    message: 'Metrics import prom-client and nothing of ours.',
  },
  {
    target: './src/cli/**',
    from: ['./src/{main,run,gateway}.ts', './src/wiring/**'],
    message: 'A command is not the gateway.',
  },
  {
    target: './src/command/**',
    from: [...LAYERS, 'metrics', 'settings', 'cli', 'wiring', 'workers'].map(inside).concat('./src/!(version).ts'),
    message: 'The command stands on the client, and loads nothing of the gateway.',
  },
  {
    target: './src/browser/**',
    from: [
      './src/!(browser|http)/**',
      './src/*.ts',
      './src/http/!(pages)/**',
      './src/http/pages/*.ts',
      './src/http/pages/docs/!(curl).ts',
    ],
    message: 'Scripts of pages run in a browser: they import their own files, and how a curl line is written.',
  },
  {
    target: './src/console/**',
    from: './src/!(console)/**',
    except: ['**/http/contract/contract.js', '**/http/contract/contract.d.ts'],
    message: CONSOLE_MESSAGE,
  },
  {
    target: './src/!(console)/**',
    from: './src/console/**',
    message: 'The console is a page: the gateway serves what it is bundled into, and knows nothing of it.',
  },
  {
    target: './src/!(browser)/**',
    from: inside('browser'),
    message: 'What runs in a browser does not run here.',
  },
  {
    target: './src/workers/**',
    from: [...LAYERS, 'metrics'].map(inside).concat('./src/{main,run,gateway}.ts'),
    message: 'Workers are processes: what they serve is not their business.',
  },
  {
    target: ['./src/gateway.ts', './src/wiring/**'],
    from: './src/{main,run}.ts',
    message: 'The process starts the gateway, not the reverse.',
  },
];

const room = (/** @type {string} */ name) => inside(`recipes/${name}`);

/** The rooms of src/recipes (scripts/lib/rooms.mjs), with the imports that are known to break the rule. */
const roomZones = (/** @type {readonly string[]} */ known) =>
  [
    ...RECIPES.map((recipe) => ({
      target: room(recipe),
      from: [...RECIPES.filter((other) => other !== recipe), LEASE_VIEW],
      message: 'No recipe imports another: what two of them need belongs to a kit or to the line.',
    })),
    { target: room(LINE), from: [...RECIPES, LEASE_VIEW], message: 'The line knows no recipe that is made with it.' },
    {
      target: KITS.map(room),
      from: [...RECIPES, LEASE_VIEW, LINE],
      message: 'Kits serve all recipes, and know neither them nor the line.',
    },
    {
      target: './src/recipes/!(index).ts',
      from: [...RECIPES, LEASE_VIEW],
      message: 'What all recipes share knows none of them; index.ts lists them.',
    },
  ].map((zone) => ({ ...zone, from: zone.from.map(room), except: known.map((path) => `**/${path}`) }));

const restrictedPaths = (/** @type {readonly string[]} */ known = []) => ({
  'import-x/no-restricted-paths': /** @type {const} */ ([
    'error',
    { zones: [...zones, ...roomZones(known)], basePath: import.meta.dirname },
  ]),
});

const ZOOKEEPER_CLIENT = {
  group: ['node-zookeeper-client', 'node-zookeeper-client/*'],
  message: 'Only src/zookeeper knows the client library: its defects are repaired there.',
};
const ENV = { name: 'node:process', importNames: ['env'], message: 'Only src/config.ts reads the environment.' };
const METRICS_ONLY = { regex: '^(?!prom-client$|\\./)', message: 'Metrics import prom-client and nothing else.' };
const CLIENT_MESSAGE = 'The client is published: it imports Node, its own files and the types of the contract.';
const CLIENT_ONLY = { regex: '^(?!node:|\\./|\\.\\./http/contract/contract\\.js$)', message: CLIENT_MESSAGE };
const CLIENT_ROOMS_ONLY = { regex: '^(?!node:|\\./|\\.\\./(?!\\.))', message: CLIENT_MESSAGE };

const CONSOLE_ONLY = {
  regex: String.raw`^(?!\./|\.\./(?!\.)|(\.\./)+http/contract/contract\.js$|preact(/|$)|@preact/signals$|uplot$)`,
  message: CONSOLE_MESSAGE,
};

const restrictedImports = (/** @type {object[]} */ ...patterns) => ['error', { paths: [ENV], patterns }];

export default defineConfig(
  { ignores: ['dist/', 'site/', 'coverage/', '.cache/', '.data/', 'src/http/contract/contract.d.ts'] },
  {
    files: ['**/*.ts', '**/*.tsx', '**/*.mjs', '**/*.js'],
    extends: [tseslint.configs.recommendedTypeChecked],
    plugins: { 'import-x': importX },
    languageOptions: {
      parserOptions: {
        projectService: {
          // The second one stands beside its .d.mts, which hides it from the compiler.
          allowDefaultProject: ['eslint.config.js', 'scripts/lib/zookeeper.mjs', 'test/torture/jumping-clock.mjs'],
        },
        tsconfigRootDir: import.meta.dirname,
      },
    },
    settings: {
      'import-x/parsers': { '@typescript-eslint/parser': ['.ts', '.tsx', '.mts'] },
      'import-x/resolver-next': [createNodeResolver({ extensionAlias: { '.js': ['.ts', '.tsx', '.js'] } })],
    },
    rules: {
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/require-await': 'off', // an async face over a synchronous answer is no mistake
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      ...restrictedPaths(),
    },
  },
  { files: ['**/*.{ts,tsx,mjs,js}'], ...LENGTHS },
  ...Object.entries(KNOWN_LENGTHS).map(([rule, files]) => ({ files: [...files], rules: { [rule]: 'off' } })),
  ...Object.entries(KNOWN_IMPORTS).map(([file, known]) => ({ files: [file], rules: restrictedPaths(known) })),
  {
    files: ['src/**/*.ts'],
    rules: {
      'no-restricted-imports': restrictedImports(ZOOKEEPER_CLIENT),
      'no-restricted-properties': ['error', { object: 'process', property: 'env', message: ENV.message }],
      'no-console': 'error', // the log is JSON, from src/log.ts
    },
  },
  { files: ['src/config.ts', 'src/command/environment.ts'], rules: { 'no-restricted-properties': 'off' } },
  { files: ['src/zookeeper/**/*.ts'], rules: { 'no-restricted-imports': restrictedImports() } },
  {
    files: ['src/metrics/**/*.ts'],
    rules: { 'no-restricted-imports': restrictedImports(ZOOKEEPER_CLIENT, METRICS_ONLY) },
  },
  {
    files: ['src/client/*.ts'],
    rules: { 'no-restricted-imports': restrictedImports(ZOOKEEPER_CLIENT, CLIENT_ONLY) },
  },
  {
    files: ['src/client/*/*.ts'],
    rules: { 'no-restricted-imports': restrictedImports(ZOOKEEPER_CLIENT, CLIENT_ROOMS_ONLY) },
  },
  {
    files: ['src/console/**/*.{ts,tsx}'],
    rules: { 'no-restricted-imports': restrictedImports(ZOOKEEPER_CLIENT, CONSOLE_ONLY), 'no-console': 'error' },
  },
  { files: ['src/run.ts', 'src/cli/**/*.ts'], rules: { 'no-console': 'off' } },
  {
    files: ['test/**/*.ts'],
    rules: {
      // The body of an answer is what the test looks at, and it was checked against the contract before.
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
  {
    files: ['scripts/**/*.mjs', 'test/**/*.mjs', 'examples/*.mjs', 'docs/site/*', '*.js'],
    rules: {
      // Parsed text and foreign errors are checked where they are used; JSDoc is not worth a schema.
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
);
