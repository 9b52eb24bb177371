/**
 * A plain ZooKeeper session with as little on top as possible: requests are written when they are made and answered in
 * order, many may be under way. The records are written and cut by src/zookeeper; its sessions, deadlines and
 * reconnects are not used, because what ZooKeeper itself can do is what this is for.
 */
import { connect, type Socket } from 'node:net';
import { FrameReader } from '../../src/zookeeper/connection/frames.js';
import { Reader, Writer } from '../../src/zookeeper/connection/wire.js';

const HOST = '127.0.0.1';
const OPCODE = { create: 1, delete: 2, exists: 3, getChildren: 8, ping: 11 } as const;
const PING_XID = -2;
const EVENT_XID = -1;
const PASSWORD_BYTES = 16;
const ALL_PERMISSIONS = 31;
const PINGS_PER_TIMEOUT = 3;

export const FLAGS = { persistent: 0, ephemeral: 1, persistentSequential: 2, ephemeralSequential: 3 } as const;

/** Codes of KeeperException that the workloads expect. */
export const CODE = { ok: 0, noNode: -101, nodeExists: -110 } as const;

export interface Reply {
  readonly code: number;
  readonly reader: Reader;
}

export class ZooKeeperConnection {
  readonly #socket: Socket;
  readonly #frames = new FrameReader();
  readonly #waiting: ((reply: Reply) => void)[] = [];
  readonly #watchers = new Map<string, () => void>();
  #connected: ((timeoutMs: number) => void) | undefined;
  #pings: NodeJS.Timeout | undefined;
  #xid = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk) => {
      for (const frame of this.#frames.push(chunk)) this.#onFrame(frame);
    });
  }

  static open(port: number, timeoutMs = 60_000): Promise<ZooKeeperConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: HOST });
      socket.once('error', reject);
      const connection = new ZooKeeperConnection(socket);
      connection.#connected = (granted) => {
        connection.#pings = setInterval(() => connection.#ping(), granted / PINGS_PER_TIMEOUT).unref();
        resolve(connection);
      };
      const hello = new Writer().int(0).int(0).long(0).int(timeoutMs).long(0).bytes(Buffer.alloc(PASSWORD_BYTES));
      socket.once('connect', () => socket.write(hello.boolean(false).finishFrame()));
    });
  }

  close(): void {
    clearInterval(this.#pings);
    this.#socket.destroy();
  }

  /** @returns the path that was made, or a code */
  async create(path: string, flags: number, data: Buffer = Buffer.alloc(0)): Promise<string | number> {
    const { code, reader } = await this.#request(OPCODE.create, (writer) =>
      writer.string(path).bytes(data).int(1).int(ALL_PERMISSIONS).string('world').string('anyone').int(flags),
    );
    return code === CODE.ok ? reader.string() : code;
  }

  async delete(path: string): Promise<number> {
    return (await this.#request(OPCODE.delete, (writer) => writer.string(path).int(-1))).code;
  }

  async getChildren(path: string): Promise<string[]> {
    const { code, reader } = await this.#request(OPCODE.getChildren, (writer) => writer.string(path).boolean(false));
    if (code !== CODE.ok) throw new Error(`the children of ${path} were refused with ${code}`);
    return Array.from({ length: reader.int() }, () => reader.string());
  }

  /** @param onEvent called once, at the next change of a node that exists; nothing is watched when there is none */
  async existsAndWatch(path: string, onEvent: () => void): Promise<boolean> {
    this.#watchers.set(path, onEvent);
    const { code } = await this.#request(OPCODE.exists, (writer) => writer.string(path).boolean(true));
    return code === CODE.ok;
  }

  #request(opcode: number, write: (writer: Writer) => Writer): Promise<Reply> {
    this.#xid += 1;
    this.#socket.write(write(new Writer().int(0).int(this.#xid).int(opcode)).finishFrame());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #ping(): void {
    this.#socket.write(new Writer().int(0).int(PING_XID).int(OPCODE.ping).finishFrame());
  }

  #onFrame(frame: Buffer): void {
    const reader = new Reader(frame);
    const xid = reader.int();
    if (this.#connected !== undefined) {
      // The first frame is the answer to the handshake: a protocol version, then the granted timeout.
      this.#connected(reader.int());
      this.#connected = undefined;
      return;
    }
    reader.long(); // zxid
    const code = reader.int();
    if (xid === PING_XID) return;
    if (xid === EVENT_XID) {
      reader.int(); // type
      reader.int(); // state
      const path = reader.string();
      const watcher = this.#watchers.get(path);
      this.#watchers.delete(path);
      watcher?.();
      return;
    }
    this.#waiting.shift()?.({ code, reader });
  }
}
