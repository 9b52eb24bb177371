import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, loadConfig, settingsHelp, settingsMarkdown } from '../src/config.js';
import { isLoopback } from '../src/loopback.js';

const directory = mkdtempSync(join(tmpdir(), 'postern-config-'));
afterAll(() => rmSync(directory, { recursive: true }));

function problemsOf(environment: Record<string, string>): readonly string[] {
  try {
    loadConfig(environment);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error(`accepted: ${JSON.stringify(environment)}`);
}

describe('settings', () => {
  it('have the defaults of the contract', () => {
    const { config, warnings } = loadConfig({});
    expect(config).toMatchObject({
      zookeeper: undefined,
      host: '127.0.0.1',
      port: 7070,
      opsPort: undefined,
      root: '/postern',
      leaseKeys: [],
      insecure: false,
      maxWaitMs: 55_000,
      maxWaiters: 20_000,
      maxAttached: 12_000,
      maxBodyBytes: 1_048_576,
      maxBodyBytesAtOnce: 134_217_728,
      maxAnswerBytesAtOnce: 134_217_728,
      corsOrigins: [],
      logLevel: 'info',
      dataDir: '.data',
    });
    expect(warnings).toEqual([]);
  });

  it('show names of locks in /metrics only where scopes do not hide them, or it has a port of its own', () => {
    const labelsOf = (environment: Record<string, string>): number => loadConfig(environment).config.maxContendedLabels;
    const auth = { POSTERN_AUTH_FILE: '/keys.json' };
    expect(labelsOf({})).toBe(10);
    expect(labelsOf(auth)).toBe(0);
    expect(labelsOf({ POSTERN_OIDC_ISSUER: 'https://id.example.org', POSTERN_OIDC_AUDIENCE: 'postern' })).toBe(0);
    expect(labelsOf({ ...auth, POSTERN_OPS_PORT: '7071' })).toBe(10);
    expect(labelsOf({ ...auth, POSTERN_MAX_CONTENDED_LABELS: '3' })).toBe(3);
    expect(labelsOf({ POSTERN_MAX_CONTENDED_LABELS: '0' })).toBe(0);
  });

  it('pause before a drain for the balancers, which nobody has before a loopback address', () => {
    const pauseOf = (environment: Record<string, string>): number => loadConfig(environment).config.drainPauseMs;
    expect(pauseOf({})).toBe(0);
    expect(pauseOf({ POSTERN_HOST: '0.0.0.0', POSTERN_INSECURE: 'true' })).toBe(5_000);
    expect(pauseOf({ POSTERN_DRAIN_PAUSE_MS: '700' })).toBe(700);
    expect(pauseOf({ POSTERN_HOST: '::', POSTERN_INSECURE: 'true', POSTERN_DRAIN_PAUSE_MS: '0' })).toBe(0);
  });

  it('cannot be changed after they were read', () => {
    const { config } = loadConfig({ POSTERN_CORS_ORIGINS: 'https://a.example' });
    expect(Object.isFrozen(config)).toBe(true);
    expect(Object.isFrozen(config.corsOrigins)).toBe(true);
  });

  it('count an empty variable as not set', () => {
    expect(loadConfig({ POSTERN_PORT: '', POSTERN_LEASE_KEYS: '' }).config).toMatchObject({
      port: 7070,
      leaseKeys: [],
    });
  });

  it('are read in full', () => {
    const { config } = loadConfig({
      POSTERN_ZOOKEEPER: 'zk1:2181,[::1]:2182/apps/postern',
      POSTERN_ZOOKEEPER_AUTH: 'postern:a:b',
      POSTERN_PORT: '0',
      POSTERN_OPS_PORT: '9000',
      POSTERN_CORS_ORIGINS: 'https://a.example, http://b.example:8080',
      POSTERN_LOG_LEVEL: 'debug',
    });
    expect(config).toMatchObject({
      zookeeper: 'zk1:2181,[::1]:2182/apps/postern',
      zookeeperAuth: 'postern:a:b',
      port: 0,
      opsPort: 9000,
      corsOrigins: ['https://a.example', 'http://b.example:8080'],
      logLevel: 'debug',
    });
  });

  it.each([
    ['POSTERN_ZOOKEEPER', 'zk1 zk2'],
    ['POSTERN_ZOOKEEPER', '127.0.0.1:99999'],
    ['POSTERN_ZOOKEEPER', 'zk1:2181,zk2:0'],
    ['POSTERN_ZOOKEEPER', 'zk1:2181/apps/../other'],
    ['POSTERN_ZOOKEEPER', 'zk1:2181//apps'],
    ['POSTERN_ZOOKEEPER', '[%]:2181'],
    ['POSTERN_ZOOKEEPER_TLS', 'yes'],
    ['POSTERN_PORT', '65536'],
    ['POSTERN_PORT', '-1'],
    ['POSTERN_PORT', '7070.5'],
    ['POSTERN_OPS_PORT', '0x10'],
    ['POSTERN_ROOT', 'postern'],
    ['POSTERN_ROOT', '/postern/'],
    ['POSTERN_ROOT', '/a/../b'],
    ['POSTERN_MAX_WAIT_MS', '0'],
    ['POSTERN_MAX_WAIT_MS', '55s'],
    ['POSTERN_MAX_BODY_BYTES', '1023'],
    ['POSTERN_CORS_ORIGINS', '*'],
    ['POSTERN_CORS_ORIGINS', 'https://a.example/'],
    ['POSTERN_LOG_LEVEL', 'verbose'],
    ['POSTERN_INSECURE', '1'],
  ])('refuse %s=%s with the variable, the value and the rule', (variable, value) => {
    const [problem, ...others] = problemsOf({ [variable]: value });
    expect(others).toEqual([]);
    expect(problem).toContain(`${variable} is ${JSON.stringify(value)}; it must be `);
  });

  it('name every bad value at once', () => {
    const problems = problemsOf({ POSTERN_PORT: 'a', POSTERN_ROOT: 'b', POSTERN_LOG_LEVEL: 'c' });
    expect(problems.map((problem) => problem.split(' ')[0])).toEqual([
      'POSTERN_PORT',
      'POSTERN_ROOT',
      'POSTERN_LOG_LEVEL',
    ]);
  });

  it('warn of a variable that nobody reads', () => {
    const { warnings } = loadConfig({ POSTERN_PROT: '1', POSTERN_URL: 'http://127.0.0.1:7070', PATH: '/bin' });
    expect(warnings).toEqual(['POSTERN_PROT is not a setting and has no effect.']);
  });
});

describe('lease keys', () => {
  const key = randomBytes(32);
  const other = randomBytes(32);

  it('are base64 of 32 bytes, in order', () => {
    const { config } = loadConfig({ POSTERN_LEASE_KEYS: `${key.toString('base64')}, ${other.toString('base64')}` });
    expect(config.leaseKeys).toEqual([key, other]);
  });

  it('may lie in a file that ends in a newline', () => {
    const file = join(directory, 'keys');
    writeFileSync(file, `${key.toString('base64')}\n`);
    expect(loadConfig({ POSTERN_LEASE_KEYS_FILE: file }).config.leaseKeys).toEqual([key]);
  });

  it.each([
    ['too short', randomBytes(31).toString('base64')],
    ['of zeros', Buffer.alloc(32).toString('base64')],
    ['of one byte again and again', Buffer.alloc(32, 0x61).toString('base64')],
    ['too long', randomBytes(33).toString('base64')],
    ['not base64', `${'!'.repeat(4)}${key.toString('base64')}`],
    ['one of two empty', `${key.toString('base64')},`],
  ])('are refused when %s, without being shown', (_what, text) => {
    const [problem] = problemsOf({ POSTERN_LEASE_KEYS: text });
    expect(problem).toContain('POSTERN_LEASE_KEYS');
    expect(problem).not.toContain(text.slice(0, 8));
  });

  it('are refused when the file is missing or both places are used', () => {
    expect(problemsOf({ POSTERN_LEASE_KEYS_FILE: join(directory, 'absent') })[0]).toContain('cannot be read (ENOENT)');
    const file = join(directory, 'both');
    writeFileSync(file, key.toString('base64'));
    expect(problemsOf({ POSTERN_LEASE_KEYS: key.toString('base64'), POSTERN_LEASE_KEYS_FILE: file })[0]).toContain(
      'both set',
    );
  });
});

describe('an address that others can reach', () => {
  it('needs an audience with an identity provider, and is warned of one without TLS', () => {
    const POSTERN_OIDC_ISSUER = 'http://login.example.org/realm';
    expect(() => loadConfig({ POSTERN_OIDC_ISSUER })).toThrow('POSTERN_OIDC_ISSUER needs POSTERN_OIDC_AUDIENCE');
    expect(() => loadConfig({ POSTERN_OIDC_ISSUER: 'login.example.org' })).toThrow('POSTERN_OIDC_ISSUER is "login');
    const { config, warnings } = loadConfig({
      POSTERN_HOST: '0.0.0.0',
      POSTERN_LEASE_KEYS: randomBytes(32).toString('base64'),
      POSTERN_OIDC_ISSUER,
      POSTERN_OIDC_AUDIENCE: 'postern, other',
      POSTERN_OIDC_JWKS: 'http://[::1]:8080/keys',
    });
    expect(config).toMatchObject({ oidcAudience: ['postern', 'other'], oidcPrincipalClaim: 'sub' });
    expect(warnings).toEqual([expect.stringContaining('without TLS from http://login.example.org/realm')]);
  });

  it('has an identity provider where something is said of one', () => {
    for (const setting of [
      { POSTERN_OIDC_AUDIENCE: 'postern' },
      { POSTERN_OIDC_JWKS: 'https://login.example.org/keys' },
    ])
      expect(problemsOf({ POSTERN_OIDC_ISSUER: '', ...setting })[0]).toContain('need POSTERN_OIDC_ISSUER');
  });

  it('has a certificate and a key, or neither', () => {
    expect(problemsOf({ POSTERN_TLS_CERT: 'a.crt' })[0]).toContain(
      'POSTERN_TLS_CERT and POSTERN_TLS_KEY belong together',
    );
    expect(problemsOf({ POSTERN_TLS_CLIENT_CA: 'ca.crt' })[0]).toContain(
      'POSTERN_TLS_CLIENT_CA needs POSTERN_TLS_CERT',
    );
    expect(problemsOf({ POSTERN_TLS_CERT: 'a.crt', POSTERN_TLS_KEY: 'a.key', POSTERN_HOST: '0.0.0.0' })).toHaveLength(
      2,
    );
  });

  it('is refused without credentials of callers', () => {
    expect(problemsOf({ POSTERN_HOST: '0.0.0.0' })[0]).toContain(
      'POSTERN_HOST is "0.0.0.0"; without credentials it must be a loopback address',
    );
  });

  it('is refused while everybody who reaches ZooKeeper could read the key that seals lease tokens', () => {
    const open = { POSTERN_HOST: '0.0.0.0', POSTERN_AUTH_FILE: 'auth.json' };
    expect(problemsOf(open)).toEqual([
      expect.stringContaining('the key that seals lease tokens would be stored in ZooKeeper'),
    ]);
    const key = randomBytes(32).toString('base64');
    expect(loadConfig({ ...open, POSTERN_LEASE_KEYS: key }).warnings).toEqual([]);
    expect(loadConfig({ ...open, POSTERN_ZOOKEEPER_AUTH: 'a:b', POSTERN_ZOOKEEPER_TLS: 'true' }).warnings).toEqual([]);
    expect(loadConfig({ ...open, POSTERN_HOST: '127.0.0.1' }).warnings).toEqual([]);
    expect(loadConfig({ ...open, POSTERN_ZOOKEEPER: '127.0.0.1:2181,[::1]:2182/apps' }).warnings).toEqual([]);
    expect(problemsOf({ ...open, POSTERN_ZOOKEEPER: '127.0.0.1:2181,zk2' })).toHaveLength(1);
    expect(loadConfig({ ...open, POSTERN_INSECURE: 'true' }).warnings).toEqual([
      expect.stringContaining('can read the key that seals lease tokens'),
    ]);
  });

  it('is allowed with POSTERN_INSECURE, with a warning', () => {
    expect(loadConfig({ POSTERN_HOST: '0.0.0.0', POSTERN_INSECURE: 'true' }).warnings).toHaveLength(1);
  });

  it.each(['localhost', '127.0.0.1', '127.1.2.3', '::1'])('is not %s', (host) => {
    expect(isLoopback(host)).toBe(true);
  });

  it.each(['0.0.0.0', '::', '10.0.0.1', 'localhost.example.org', '127.0.0.1.example.org'])('is %s', (host) => {
    expect(isLoopback(host)).toBe(false);
  });
});

describe('the way to ZooKeeper', () => {
  const file = join(directory, 'pem');
  writeFileSync(file, 'a certificate');

  it.each(['POSTERN_ZOOKEEPER_TLS_CA', 'POSTERN_ZOOKEEPER_TLS_CERT'])('is not in the clear when %s is set', (name) => {
    const files = { [name]: file, ...(name.endsWith('CERT') ? { POSTERN_ZOOKEEPER_TLS_KEY: file } : {}) };
    expect(problemsOf(files)).toEqual([expect.stringContaining('need POSTERN_ZOOKEEPER_TLS=true')]);
    expect(loadConfig({ ...files, POSTERN_ZOOKEEPER_TLS: 'true' }).warnings).toEqual([]);
    expect(loadConfig({ ...files, POSTERN_INSECURE: 'true' }).warnings).toContainEqual(
      expect.stringContaining('nothing is encrypted'),
    );
  });

  it('is warned of when a password goes over it in the clear, but not on this machine', () => {
    const warningsOf = (POSTERN_ZOOKEEPER: string): readonly string[] =>
      loadConfig({ POSTERN_ZOOKEEPER_AUTH: 'a:b', POSTERN_ZOOKEEPER }).warnings;
    expect(warningsOf('localhost:2181,[::1]:2182,127.0.0.1/apps')).toEqual([]);
    for (const servers of ['zk1', '[fd00::1]:2181', '127.0.0.1:2181,zk2:2181/apps'])
      expect(warningsOf(servers)).toEqual([
        expect.stringContaining('POSTERN_ZOOKEEPER_AUTH is sent to ZooKeeper in the clear'),
      ]);
  });

  it('takes its password from a file, without the newline at its end', () => {
    const secret = join(directory, 'digest');
    writeFileSync(secret, 'postern:a:b c\n');
    expect(loadConfig({ POSTERN_ZOOKEEPER_AUTH_FILE: secret }).config.zookeeperAuth).toBe('postern:a:b c');
    expect(problemsOf({ POSTERN_ZOOKEEPER_AUTH_FILE: secret, POSTERN_ZOOKEEPER_AUTH: 'a:b' })).toEqual([
      'POSTERN_ZOOKEEPER_AUTH and POSTERN_ZOOKEEPER_AUTH_FILE are both set; set one of them.',
    ]);
    writeFileSync(secret, 'no-password\n');
    const [problem] = problemsOf({ POSTERN_ZOOKEEPER_AUTH_FILE: secret });
    expect(problem).toContain('it must be the path of a readable file with user:password');
    expect(problem).not.toContain('no-password');
  });
});

describe('the words about settings', () => {
  it('name each variable in the help and in the table of the README', () => {
    const rows = settingsMarkdown().split('\n').slice(2);
    const variables = rows.map((row) => /`(POSTERN_[A-Z_]+)`/.exec(row)?.[1]);
    expect(variables).toContain('POSTERN_ZOOKEEPER');
    for (const variable of variables) expect(settingsHelp()).toContain(`  ${variable}\n`);
  });

  it('contain no secret default and no broken row', () => {
    for (const row of settingsMarkdown().split('\n')) expect(row.split(/(?<!\\)\|/)).toHaveLength(6);
  });
});
