/** What replicas, ZooKeeper and the operating system tell of themselves at one moment. */
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { metricsOf, sumOf } from '../generator/exposition.js';
import { usage } from '../processes.js';
import type { Postern, ZooKeeper } from '../servers.js';
import type { Told } from './work.js';

export interface ReplicaSample {
  readonly rssMiB: number;
  readonly heapMiB: number;
  readonly descriptors: number;
  readonly timers: number;
  readonly sockets: number;
  readonly watches: number;
  readonly attached: number;
  readonly waiters: number;
  readonly inFlight: number;
  readonly refused: number;
  readonly cpuSeconds: number;
}

export interface Sample {
  /** Seconds since the first one. */
  readonly at: number;
  readonly replicas: readonly ReplicaSample[];
  readonly zookeeper: {
    readonly znodes: number;
    readonly ephemerals: number;
    readonly watches: number;
    readonly sessions: number;
    readonly rssMiB: number;
    readonly cpuSeconds: number;
  };
  readonly load: Told | undefined;
  /** Of all cores of the machine, whoever used them. */
  readonly machineCpuSeconds: number;
}

const MIB = 1_048_576;
const TICKS_PER_SECOND = 100;

export async function takeSample(
  at: number,
  zookeeper: ZooKeeper,
  replicas: readonly Postern[],
  load: Told | undefined,
): Promise<Sample> {
  const [told, ...of] = await Promise.all([mntr(zookeeper.port), ...replicas.map(ofReplica)]);
  const { rssKiB, cpuSeconds } = usage(zookeeper.pids['store'] as number);
  return {
    at,
    replicas: of,
    zookeeper: {
      znodes: told('zk_znode_count'),
      ephemerals: told('zk_ephemerals_count'),
      watches: told('zk_watch_count'),
      sessions: told('zk_global_sessions'),
      rssMiB: rssKiB / 1_024,
      cpuSeconds,
    },
    load,
    machineCpuSeconds: machineCpuSeconds(),
  };
}

async function ofReplica({ port, process: { pid } }: Postern): Promise<ReplicaSample> {
  const metrics = await metricsOf(port);
  const sum = (name: string, label?: string): number => sumOf(metrics, `postern_${name}`, label);
  return {
    rssMiB: sum('process_resident_memory_bytes') / MIB,
    heapMiB: sum('nodejs_heap_size_used_bytes') / MIB,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    timers: sum('nodejs_active_resources', 'Timeout'),
    sockets: sum('nodejs_active_resources', 'TCPSocketWrap'),
    watches: sum('watches'),
    attached: sum('leases_attached'),
    waiters: sum('waiters'),
    inFlight: sum('http_requests_in_flight'),
    refused: sum('overload_refusals_total'),
    cpuSeconds: usage(pid as number).cpuSeconds,
  };
}

function mntr(port: number): Promise<(name: string) => number> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write('mntr'));
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => (text += chunk));
    socket.once('error', reject);
    socket.once('close', () => resolve((name) => Number(new RegExp(`^${name}\\t(\\S+)$`, 'm').exec(text)?.[1] ?? NaN)));
  });
}

function machineCpuSeconds(): number {
  const [, user = 0, nice = 0, system = 0] = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '')
    .split(/\s+/)
    .map(Number);
  return (user + nice + system) / TICKS_PER_SECOND;
}
