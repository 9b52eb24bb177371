/**
 * A ZooKeeper server that is none: it speaks the handshake, answers as a test's script says, and records what it was
 * sent. For what a real server cannot be made to do: half frames, wrong session ids, silence, codes that nobody knows.
 *
 *   await using server = await FakeServer.start({ onRequest: (request) => request.reply({ error: -127 }) });
 *
 * A script answers the handshake in `onHandshake` and requests in `onRequest`; what it does not take (it returns
 * nothing, and no reply was made) gets the answer of a healthy, empty server.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server as NetServer, type Socket } from 'node:net';
import { OPCODE } from '../../../src/zookeeper/operations.js';
import { Reader, Writer } from '../../../src/zookeeper/connection/wire.js';

export interface Script {
  /** What a client gets that asks for a session; default: what it asked for. */
  sessionTimeoutMs?: number;
  /** Return true when the handshake is answered (or is not to be). */
  onHandshake?(handshake: Handshake): boolean | void;
  /** Return true when the request is not to be answered in the usual way. */
  onRequest?(request: FakeRequest): boolean | void;
  /** Where to listen; default 127.0.0.1. */
  host?: string;
}

export interface ReplyOptions {
  zxid?: number;
  error?: number;
  body?: Buffer;
}

export class FakeServer implements AsyncDisposable {
  readonly connections: FakeConnection[] = [];
  /** All requests of all connections, pings apart, in order of arrival. */
  readonly received: FakeRequest[] = [];
  readonly handshakes: Handshake[] = [];
  pings = 0;
  zxid = 100;
  nextSessionId = 0x1001n;
  readonly #server: NetServer;

  private constructor(readonly script: Script) {
    this.#server = createServer({ noDelay: true }, (socket) => this.connections.push(new FakeConnection(this, socket)));
  }

