/**
 * An identity provider as a test needs it: a real HTTP server with discovery document and key set, and tokens signed
 * with real keys.
 */
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK, type JWTPayload } from 'jose';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SigningKey {
  readonly kid: string;
  readonly alg: string;
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

export interface SignOptions {
  /** Default: the newest published key. */
  key?: SigningKey;
  /** Epoch seconds; default in ten minutes. `null` leaves it out. */
  exp?: number | null;
  /** Of the header. */
  /** Whatever JSON has: a header is signed as it is. */
  typ?: unknown;
}

export async function makeSigningKey(kid: string, alg: 'RS256' | 'ES256' | 'EdDSA' = 'ES256'): Promise<SigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

export class IdentityProvider implements AsyncDisposable {
  readonly issuer: string;
  readonly audience = 'postern';
  /** How often the key set was asked for. */
  asked = 0;
  /** Instead of an answer the connection is cut. */
  down = false;
  /** Where it sends those who ask for the key set; itself at first. */
  redirect: string | undefined;
  /** What the discovery document says of its issuer. */
  discovered: string;
  readonly #server: Server;
  #published: SigningKey[];
  /** Nothing is answered before this is resolved. */
  #held: Promise<void> | undefined;

  private constructor(server: Server, published: SigningKey[]) {
    this.#server = server;
    this.#published = published;
    this.issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}/realm`;
    this.discovered = this.issuer;
  }

  static async start(): Promise<IdentityProvider> {
    const keys = [await makeSigningKey('first', 'RS256')];
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const provider = new IdentityProvider(server, keys);
    server.on('request', (request, response) => {
      const answer = (): unknown => provider.#answer(request, response);
      if (provider.#held === undefined) answer();
      else void provider.#held.then(answer);
    });
    return provider;
  }

  #answer(request: IncomingMessage, response: ServerResponse): unknown {
    if (this.down) return request.socket.destroy();
    response.setHeader('Content-Type', 'application/json');
    if (request.url === '/realm/.well-known/openid-configuration')
      return response.end(JSON.stringify({ issuer: this.discovered, jwks_uri: this.jwksUrl }));
    if (request.url !== '/keys' && request.url !== '/moved') return response.writeHead(404).end();
    this.asked += 1;
    if (this.redirect !== undefined && request.url === '/keys')
      return response.writeHead(302, { Location: this.redirect }).end();
    return response.end(JSON.stringify(this.keySet));
  }

  /** Answers nothing until the returned function is called. */
  hold(): () => void {
    let release = (): void => undefined;
    this.#held = new Promise((resolve) => (release = resolve));
    return () => {
      this.#held = undefined;
      release();
    };
  }

  get jwksUrl(): string {
    return `${new URL(this.issuer).origin}/keys`;
  }

  get keySet(): { keys: JWK[] } {
    return { keys: this.#published.map(({ jwk }) => jwk) };
  }

  /** Publishes these keys and no others; the last one signs. */
  publish(...keys: SigningKey[]): void {
    this.#published = keys;
  }

  sign(claims: JWTPayload, { key, exp, typ }: SignOptions = {}): Promise<string> {
    const { kid, alg, privateKey } = key ?? this.#newest();
    const now = Math.floor(Date.now() / 1000);
    const payload = { iss: this.issuer, aud: this.audience, sub: 'alice', iat: now, ...claims };
    const jwt = new SignJWT(payload).setProtectedHeader({
      alg,
      kid,
      ...(typ === undefined ? {} : { typ: typ as string }),
    });
    if (exp !== null) jwt.setExpirationTime(exp ?? now + 600);
    return jwt.sign(privateKey);
  }

  #newest(): SigningKey {
    const key = this.#published.at(-1);
    if (key === undefined) throw new Error('the identity provider has published no key');
    return key;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
