/** A real ensemble for the checks of the packaging, with settings as compose.yaml has them. */
import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../lib/install.mjs';
import {
  assertPortFree,
  checkJava,
  PortTakenError,
  provideZooKeeper,
  startZooKeeperServer,
} from '../lib/zookeeper.mjs';

const TICK_MS = 500;
/** Below those from which the kernel takes ports for outgoing connections, and those of tests that run beside. */
const PORTS = /** @type {const} */ ([14_000, 20_000]);
const CONFIG = { maxClientCnxns: '0', minSessionTimeout: '1000', maxSessionTimeout: '300000', preAllocSize: '1024' };
const JVM_FLAGS = ['-XX:TieredStopAtLevel=1', '-Dzookeeper.extendedTypesEnabled=true', '-Dzookeeper.forceSync=no'];

/** @returns {Promise<number>} a port that nobody listens on */
export async function freePort() {
  for (;;) {
    const port = randomInt(...PORTS);
    try {
      await assertPortFree(port);
      return port;
    } catch (error) {
      if (!(error instanceof PortTakenError)) throw error;
    }
  }
}

/** @param {number} count 1 or 3 */
export async function startZooKeepers(count) {
  const java = await checkJava();
  const { classpath } = await provideZooKeeper({ cacheDir: join(ROOT, '.cache') });
  const home = await mkdtemp(join(tmpdir(), 'postern-ensemble-'));
  const ports = await Promise.all(
    Array.from({ length: count }, async () => ({
      client: await freePort(),
      quorum: await freePort(),
      election: await freePort(),
    })),
  );
  const lines = Object.fromEntries(
    ports.map(({ quorum, election }, index) => [`server.${index + 1}`, `127.0.0.1:${quorum}:${election}`]),
  );
  const servers = await Promise.all(
    ports.map(({ client }, index) =>
      startZooKeeperServer({
        java,
        classpath,
        dataDir: join(home, `server-${index + 1}`),
        clientPort: client,
        tickTime: TICK_MS,
        config: CONFIG,
        jvmFlags: JVM_FLAGS,
        waitUntilReady: false, // no member of an ensemble is ready before most have started
        ...(count > 1 ? { servers: lines, myid: index + 1 } : {}),
      }),
    ),
  );
  const dispose = async () => {
    await Promise.all(servers.map((server) => server.stop({ graceMs: 0 })));
    await rm(home, { recursive: true, force: true });
  };
  try {
    await Promise.all(servers.map((server) => server.ready()));
  } catch (error) {
    await dispose();
    throw error;
  }
  return { connectString: servers.map(({ host, port }) => `${host}:${port}`).join(','), dispose };
}
