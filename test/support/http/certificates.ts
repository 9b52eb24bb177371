/**
 * Throw-away certificates for a TLS port of ZooKeeper, made with Java's keytool, which is there wherever ZooKeeper
 * runs.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { promisify } from 'node:util';

const PASSWORD = 'postern-test';

export interface Certificates extends AsyncDisposable {
  /** PEM; what a client has to trust. Valid for 127.0.0.1 and localhost. */
  readonly ca: string;
  /** PKCS#12; a client certificate that the server trusts. */
  readonly clientPfx: Buffer;
  readonly passphrase: string;
  readonly serverStore: string;
  readonly trustStore: string;
  /** Default `none`: the server asks for no client certificate. */
  clientAuth?: 'none' | 'want' | 'need';
}

export async function makeCertificates(): Promise<Certificates> {
  const dir = await mkdtemp(join(tmpdir(), 'postern-certificates-'));
  const serverStore = join(dir, 'server.p12');
  const clientStore = join(dir, 'client.p12');
  const trustStore = join(dir, 'trust.p12');
  await makeKey(serverStore, 'localhost', ['-ext', 'SAN=ip:127.0.0.1,dns:localhost']);
  await makeKey(clientStore, 'postern');
  const ca = await keytool('-exportcert', '-rfc', '-alias', 'key', ...store(serverStore));
  const clientPem = join(dir, 'client.pem');
  await keytool('-exportcert', '-rfc', '-alias', 'key', '-file', clientPem, ...store(clientStore));
  await keytool('-importcert', '-noprompt', '-alias', 'client', '-file', clientPem, ...store(trustStore));
  return {
    ca,
    clientPfx: await readFile(clientStore),
    passphrase: PASSWORD,
    serverStore,
    trustStore,
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

/** What a server needs for its TLS port; the plain port stays, for readiness and four letter words. */
export function certificateSettings(
  { serverStore, trustStore, clientAuth = 'none' }: Certificates,
  securePort: number,
): { config: Record<string, string>; jvmFlags: string[] } {
  return {
    config: {
      secureClientPort: String(securePort),
      secureClientPortAddress: '127.0.0.1',
      'ssl.keyStore.location': serverStore,
      'ssl.keyStore.password': PASSWORD,
      'ssl.trustStore.location': trustStore,
      'ssl.trustStore.password': PASSWORD,
      'ssl.clientAuth': clientAuth,
    },
    jvmFlags: ['-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory'],
  };
}

async function makeKey(path: string, name: string, extra: readonly string[] = []): Promise<void> {
  const key = ['-alias', 'key', '-keyalg', 'EC', '-groupname', 'secp256r1', '-validity', '30', '-dname', `CN=${name}`];
  await keytool('-genkeypair', ...key, ...extra, ...store(path));
}

function store(path: string): string[] {
  return ['-keystore', path, '-storetype', 'PKCS12', '-storepass', PASSWORD];
}

async function keytool(...args: string[]): Promise<string> {
  const home = env['JAVA_HOME'];
  const { stdout } = await promisify(execFile)(home ? join(home, 'bin', 'keytool') : 'keytool', args);
  return stdout;
}
