/**
 * A TCP proxy in front of one ZooKeeper server: network faults on demand, without root.
 *
 * `pause` holds one direction back and `suspend` both, while connections stay open (a partition); `cut` destroys the
 * connections; `refuse` turns new ones away; `loseReply` and `loseRequest` cut at one exact request, so that a race is
 * provoked and not hoped for. Order is always kept. What is held back is bounded: beyond the bound the proxy stops
 * reading, as a full TCP window would.
 */
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { triggers, type Ambush, type Ambushed, type Direction } from './ambush.js';
import { FrameSplitter, replyXid, requestHeader } from './frames.js';

const DIRECTIONS = ['toZooKeeper', 'fromZooKeeper'] as const;
const HELD_BYTES_MAX = 1024 * 1024; // per connection and direction
const SET_DATA = 5;
/** In the reply to it: the length, the header of 16 bytes, and the Stat, which begins czxid, mzxid, ctime. */
const MTIME_AT = 4 + 16 + 3 * 8;
const HOST = '127.0.0.1';

export interface TcpProxyOptions {
  port: number;
  host?: string;
  /** False for traffic that is not a client's, such as that between the servers of an ensemble. */
  framed?: boolean;
  /** Where to listen; default any free port. */
  listenPort?: number;
}

export async function startTcpProxy(options: TcpProxyOptions): Promise<TcpProxy> {
  const proxy = new TcpProxy(options);
  await proxy.listen(options.listenPort ?? 0);
  return proxy;
}

