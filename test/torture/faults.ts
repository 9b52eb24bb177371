/**
 * What befalls the stage. A fault strikes and returns how it is mended; what it strikes it draws from the numbers it is
 * given, so that the schedule decides.
 */
import { eventually } from '../support/eventually.js';
import { below } from '../support/random.js';
import type { ZooKeeperNode } from '../support/start-zookeeper.js';
import { timing } from '../support/timing.js';
import type { Direction } from '../support/zookeeper/ambush.js';
import type { TcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { makeContainers } from './containers.js';
import { fillDisk } from './full-disk.js';
import { jumpClock } from './clock-jump.js';
import type { ReplicaProcess } from './replica-process.js';
import { restartAll, rotateKeys } from './rolling.js';
import type { Kind } from './schedule.js';
import { SERVERS, type Stage } from './stage.js';

export interface Struck {
  /** In words, for the log. */
  readonly what: string;
  readonly mend: () => Promise<void> | void;
}

export interface Fault extends Kind {
  /** For the documentation and the report. */
  readonly sentence: string;
  strike(stage: Stage, random: () => number): Promise<Struck> | Struck;
}

type Random = () => number;

function anyReplica(
  stage: Stage,
  random: Random,
): { replica: ReplicaProcess; proxies: readonly TcpProxy[]; index: number } {
  const index = below(stage.replicas.length, random);
  return {
    index,
    replica: stage.replicas[index] as ReplicaProcess,
    proxies: stage.links[index] as readonly TcpProxy[],
  };
}

/** The proxies between a replica and one server, or all. */
function someLinks(stage: Stage, random: Random): { what: string; proxies: readonly TcpProxy[] } {
  const { replica, proxies } = anyReplica(stage, random);
  const server = below(SERVERS + 1, random);
  const one = proxies[server];
  return one === undefined
    ? { what: `${replica.name} and all servers`, proxies }
    : { what: `${replica.name} and server ${server + 1}`, proxies: [one] };
}

const anyServer = (random: Random): number => 1 + below(SERVERS, random);

function halfOpen(direction: Direction, name: string, sentence: string): Fault {
  return {
    name,
    lane: 'edge',
    lasts: [500, 8_000],
    sentence,
    strike(stage, random) {
      const { what, proxies } = someLinks(stage, random);
      for (const proxy of proxies) proxy.pause(direction);
      return {
        what: `${what}, ${direction === 'toZooKeeper' ? 'requests' : 'answers'}`,
        mend: () => proxies.forEach((proxy) => proxy.resume(direction)),
      };
    },
  };
}

const EDGE: readonly Fault[] = [
  {
    name: 'kill-replica',
    lane: 'edge',
    lasts: [100, 4_000],
    sentence: 'A replica is killed (SIGKILL) and started again.',
    strike: async (stage, random) => {
      const { replica } = anyReplica(stage, random);
      await replica.kill();
      return { what: replica.name, mend: () => replica.start() };
    },
  },
  {
    name: 'stop-replica',
    lane: 'edge',
    lasts: [500, 10_000],
    sentence: 'A replica is stopped (SIGSTOP) and goes on later (SIGCONT), not knowing of it.',
    strike(stage, random) {
      const { replica } = anyReplica(stage, random);
      const goesOn = stage.standsStill(replica.url);
      replica.pause();
      return {
        what: replica.name,
        mend: () => {
          replica.signal('SIGCONT');
          goesOn();
        },
      };
    },
  },
  {
    name: 'stop-clients',
    lane: 'edge',
    lasts: [1_000, 12_000],
    sentence: 'A process of clients is stopped, longer than some leases last, and goes on believing what it believed.',
    strike(stage, random) {
      const client = stage.clients[below(stage.clients.length, random)] as Stage['clients'][number];
      const goesOn = stage.standsStill(client.name);
      client.pause();
      return {
        what: client.name,
        mend: () => {
          client.resume();
          goesOn();
        },
      };
    },
  },
  {
    name: 'partition',
    lane: 'edge',
    lasts: [500, 8_000],
    sentence: 'Between a replica and one server, or all, nothing passes, and nobody is told.',
    strike(stage, random) {
      const { what, proxies } = someLinks(stage, random);
      for (const proxy of proxies) proxy.suspend();
      return { what, mend: () => proxies.forEach((proxy) => proxy.resume()) };
    },
  },
  halfOpen('toZooKeeper', 'half-open-requests', 'Requests of a replica do not reach one server, or all; answers do.'),
  halfOpen(
    'fromZooKeeper',
    'half-open-answers',
    'Requests of a replica reach the server; the answers do not come back.',
  ),
  {
    name: 'delay',
    lane: 'edge',
    lasts: [1_000, 8_000],
    sentence:
      'What a replica and one server, or all, tell each other comes up to 700 ms late, each direction by another time.',
    strike(stage, random) {
      const { what, proxies } = someLinks(stage, random);
      const [there, back] = [below(700, random), below(700, random)];
      for (const proxy of proxies) {
        proxy.delay('toZooKeeper', there);
        proxy.delay('fromZooKeeper', back);
      }
      return {
        what: `${what}, ${there} ms there, ${back} ms back`,
        mend: () =>
          proxies.forEach((proxy) => {
            proxy.delay('toZooKeeper', 0);
            proxy.delay('fromZooKeeper', 0);
          }),
      };
    },
  },
  {
    name: 'cut-frame',
    lane: 'edge',
    lasts: [500, 2_000],
    sentence: 'Connections of a replica end in the middle of a frame, in one direction and then in the other.',
    strike(stage, random) {
      const { replica, proxies } = anyReplica(stage, random);
      for (const proxy of proxies)
        for (const direction of ['toZooKeeper', 'fromZooKeeper'] as const) void proxy.cutMidFrame(direction);
      return { what: replica.name, mend: () => undefined };
    },
  },
  {
    name: 'reconnect-storm',
    lane: 'edge',
    lasts: [1_000, 4_000],
    sentence: 'All connections of all replicas to the ensemble are cut at once, again and again.',
    strike(stage) {
      const cut = (): void => stage.links.flat().forEach((proxy) => proxy.cut({ reset: true }));
      cut();
      const again = setInterval(cut, STORM_EVERY_MS);
      return { what: 'all replicas', mend: () => clearInterval(again) };
    },
  },
  {
    name: 'takeover',
    lane: 'edge',
    lasts: [1_000, 4_000],
    sentence: 'All clients go to one replica at once, with leases that are attached at the others.',
    strike(stage, random) {
      const { index, replica } = anyReplica(stage, random);
      for (const client of stage.clients) client.tell({ do: 'crowd', replica: index });
      return {
        what: `to ${replica.name}`,
        mend: () => stage.clients.forEach((client) => client.tell({ do: 'crowd', replica: undefined })),
      };
    },
  },
  {
    name: 'clock-jump',
    lane: 'edge',
    lasts: [1_000, 8_000],
    sentence: "A replica's wall clock is an hour ahead or behind, and comes back; monotonic time goes on.",
    async strike(stage, random) {
      const { replica } = anyReplica(stage, random);
      const ms = (random() < 0.5 ? -1 : 1) * HOUR_MS;
      await jumpClock(stage, replica, ms);
      return { what: `${replica.name} by ${ms} ms`, mend: () => jumpClock(stage, replica, 0) };
    },
  },
  {
    name: 'rolling-restart',
    lane: 'edge',
    lasts: [0, 0],
    sentence: 'The replicas are told to end (SIGTERM) and started again, one after the other.',
    async strike(stage) {
      await restartAll(stage);
      return { what: 'all replicas', mend: () => undefined };
    },
  },
  {
    name: 'key-rotation',
    lane: 'edge',
    lasts: [0, 0],
    sentence:
      'A new key that seals lease tokens is made known to all replicas, and then used by all: two rolling restarts.',
    async strike(stage) {
      await rotateKeys(stage);
      return { what: 'all replicas', mend: () => undefined };
    },
  },
  {
    name: 'containers',
    lane: 'edge',
    lasts: [0, 0],
    sentence:
      'The directories of the next locks and elections are made as containers, as Curator makes them: ZooKeeper removes them when nobody stands in them, and their sequence begins anew.',
    async strike(stage) {
      const made = await makeContainers(stage);
      return { what: made.join(', '), mend: () => undefined };
    },
  },
];

const STORM_EVERY_MS = 500;
const HOUR_MS = 3_600_000;

const ENSEMBLE: readonly Fault[] = [
  {
    name: 'kill-leader',
    lane: 'ensemble',
    lasts: [200, 6_000],
    sentence: "The ensemble's leader is killed and started again.",
    async strike({ ensemble }) {
      const leader = await ensemble.leader();
      await leader.kill();
      return { what: `server ${leader.id}`, mend: () => leader.restart() };
    },
  },
  {
    name: 'stop-server',
    lane: 'ensemble',
    lasts: [500, 8_000],
    sentence: 'A server of the ensemble is stopped and goes on later.',
    strike({ ensemble }, random) {
      const server = ensemble.server(anyServer(random));
      server.pause();
      return { what: `server ${server.id}`, mend: () => server.resume() };
    },
  },
  {
    name: 'hang-server',
    lane: 'ensemble',
    lasts: [6_000, 14_000],
    sentence: 'A server that follows hangs for longer than some leases last: its connections stay open and silent.',
    async strike({ ensemble }, random) {
      // Nobody does for a moment after the leader was killed.
      const pick = async (): Promise<ZooKeeperNode | undefined> => {
        const followers = await ensemble.followers();
        return followers[below(followers.length, random)];
      };
      const server = await eventually('somebody follows', pick, { withinMs: timing.processMs });
      server.pause();
      return { what: `server ${server.id}`, mend: () => server.resume() };
    },
  },
  {
    name: 'depose-leader',
    lane: 'ensemble',
    lasts: [0, 6_000],
    sentence:
      'The leader is stopped until the other two have elected one of themselves, and wakes up later, believing that it leads.',
    async strike({ ensemble }) {
      const leader = await ensemble.leader();
      leader.pause();
      const next = await ensemble.leader();
      return { what: `server ${leader.id}, for server ${next.id}`, mend: () => leader.resume() };
    },
  },
  {
    name: 'isolate-server',
    lane: 'ensemble',
    lasts: [500, 8_000],
    sentence: 'A server is cut off from the other two, not from the replicas.',
    strike({ ensemble }, random) {
      const id = anyServer(random);
      ensemble.isolate(id);
      return { what: `server ${id}`, mend: () => ensemble.rejoin(id) };
    },
  },
  {
    name: 'lag',
    lane: 'ensemble',
    lasts: [3_000, 12_000],
    sentence: 'A server hears of transactions up to two seconds later than the others: its clients read the past.',
    strike({ ensemble }, random) {
      const id = anyServer(random);
      const ms = 300 + below(1_700, random);
      ensemble.lag(id, ms);
      return { what: `server ${id} by ${ms} ms`, mend: () => ensemble.lag(id, 0) };
    },
  },
  {
    name: 'disk-full',
    lane: 'ensemble',
    lasts: [500, 5_000],
    sentence:
      'A server can write nothing more to its disk, and is started again when there is room, with nothing on it.',
    async strike({ ensemble }, random) {
      const server = ensemble.server(anyServer(random));
      const freed = await fillDisk(server.pid);
      return {
        what: `server ${server.id}`,
        mend: async () => {
          await freed();
          await ensemble.renew(server.id);
        },
      };
    },
  },
];

export const FAULTS: readonly Fault[] = [...EDGE, ...ENSEMBLE];
