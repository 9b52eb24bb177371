/** The steps on the way to a gateway: its name, a connection, TLS. */
import { lookup } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import { connect as connectTls, type PeerCertificate } from 'node:tls';
import type { PosternOptions } from '../../client/options.js';
import { EXIT } from '../exit.js';
import { StepFailed, type Said } from './report.js';

const DAY_MS = 24 * 3_600_000;
const EXPIRES_SOON_DAYS = 14;

export interface Found {
  said: Said;
  value: string[];
}

/** The addresses of a host. */
export async function resolveName(host: string): Promise<Found> {
  if (isIP(host) !== 0) return { said: `${host} is an address`, value: [host] };
  try {
    const addresses = (await lookup(host, { all: true })).map(({ address }) => address);
    return { said: `${host} is ${addresses.join(', ')}`, value: addresses };
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    throw new StepFailed(
      EXIT.noGateway,
      `the name ${host} has no address (${code})`,
      code === 'EAI_AGAIN'
        ? 'The name server does not answer: see /etc/resolv.conf.'
        : 'Is it spelled right, and known to the name server that this machine asks?',
    );
  }
}

/** Which of the addresses take connections. */
export async function tryConnections(addresses: readonly string[], port: number, timeoutMs: number): Promise<Found> {
  const tried = await Promise.all(addresses.map((address) => tryConnection(address, port, timeoutMs)));
  const open = tried.filter(({ error }) => error === undefined);
  const shut = tried.filter(({ error }) => error !== undefined);
  const failures = shut.map(({ address, error }) => `${show(address, port)}: ${error}`).join('; ');
  const value = open.map(({ address }) => address);
  if (open.length === 0) throw new StepFailed(EXIT.noGateway, failures, adviceFor(failures));
  const working = open.map(({ address, ms }) => `${show(address, port)} in ${ms} ms`).join(', ');
  if (shut.length === 0) return { said: working, value };
  return {
    said: { warning: `${working}; but ${failures}`, advice: 'Some addresses of the name lead nowhere.' },
    value,
  };
}

interface Tried {
  address: string;
  ms: number;
  error: string | undefined;
}

function tryConnection(host: string, port: number, timeoutMs: number): Promise<Tried> {
  const start = performance.now();
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const settle = (error: string | undefined): void => {
      socket.destroy();
      resolve({ address: host, ms: Math.round(performance.now() - start), error });
    };
    socket.setTimeout(timeoutMs, () => settle(`no answer within ${timeoutMs} ms`));
    socket.once('connect', () => settle(undefined));
    socket.once('error', ({ message }) => settle(message));
  });
}

function adviceFor(failures: string): string {
  if (failures.includes('ECONNREFUSED'))
    return 'The machine is there, and nothing listens at that port: is the gateway running, and is the port right?';
  if (failures.includes('no answer')) return 'Nothing comes back: is a firewall or a network policy in between?';
  return 'Is there a route to that network?';
}

function show(address: string, port: number): string {
  return isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`;
}

export interface Secured {
  readonly host: string;
  readonly address: string;
  readonly port: number;
  readonly tls: PosternOptions['tls'];
  readonly timeoutMs: number;
}

/** Whether the certificates on both sides do. */
export function tryTls({ host, address, port, tls, timeoutMs }: Secured): Promise<{ said: Said; value: true }> {
  return new Promise((resolve, reject) => {
    const servername = isIP(host) === 0 ? { servername: host } : {};
    const socket = connectTls({ host: address, port, ...servername, ...(tls as object | undefined) });
    const fail = (sentence: string, advice?: string): void => {
      socket.destroy();
      reject(new StepFailed(EXIT.noGateway, sentence, advice));
    };
    socket.setTimeout(timeoutMs, () => fail(`no TLS within ${timeoutMs} ms`, 'Does that port speak TLS?'));
    socket.once('error', (error: NodeJS.ErrnoException) =>
      fail(`${error.message} (${error.code ?? ''})`, tlsAdvice(error.code)),
    );
    socket.once('secureConnect', () => {
      const said = certificateSays(socket.getPeerCertificate(), socket.getProtocol() ?? 'TLS');
      socket.destroy();
      resolve({ said, value: true });
    });
  });
}

function certificateSays({ valid_to: until, subject }: PeerCertificate, protocol: string): Said {
  const days = Math.floor((Date.parse(until) - Date.now()) / DAY_MS);
  const sentence = `${protocol}; the certificate of ${String(subject?.CN ?? 'the gateway')} is valid for ${days} days`;
  return days < EXPIRES_SOON_DAYS ? { warning: sentence, advice: 'It has to be renewed soon.' } : sentence;
}

function tlsAdvice(code: string | undefined): string {
  switch (code) {
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
      return 'Its authority is not trusted here: --ca-file (or POSTERN_CA_FILE) names the certificates to trust.';
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return 'The certificate is for another name: use a name that it has.';
    case 'CERT_HAS_EXPIRED':
      return 'The certificate of the gateway, or the clock of this machine, is out of date.';
    case 'EPROTO':
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
      return 'That port does not speak TLS: is the address http://?';
    default:
      return 'If the gateway wants a certificate of the client: --cert-file and --key-file name one.';
  }
}
