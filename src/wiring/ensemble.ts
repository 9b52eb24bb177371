/** The ensemble as configured, and how its events reach the metrics and the log. */
import type { Config } from '../config.js';
import { ownedByLease, ownedByReplica } from '../leases/limits.js';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics/metrics.js';
import { createSeldom } from '../seldom.js';
import { SECOND } from '../time.js';
import { CREATOR_ACL, OPEN_ACL } from '../zookeeper/acl.js';
import type { Ensemble, ZooKeeperObserver } from '../zookeeper/client.js';
import { parseConnectString } from '../zookeeper/connect-string.js';
import type { Backlog } from '../zookeeper/connection/backlog.js';
import { ServerOrder } from '../zookeeper/connection/server-order.js';
import { SessionDeniedError, SessionTimeoutError } from '../zookeeper/errors.js';
import { ServerClock } from '../zookeeper/server-clock.js';
import { Zxids } from '../zookeeper/connection/zxids.js';

const HANDSHAKE_TIMEOUT_MS = 3 * SECOND;
/** The same fault is logged once in this time. */
const FAULT_AGAIN_MS = 30 * SECOND;

export interface NumberedEnsemble extends Ensemble {
  zxids: Zxids;
}

/** @throws Error with one sentence if the connect string is missing or cannot be used */
export function ensembleOf(config: Config, backlog: Backlog, metrics: Metrics, logger: Logger): NumberedEnsemble {
  if (config.zookeeper === undefined)
    throw new Error(
      'POSTERN_ZOOKEEPER is not set; it names the ensemble to use, for example 127.0.0.1:2181. `npm start` without it starts one.',
    );
  const { servers, chroot } = parseConnectString(config.zookeeper);
  const { zookeeperAuth, zookeeperTls, zookeeperTlsCa, zookeeperTlsCert, zookeeperTlsKey } = config;
  const observer = zooKeeperObserver(metrics, logger);
  return {
    servers,
    order: new ServerOrder(servers, observer),
    chroot,
    credentials: zookeeperAuth === undefined ? [] : [{ scheme: 'digest', auth: Buffer.from(zookeeperAuth) }],
    tls: zookeeperTls ? { ca: zookeeperTlsCa, cert: zookeeperTlsCert, key: zookeeperTlsKey } : undefined,
    // With credentials, only the gateway may access its nodes.
    acl: zookeeperAuth === undefined ? OPEN_ACL : CREATOR_ACL,
    handshakeTimeoutMs: HANDSHAKE_TIMEOUT_MS,
    clock: new ServerClock((ms) => observer.clockLeapt(ms)),
    backlog,
    zxids: new Zxids(),
    observer,
    ownedByLease: ownedByLease(config, () => metrics.limitRefusalsTotal.inc({ limit: 'holds' })),
    ownedByReplica: ownedByReplica(config),
  };
}

function zooKeeperObserver(metrics: Metrics, logger: Logger): ZooKeeperObserver {
  const seldom = createSeldom(FAULT_AGAIN_MS);
  const durations = new Map<string, { observe(seconds: number): void }>();
  return {
    request(operation, ms) {
      let duration = durations.get(operation);
      if (duration === undefined)
        durations.set(operation, (duration = metrics.zookeeperRequestDurationSeconds.labels({ op: operation })));
      duration.observe(ms / 1_000);
    },
    committed: (writes) => metrics.zookeeperGroupCommitWrites.observe(writes),
    commitFailed: (how) => metrics.zookeeperGroupCommitFailuresTotal.inc({ outcome: how }),
    connected(connected) {
      metrics.zookeeperConnected.set(connected ? 1 : 0);
      if (connected) logger.info('connected to ZooKeeper');
      else logger.warn('ZooKeeper connection lost');
    },
    unreachable: (failures) => logger.warn({ failures }, 'no ZooKeeper server reachable; retrying'),
    clockLeapt(ms) {
      metrics.zookeeperClockLeapsTotal.inc();
      logger.error(
        { leapMs: ms },
        "ZooKeeper clock leap: the servers' clocks disagree, or one was set; deadlines shift by as much",
      );
    },
    reconnected: () => metrics.zookeeperReconnectsTotal.inc(),
    setAside(server, why) {
      metrics.zookeeperServersSetAsideTotal.inc({ reason: whySetAside(why) });
      logger.warn({ server, reason: why.message }, 'ZooKeeper server unusable for leases; trying the others first');
    },
    back: (server) => logger.info({ server }, 'ZooKeeper server usable for leases again'),
    watchEvent: (type) => metrics.watchEventsTotal.inc({ type }),
    watches: (count) => metrics.watches.set(count),
    fault: (error) => {
      if (seldom(error instanceof Error ? error.message : String(error)))
        logger.warn({ err: error }, 'ZooKeeper connection failed');
    },
    listenerFailed(error) {
      if (seldom(`listener: ${String(error)}`)) logger.error({ err: error }, 'a listener failed; the others were told');
    },
  };
}

function whySetAside(why: Error): 'session-timeout' | 'replaced' | 'silent' {
  if (why instanceof SessionTimeoutError) return 'session-timeout';
  return why instanceof SessionDeniedError ? 'replaced' : 'silent';
}
