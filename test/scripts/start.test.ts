/**
 * `npm start` with an ensemble that is there: it says when the gateway is ready, however that is reached, and what to
 * try.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { makeApiKeys } from '../support/http/api-keys.js';
import { CertificateAuthority } from '../support/http/certificate-authority.js';
import { eventually } from '../support/eventually.js';
import { freePort } from '../support/free-port.js';
import { run } from '../support/snippets.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';

const SCRIPT = fileURLToPath(new URL('../../scripts/start.mjs', import.meta.url));
const LONG_MS = scaled(60_000);

/** As `npm run dev`, which builds nothing, so that other tests keep their build. */
async function started(settings: Record<string, string>): Promise<{ output: () => string } & AsyncDisposable> {
  const child = spawn(process.execPath, [SCRIPT, '--watch'], {
    env: {
      PATH: env['PATH'],
      POSTERN_ZOOKEEPER: sharedZooKeeper(),
      POSTERN_ROOT: freshRoot(),
      POSTERN_PORT: String(await freePort()),
      POSTERN_DRAIN_MS: '1000',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit');
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return {
    output: () => output,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** What it says to paste, once it has said that it is ready. */
async function linesToTry(output: () => string): Promise<string> {
  return eventually('it is ready', () => /Ready on [\s\S]*?:\n\n([\s\S]*?)\n\[postern\]/.exec(output())?.[1], {
    withinMs: LONG_MS,
  });
}

it(
  'names the setting of the directory for data when none can be made there',
  async () => {
    const dir = await mkdtemp(join(tmpdir(), 'postern-start-'));
    try {
      const file = join(dir, 'file');
      await writeFile(file, '');
      await using start = await started({ POSTERN_ZOOKEEPER: '', POSTERN_DATA_DIR: file });
      const said = `POSTERN_DATA_DIR is "${file}", in which no directory can be made (ENOTDIR).`;
      await eventually('it says so', () => start.output().includes(said), { withinMs: LONG_MS });
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  },
  LONG_MS * 2,
);

it.each(['plain', 'TLS', 'TLS and an operations port', 'keys'])(
  'is ready, and what it says to try works: %s',
  async (how) => {
    const dir = await mkdtemp(join(tmpdir(), 'postern-start-'));
    await using keys = await makeApiKeys({ me: { default: ['read', 'use'] } });
    try {
      const { cert, key } = new CertificateAuthority('Start').issue('elsewhere', { names: ['postern.example.org'] });
      const files = { POSTERN_TLS_CERT: join(dir, 'tls.crt'), POSTERN_TLS_KEY: join(dir, 'tls.key') };
      await Promise.all([writeFile(files.POSTERN_TLS_CERT, cert), writeFile(files.POSTERN_TLS_KEY, key)]);
      await using start = await started({
        ...(how.startsWith('TLS') ? files : {}),
        ...(how.includes('operations') ? { POSTERN_OPS_PORT: String(await freePort()) } : {}),
        ...(how === 'keys' ? { POSTERN_AUTH_FILE: keys.file } : {}),
      });
      const lines = await linesToTry(start.output);
      const { code, output } = await run([lines], 'http://unused.invalid', {
        API_KEY: keys.as('me', 'http://unused.invalid').key,
      });
      expect(code, output).toBe(0);
      expect(output).toMatch(/"name":"backup","held":true/);
      expect(output).toMatch(/"lost":\[\]/);
      expect(start.output()).not.toContain('malformed request');
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  },
  LONG_MS * 2,
);