export class TcpProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #links = new Set<Link>();
  readonly #paused = new Set<Direction>();
  readonly #delays: Record<Direction, number> = { toZooKeeper: 0, fromZooKeeper: 0 };
  readonly #ambushes = new Set<Ambush>();
  #refusing = false;
  #shiftMs = 0;
  #port = 0;

  /** Since the start: connections taken, connections turned away, bytes passed on. */
  readonly counters = { accepted: 0, refused: 0, bytes: { toZooKeeper: 0, fromZooKeeper: 0 } };

  constructor(readonly target: TcpProxyOptions) {
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(socket));
  }

  listen(port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, HOST, () => {
        this.#port = (this.#server.address() as AddressInfo).port;
        resolve();
      });
    });
  }

  get port(): number {
    return this.#port;
  }

  get connectString(): string {
    return `${HOST}:${this.#port}`;
  }

  /** Connections open now. */
  get openConnections(): number {
    return this.#links.size;
  }

  /** Bytes held back now, in one direction or in both. */
  heldBytes(direction?: Direction): number {
    const directions = direction ? [direction] : DIRECTIONS;
    let sum = 0;
    for (const link of this.#links) for (const each of directions) sum += link.flows[each].heldBytes;
    return sum;
  }

  /** Holds back everything in this direction, on the connections of now and of later. */
  pause(direction: Direction): void {
    this.#paused.add(direction);
  }

  /** Ends `pause` and `suspend`; what was held back goes on in order. */
  resume(direction?: Direction): void {
    for (const each of direction ? [direction] : DIRECTIONS) this.#paused.delete(each);
    this.#pumpAll();
  }

  /** A partition: nothing passes, nobody is told. */
  suspend(): void {
    for (const direction of DIRECTIONS) this.#paused.add(direction);
  }

  /** Everything in this direction comes `ms` later; 0 ends it. */
  delay(direction: Direction, ms: number): void {
    this.#delays[direction] = ms;
  }

  /** From now on each `setData` is answered as by a server whose clock is so far ahead. */
  shiftClock(ms: number): void {
    this.#shiftMs = ms;
  }

  /** Writes bytes of its own into every connection, past what is held back. */
  inject(direction: Direction, bytes: Buffer): void {
    for (const link of this.#links) link.flows[direction].inject(bytes);
  }

  /** Destroys every connection; `reset` sends RST in place of FIN. What is held back is lost. */
  cut({ reset = false }: { reset?: boolean } = {}): void {
    for (const link of [...this.#links]) link.destroy(reset);
  }

  /** Closes new connections at once, until `accept`. */
  refuse(): void {
    this.#refusing = true;
  }

  accept(): void {
    this.#refusing = false;
  }

  /** The next frame in this direction is passed on in half, then its connection is cut. Resolves when that happened. */
  cutMidFrame(direction: Direction = 'fromZooKeeper'): Promise<void> {
    return this.#lieInWait('cutMidFrame', direction, []);
  }

  /** ZooKeeper answers the next request with one of these opcodes, and the connection is cut in place of the answer. */
  loseReply(...opcodes: number[]): Promise<void> {
    return this.#lieInWait('loseReply', 'fromZooKeeper', opcodes);
  }

  /** The connection is cut in place of passing on the next request with one of these opcodes. */
  loseRequest(...opcodes: number[]): Promise<void> {
    return this.#lieInWait('loseRequest', 'toZooKeeper', opcodes);
  }

  /** Ends every fault; held bytes flow again. */
  heal(): void {
    this.#ambushes.clear();
    for (const direction of DIRECTIONS) this.#delays[direction] = 0;
    this.accept();
    this.resume();
  }

  async stop(): Promise<void> {
    this.cut();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  // What the links ask their proxy.

  /** @internal */
  isPaused(direction: Direction): boolean {
    return this.#paused.has(direction);
  }

  /** @internal */
  delayOf(direction: Direction): number {
    return this.#delays[direction];
  }

  /** @internal What is passed on in place of this piece. */
  rewritten(link: Link, direction: Direction, piece: Buffer): Buffer {
    if (this.#shiftMs === 0 || !link.established) return piece;
    if (direction === 'toZooKeeper') {
      const header = requestHeader(piece);
      if (header?.opcode === SET_DATA) link.writes.add(header.xid);
      return piece;
    }
    const xid = replyXid(piece);
    if (xid === undefined || !link.writes.delete(xid) || piece.length < MTIME_AT + 8) return piece;
    const shifted = Buffer.from(piece);
    shifted.writeBigInt64BE(shifted.readBigInt64BE(MTIME_AT) + BigInt(this.#shiftMs), MTIME_AT);
    return shifted;
  }

  /** @internal The ambush that this piece springs, taken out of the list. */
  springs(link: Link, direction: Direction, piece: Buffer): Ambush | undefined {
    for (const ambush of this.#ambushes) {
      if (!triggers(ambush, link, direction, piece)) continue;
      this.#ambushes.delete(ambush);
      return ambush;
    }
    return undefined;
  }

  /** @internal */
  forget(link: Link): void {
    this.#links.delete(link);
  }

  #lieInWait(kind: Ambush['kind'], direction: Direction, opcodes: readonly number[]): Promise<void> {
    return new Promise((sprung) => this.#ambushes.add({ kind, direction, opcodes, sprung }));
  }

  #pumpAll(): void {
    for (const link of this.#links) link.pump();
  }

  #accept(client: Socket): void {
    if (this.#refusing) {
      this.counters.refused += 1;
      client.on('error', () => undefined);
      client.destroy();
      return;
    }
    this.counters.accepted += 1;
    this.#links.add(new Link(this, client));
  }
}

/** One connection through the proxy. ZooKeeper's side is opened when something may pass to it. */
class Link implements Ambushed {
  readonly flows: Record<Direction, Flow>;
  readonly doomed = new Map<Ambush, number>();
  /** `setData` requests whose answer is to be rewritten, by xid. */
  readonly writes = new Set<number>();
  established = false;
  #upstream: Socket | undefined;
  #ended = false;

  constructor(
    readonly proxy: TcpProxy,
    readonly client: Socket,
  ) {
    this.flows = {
      toZooKeeper: new Flow(this, 'toZooKeeper', () => this.#connect()),
      fromZooKeeper: new Flow(this, 'fromZooKeeper', () => this.client),
    };
    this.flows.toZooKeeper.readFrom(client);
    if (!proxy.isPaused('toZooKeeper')) this.#connect();
  }

  pump(): void {
    if (!this.proxy.isPaused('toZooKeeper')) this.#connect();
    for (const direction of DIRECTIONS) this.flows[direction].pump();
  }

  destroy(reset = false): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const socket of [this.client, this.#upstream]) {
      if (reset) socket?.resetAndDestroy();
      else socket?.destroy();
    }
    for (const direction of DIRECTIONS) this.flows[direction].drop();
    this.proxy.forget(this);
  }

  #connect(): Socket {
    if (this.#upstream) return this.#upstream;
    const { host = HOST, port } = this.proxy.target;
    const upstream = connect({ host, port, allowHalfOpen: true, noDelay: true });
    this.#upstream = upstream;
    this.flows.fromZooKeeper.readFrom(upstream);
    return upstream;
  }
}

type Held = { dueAt: number } & ({ kind: 'piece'; bytes: Buffer } | { kind: 'end' } | { kind: 'broken' });

/** One direction of a link: a bounded queue of what has come and may not pass yet. */
class Flow {
  readonly #queue: Held[] = [];
  readonly #splitter: FrameSplitter;
  #source: Socket | undefined;
  #timer: NodeJS.Timeout | undefined;
  #writing = false;
  heldBytes = 0;

  constructor(
    readonly link: Link,
    readonly direction: Direction,
    readonly target: () => Socket,
  ) {
    this.#splitter = new FrameSplitter({ framed: link.proxy.target.framed ?? true });
  }

  readFrom(source: Socket): void {
    this.#source = source;
    source.on('data', (chunk: Buffer) => {
      for (const bytes of this.#splitter.push(chunk)) this.#hold({ kind: 'piece', bytes });
    });
    source.on('end', () => {
      const bytes = this.#splitter.flush();
      if (bytes.length > 0) this.#hold({ kind: 'piece', bytes });
      this.#hold({ kind: 'end' });
    });
    source.on('error', () => this.#hold({ kind: 'broken' }));
  }

  inject(bytes: Buffer): void {
    this.target().write(bytes);
  }

  drop(): void {
    clearTimeout(this.#timer);
    this.#queue.length = 0;
    this.heldBytes = 0;
  }

  /** Passes on what may pass, in order, one write at a time. */
  pump(): void {
    clearTimeout(this.#timer);
    if (this.#writing || this.link.proxy.isPaused(this.direction)) return;
    const next = this.#queue[0];
    if (!next) return;
    const wait = next.dueAt - performance.now();
    if (wait > 0) {
      this.#timer = setTimeout(() => this.pump(), Math.ceil(wait));
      return;
    }
    this.#queue.shift();
    if (next.kind === 'broken') return this.link.destroy(true);
    if (next.kind === 'end') {
      this.target().end();
      // Both sides have said all they had to say.
      if (this.target().readableEnded) this.link.destroy();
      return;
    }
    this.#pass(next.bytes);
  }

  #hold(what: { kind: 'piece'; bytes: Buffer } | { kind: 'end' } | { kind: 'broken' }): void {
    this.#queue.push({ ...what, dueAt: performance.now() + this.link.proxy.delayOf(this.direction) });
    if (what.kind === 'piece') this.heldBytes += what.bytes.length;
    if (this.heldBytes > HELD_BYTES_MAX) this.#source?.pause();
    this.pump();
  }

  #pass(bytes: Buffer): void {
    const { link, direction } = this;
    this.heldBytes -= bytes.length;
    if (this.heldBytes <= HELD_BYTES_MAX) this.#source?.resume();
    const ambush = link.proxy.springs(link, direction, bytes);
    if (ambush && ambush.kind !== 'cutMidFrame') {
      link.destroy();
      ambush.sprung();
      return;
    }
    const passing = ambush ? firstHalf(bytes) : link.proxy.rewritten(link, direction, bytes);
    this.#writing = true;
    this.target().write(passing, () => {
      this.#writing = false;
      link.proxy.counters.bytes[direction] += passing.length;
      if (ambush) {
        link.destroy();
        ambush.sprung();
        return;
      }
      this.pump();
    });
    if (direction === 'toZooKeeper') link.established = true;
  }
}

function firstHalf(bytes: Buffer): Buffer {
  return bytes.subarray(0, Math.max(1, Math.floor(bytes.length / 2)));
}
