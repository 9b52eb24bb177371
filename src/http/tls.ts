/**
 * TLS on the main listener, and certificates of clients if an authority for them is given. The files are read again when they change: new
 * connections get the new certificate, those that exist go on. What cannot be used leaves the old one in its place, with an error in the log.
 */
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { X509Certificate } from 'node:crypto';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';
import { instant } from '../time.js';
import { reasonOf, watchFiles } from './watched-file.js';

/** For a year browsers come by TLS only. */
const OVER_TLS: Readonly<Record<string, string>> = { 'Strict-Transport-Security': 'max-age=31536000' };
const PLAIN: Readonly<Record<string, string>> = {};

/** Headers of every answer on this connection. Said over TLS only: browsers take it for nothing elsewhere. */
export function transportHeaders(socket: Socket): Readonly<Record<string, string>> {
  return 'encrypted' in socket ? OVER_TLS : PLAIN;
}

export type TlsConfig = Pick<Config, 'tlsCert' | 'tlsKey' | 'tlsClientCa'>;

export interface ListenerTls {
  /** Of the certificate, the key and the authority of the clients. */
  readonly context: SecureContextOptions;
  /** Whether a client has to show a certificate. */
  readonly wantsClientCertificate: boolean;
  /** Calls back with every later context. */
  onChange(use: (context: SecureContextOptions) => void): void;
  close(): void;
}

/** @returns undefined without TLS @throws Error with a sentence when a file cannot be used */
export function createTls(
  { tlsCert, tlsKey, tlsClientCa }: TlsConfig,
  logger: Logger,
  pollMs?: number,
): ListenerTls | undefined {
  if (tlsCert === undefined || tlsKey === undefined) return undefined;
  let use: (context: SecureContextOptions) => void = () => undefined;
  const watched = watchFiles({
    files: [tlsCert, tlsKey, ...(tlsClientCa === undefined ? [] : [tlsClientCa])],
    read() {
      const context = {
        cert: read('POSTERN_TLS_CERT', tlsCert),
        key: read('POSTERN_TLS_KEY', tlsKey),
        ...(tlsClientCa === undefined ? {} : { ca: read('POSTERN_TLS_CLIENT_CA', tlsClientCa) }),
        minVersion: 'TLSv1.2' as const,
      };
      check(context, tlsCert, tlsKey);
      tell(context.cert, tlsCert, logger);
      return context;
    },
    onChange: (context) => use(context),
    onFault: (error) => logger.error({ err: error }, 'the certificate cannot be used; the one before stays in use'),
    pollMs,
  });
  return {
    get context() {
      return watched.current;
    },
    wantsClientCertificate: tlsClientCa !== undefined,
    onChange: (callback) => {
      use = callback;
    },
    close: () => watched.close(),
  };
}

function read(setting: string, file: string): Buffer {
  const pem = attempt(setting, file, 'a readable PEM file', () => readFileSync(file));
  // An authority without a certificate in it would trust nobody, or with other words of TLS everybody.
  if (setting !== 'POSTERN_TLS_KEY')
    attempt(setting, file, 'a PEM file with a certificate', () => new X509Certificate(pem));
  return pem;
}

/** Whether the key is that of the certificate. */
function check(context: SecureContextOptions, cert: string, key: string): void {
  attempt('POSTERN_TLS_KEY', key, `the key of the certificate in "${cert}"`, () => createSecureContext(context));
}

function attempt<T>(setting: string, file: string, rule: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    // What OpenSSL says of a key is of no use to a reader, and may say something of the key.
    const reason = code === undefined || code.startsWith('ERR_') ? 'it is not' : reasonOf(error);
    throw new Error(`${setting} is "${file}"; it must be ${rule}: ${reason}.`);
  }
}

function tell(pem: Buffer, file: string, logger: Logger): void {
  const { validTo } = new X509Certificate(pem);
  const until = Date.parse(validTo);
  const fields = { file, validTo: instant(until) };
  if (until <= Date.now()) logger.warn(fields, 'the certificate has expired');
  else logger.info(fields, 'read the certificate');
}
