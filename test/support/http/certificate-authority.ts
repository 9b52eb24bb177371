/**
 * An authority that signs certificates (X.509, elliptic curve) in this process, so that a test has as many as it wants
 * within milliseconds and needs no other program. Encoded by hand after RFC 5280: only what TLS between two test
 * programs looks at.
 */
import { generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';

export interface Pem {
  readonly cert: string;
  readonly key: string;
}

export interface CertificateOptions {
  /** What it is for: host names and addresses. */
  readonly names?: readonly string[];
  /** Epoch ms. */
  readonly notAfter?: number;
}

const DAY_MS = 86_400_000;

export class CertificateAuthority {
  /** PEM; what has to be trusted. */
  readonly cert: string;
  readonly #name: Buffer;
  readonly #key: KeyObject;

  constructor(commonName: string) {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#name = nameOf(commonName);
    this.#key = privateKey;
    this.cert = this.#sign(this.#name, publicKey, [BASIC_CONSTRAINTS_CA], Date.now() + DAY_MS);
  }

  /** For `localhost` and 127.0.0.1 unless told otherwise. */
  issue(commonName: string, { names = ['localhost', '127.0.0.1'], notAfter }: CertificateOptions = {}): Pem {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    return {
      cert: this.#sign(nameOf(commonName), publicKey, [alternativeNames(names)], notAfter ?? Date.now() + DAY_MS),
      key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    };
  }

  #sign(subject: Buffer, publicKey: KeyObject, extensions: readonly Buffer[], notAfter: number): string {
    const body = sequence(
      tagged(0xa0, integer(Buffer.from([2]))),
      integer(Buffer.concat([Buffer.from([0x40]), randomBytes(15)])),
      ECDSA_WITH_SHA256,
      this.#name,
      sequence(time(Math.min(Date.now(), notAfter) - DAY_MS), time(notAfter)),
      subject,
      publicKey.export({ type: 'spki', format: 'der' }),
      tagged(0xa3, sequence(...extensions)),
    );
    const signature = sign('sha256', body, this.#key);
    const certificate = sequence(body, ECDSA_WITH_SHA256, tagged(0x03, Buffer.from([0]), signature));
    const lines = certificate.toString('base64').match(/.{1,64}/g) ?? [];
    return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
  }
}

function tagged(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, ...parts);
}

function integer(bytes: Buffer): Buffer {
  return tagged(0x02, bytes);
}

function oid(hex: string): Buffer {
  return tagged(0x06, Buffer.from(hex, 'hex'));
}

function time(at: number): Buffer {
  const text = new Date(at).toISOString().replace(/[-:T]|\.\d+/g, '');
  return tagged(0x18, Buffer.from(text));
}

function nameOf(commonName: string): Buffer {
  return sequence(tagged(0x31, sequence(oid('550403'), tagged(0x0c, Buffer.from(commonName)))));
}

function alternativeNames(names: readonly string[]): Buffer {
  const encoded = names.map((name) =>
    /^[\d.]+$/.test(name) ? tagged(0x87, Buffer.from(name.split('.').map(Number))) : tagged(0x82, Buffer.from(name)),
  );
  return sequence(oid('551d11'), tagged(0x04, sequence(...encoded)));
}

const ECDSA_WITH_SHA256 = sequence(oid('2a8648ce3d040302'));
/** Critical; `CA: true`. */
const BASIC_CONSTRAINTS_CA = sequence(
  oid('551d13'),
  tagged(0x01, Buffer.from([0xff])),
  tagged(0x04, sequence(tagged(0x01, Buffer.from([0xff])))),
);
