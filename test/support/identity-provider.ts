/** An identity provider as a test needs it: a real HTTP server with discovery document and key set, and tokens signed with real keys. */
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK, type JWTPayload } from 'jose';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
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
  /** What the discovery document says of its issuer. */
  discovered: string;
  readonly #server: Server;
  #published: SigningKey[];

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
      if (provider.down) return request.socket.destroy();
      response.setHeader('Content-Type', 'application/json');
      if (request.url === '/realm/.well-known/openid-configuration')
        return response.end(JSON.stringify({ issuer: provider.discovered, jwks_uri: provider.jwksUrl }));
      if (request.url !== '/keys') return response.writeHead(404).end();
      provider.asked += 1;
      return response.end(JSON.stringify(provider.keySet));
    });
    return provider;
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

  sign(claims: JWTPayload, { key, exp }: SignOptions = {}): Promise<string> {
    const { kid, alg, privateKey } = key ?? this.#newest();
    const now = Math.floor(Date.now() / 1000);
    const payload = { iss: this.issuer, aud: this.audience, sub: 'alice', iat: now, ...claims };
    const jwt = new SignJWT(payload).setProtectedHeader({ alg, kid });
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
