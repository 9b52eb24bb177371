/** The replica on this machine, found by the settings that it is started with, and asked over TLS if it speaks that. */
import { get as getPlain } from 'node:http';
import { get as getTls } from 'node:https';

const EVERY_ADDRESS = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/** Where its clients reach it from here. @param {NodeJS.ProcessEnv} env */
export function clientsUrl(env) {
  return urlOf(env, Boolean(env['POSTERN_TLS_CERT']), env['POSTERN_PORT'] || '7070');
}

/**
 * Where it says how it is, to those who have no certificate.
 * @param {NodeJS.ProcessEnv} env
 * @returns {string | undefined} undefined where it talks to nobody without one, and where its port is any that is free
 */
export function probeUrl(env) {
  const opsPort = env['POSTERN_OPS_PORT'];
  if (opsPort && opsPort !== '0') return urlOf(env, false, opsPort);
  return env['POSTERN_TLS_CLIENT_CA'] || env['POSTERN_PORT'] === '0' ? undefined : clientsUrl(env);
}

/** @param {NodeJS.ProcessEnv} env @param {boolean} isTls @param {string} port */
function urlOf(env, isTls, port) {
  const set = env['POSTERN_HOST'] || '127.0.0.1';
  const host = EVERY_ADDRESS[set] ?? set;
  return `${isTls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Who answers is not in doubt: it is this machine, which its certificate does not name.
 * @param {string} url
 * @param {number} withinMs
 * @returns {Promise<{ status: number | undefined, text: string }>}
 */
export function ask(url, withinMs) {
  const options = { signal: AbortSignal.timeout(withinMs), rejectUnauthorized: false };
  return new Promise((resolve, reject) => {
    (url.startsWith('https:') ? getTls : getPlain)(url, options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (/** @type {string} */ part) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode, text }));
      response.on('error', reject);
    }).on('error', reject);
  });
}
