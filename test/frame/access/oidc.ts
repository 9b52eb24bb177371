/**
 * A frame that takes the tokens of an identity provider.
 */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../../src/config.js';
import type { Routes, Scope } from '../../../src/http/frame/exchange.js';
import type { IdentityProvider } from '../../support/http/identity-provider.js';
import { timing } from '../../support/timing.js';
import { free, send } from '../client.js';
import { startFrame, type Frame, type FrameOptions } from '../harness.js';

const directory = mkdtempSync(join(tmpdir(), 'postern-oidc-'));

// Other files of tests may need it in this process.
process.once('exit', () => rmSync(directory, { recursive: true }));

export function writeFile(name: string, content: unknown): string {
  const file = join(directory, name);
  writeFileSync(`${file}.new`, typeof content === 'string' ? content : JSON.stringify(content));
  renameSync(`${file}.new`, file);
  return file;
}

const needs =
  (scope: Scope): Routes[string] =>
  (exchange) => {
    exchange.authorize(scope, exchange.namespace ?? 'default');
    return free(exchange);
  };

const routes = { showLock: needs('read') };

export const EVERYTHING = { postern: '*' };

export const READER = { postern: { default: ['read'] } };

export function start(
  provider: IdentityProvider,
  config: Partial<Config> = {},
  options: FrameOptions = {},
): Promise<Frame> {
  const oidc = { oidcIssuer: provider.issuer, oidcAudience: [provider.audience] };
  return startFrame({ routes, config: { ...oidc, ...config }, oidcPauseMs: 0, authPollMs: timing.pollMs, ...options });
}

export const askAs = (frame: Frame, credential: string, name = 'a'): ReturnType<typeof send> =>
  send(frame.url, 'get', `/v1/locks/${name}`, (test) => test.set('Authorization', `Bearer ${credential}`));