  static async start(script: Script = {}): Promise<FakeServer> {
    const fake = new FakeServer(script);
    fake.#server.listen(0, script.host ?? '127.0.0.1');
    await once(fake.#server, 'listening');
    return fake;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get connectString(): string {
    const host = this.script.host ?? '127.0.0.1';
    return `${host.includes(':') ? `[${host}]` : host}:${this.port}`;
  }

  /** The newest connection. */
  get connection(): FakeConnection {
    const last = this.connections.at(-1);
    if (last === undefined) throw new Error('nobody has connected yet');
    return last;
  }

  /** Opcodes of the requests of one connection, pings apart. */
  opcodes(connection = this.connection): number[] {
    return this.received.filter((request) => request.connection === connection).map((request) => request.opcode);
  }

  cut(): void {
    for (const connection of this.connections) connection.close();
  }

  /** Goes away: nothing listens on the port any more. */
  async stop(): Promise<void> {
    this.cut();
    if (!this.#server.listening) return;
    await new Promise<void>((done) => this.#server.close(() => done()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

export class FakeConnection {
  readonly openedAt = performance.now();
  #rest: Buffer = Buffer.alloc(0);
  #established = false;

  constructor(
    readonly server: FakeServer,
    readonly socket: Socket,
  ) {
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => this.#onData(chunk));
  }

  send(...buffers: Buffer[]): void {
    this.socket.write(Buffer.concat(buffers));
  }

  close(): void {
    this.socket.destroy();
  }

  /** From now on it takes everything and says nothing. */
  fallSilent(): void {
    this.socket.removeAllListeners('data');
    this.socket.resume();
  }

  #onData(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    while (this.#rest.length >= 4) {
      const end = 4 + this.#rest.readInt32BE(0);
      if (this.#rest.length < end) return;
      const frame = this.#rest.subarray(4, end);
      this.#rest = this.#rest.subarray(end);
      if (this.#established) this.#onRequest(frame);
      else this.#onHandshake(frame);
    }
  }

  #onHandshake(frame: Buffer): void {
    this.#established = true;
    const handshake = new Handshake(this, frame);
    this.server.handshakes.push(handshake);
    if (this.server.script.onHandshake?.(handshake) !== true && !handshake.answered) handshake.accept();
  }

  #onRequest(frame: Buffer): void {
    const request = new FakeRequest(this, frame);
    if (request.opcode === OPCODE.ping) this.server.pings += 1;
    else this.server.received.push(request);
    if (this.server.script.onRequest?.(request) !== true && !request.answered) request.answer();
  }
}

export class Handshake {
  readonly lastZxid: number;
  readonly timeoutMs: number;
  readonly sessionId: bigint;
  answered = false;

  constructor(
    readonly connection: FakeConnection,
    frame: Buffer,
  ) {
    const reader = new Reader(frame);
    reader.int();
    this.lastZxid = reader.long();
    this.timeoutMs = reader.int();
    this.sessionId = reader.bigLong();
  }

  /** As a healthy server: a new session for 0, the same id for a resume. */
  accept(answer: Partial<SessionAnswer> = {}): void {
    this.answered = true;
    const { server } = this.connection;
    const id = this.sessionId === 0n ? server.nextSessionId++ : this.sessionId;
    this.connection.send(
      connectResponse({ timeoutMs: server.script.sessionTimeoutMs ?? this.timeoutMs, id, ...answer }),
    );
  }

  expire(): void {
    this.accept({ timeoutMs: 0, id: 0n });
  }
}

export class FakeRequest {
  readonly xid: number;
  readonly opcode: number;
  /** The first string of the body, where the request has one. */
  readonly path: string;
  readonly body: Buffer;
  readonly at = performance.now();
  answered = false;

  constructor(
    readonly connection: FakeConnection,
    frame: Buffer,
  ) {
    this.xid = frame.readInt32BE(0);
    this.opcode = frame.readInt32BE(4);
    this.body = frame.subarray(8);
    this.path = PATH_FIRST.has(this.opcode) ? new Reader(this.body).string() : '';
  }

  reply(options: ReplyOptions = {}): void {
    this.answered = true;
    this.connection.send(reply(this.xid, { zxid: ++this.connection.server.zxid, ...options }));
  }

  /** The answer of a healthy server on which every node exists, is empty, and has no children. */
  answer(): void {
    switch (this.opcode) {
      case OPCODE.create:
      case OPCODE.createContainer:
        return this.reply({ body: Buffer.concat([new Writer().string(this.path).finish(), stat()]) });
      case OPCODE.exists:
      case OPCODE.setData:
        return this.reply({ body: stat() });
      case OPCODE.getData:
      case OPCODE.getChildren:
        return this.reply({ body: Buffer.concat([new Writer().int(0).finish(), stat()]) });
      case OPCODE.sync:
        return this.reply({ body: new Writer().string(this.path).finish() });
      default:
        return this.reply();
    }
  }
}

const PATH_FIRST: ReadonlySet<number> = new Set([
  OPCODE.create,
  OPCODE.createContainer,
  OPCODE.delete,
  OPCODE.exists,
  OPCODE.getData,
  OPCODE.setData,
  OPCODE.getChildren,
  OPCODE.sync,
  OPCODE.removeWatches,
  OPCODE.addWatch,
]);

export interface SessionAnswer {
  timeoutMs: number;
  id: bigint;
  password: Buffer;
  /** Servers since 3.4 append it; defect 28. */
  readOnly: boolean | undefined;
}

export function connectResponse({
  timeoutMs = 3_000,
  id = 1n,
  password = Buffer.alloc(16, 7),
  readOnly = false,
}: Partial<SessionAnswer>): Buffer {
  const writer = new Writer().int(0).int(timeoutMs);
  const idBytes = Buffer.alloc(8);
  idBytes.writeBigInt64BE(id);
  writer.raw(idBytes).bytes(password);
  if (readOnly !== undefined) writer.boolean(readOnly);
  return frame(writer.finish());
}

export function reply(xid: number, { zxid = 1, error = 0, body = Buffer.alloc(0) }: ReplyOptions = {}): Buffer {
  return frame(new Writer().int(xid).long(zxid).int(error).raw(body).finish());
}

/** @param type 1 created, 2 deleted, 3 changed, 4 children */
export function notification(type: number, path: string, zxid = -1): Buffer {
  return reply(-1, { zxid, body: new Writer().int(type).int(3).string(path).finish() });
}

export function stat({ version = 0, czxid = 1, mtime = Date.now() } = {}): Buffer {
  const writer = new Writer().long(czxid).long(czxid).long(mtime).long(mtime).int(version).int(0).int(0);
  return Buffer.from(writer.long(0).int(0).int(0).long(czxid).finish());
}

export function frame(body: Buffer): Buffer {
  return Buffer.concat([new Writer(4).int(body.length).finish(), body]);
}
