/**
 * TLS on the main listener, with client certificates if their authority is configured. The files are read again when
 * they change: new connections get the new certificate, existing ones go on. If the new files cannot be used, the old
 * certificate stays, with an error in the log.
 */
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { createSecureContext, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { constants, X509Certificate } from 'node:crypto';
import type { Config } from '../../config.js';
import type { Logger } from '../../log.js';
import { atInstant, instant } from '../../time.js';
import { faultOf, reasonOf, watchFiles } from '../access/watched-file.js';

/** Browsers use TLS only for a year. */
const OVER_TLS: Readonly<Record<string, string>> = { 'Strict-Transport-Security': 'max-age=31536000' };
const PLAIN: Readonly<Record<string, string>> = {};

/** Headers of every answer on this connection. Sent over TLS only: browsers ignore them elsewhere. */
export function transportHeaders(socket: Socket): Readonly<Record<string, string>> {
  return 'encrypted' in socket ? OVER_TLS : PLAIN;
}

/**
 * A resumed session shows no certificate: a client could use one long after its own has expired. Without tickets
 * nothing is left to resume, because this side keeps no sessions of its own.
 */
const NO_RESUMPTION = { secureOptions: constants.SSL_OP_NO_TICKET } as const;

/** Ends the connection when the certificate that its client has shown expires. */
export function endWithCertificate(socket: TLSSocket): void {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) return;
  socket.once(
    'close',
    atInstant(Date.parse(certificate.validTo), () => socket.destroy()),
  );
}

export type TlsConfig = Pick<Config, 'tlsCert' | 'tlsKey' | 'tlsClientCa'>;

export interface ListenerTls {
  /** The certificate, the key and the authority of client certificates. */
  readonly context: SecureContextOptions;
  /** Whether clients must show a certificate. */
  readonly wantsClientCertificate: boolean;
  /** Calls back with every later context. */
  onChange(use: (context: SecureContextOptions) => void): void;
  close(): void;
}

/**
 * @returns undefined without TLS
 * @throws Error with a sentence if a file cannot be used
 */
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
        ...(tlsClientCa === undefined ? {} : { ca: read('POSTERN_TLS_CLIENT_CA', tlsClientCa), ...NO_RESUMPTION }),
        minVersion: 'TLSv1.2' as const,
      };
      check(context, tlsCert, tlsKey);
      tell(context.cert, tlsCert, logger);
      return context;
    },
    onChange: (context) => use(context),
    onFault: (error) => logger.error(faultOf(error), 'failed to reload the TLS certificate; keeping the previous one'),
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
  // An authority file without a certificate would trust nobody, or, for TLS, everybody.
  if (setting !== 'POSTERN_TLS_KEY')
    attempt(setting, file, 'a PEM file with a certificate', () => new X509Certificate(pem));
  return pem;
}

/** Checks that the key belongs to the certificate. */
function check(context: SecureContextOptions, cert: string, key: string): void {
  attempt('POSTERN_TLS_KEY', key, `the key of the certificate in "${cert}"`, () => createSecureContext(context));
}

function attempt<T>(setting: string, file: string, rule: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    // OpenSSL's message about a key does not help a reader, and may reveal something of the key.
    const reason = code === undefined || code.startsWith('ERR_') ? 'it is not' : reasonOf(error);
    throw new Error(`${setting} is "${file}"; it must be ${rule}: ${reason}.`);
  }
}

function tell(pem: Buffer, file: string, logger: Logger): void {
  const { validTo } = new X509Certificate(pem);
  const until = Date.parse(validTo);
  const fields = { file, validTo: instant(until) };
  if (until <= Date.now()) logger.warn(fields, 'TLS certificate expired');
  else logger.info(fields, 'loaded the TLS certificate');
}
