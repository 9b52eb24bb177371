/** The parts of node-zookeeper-client 1.1.3 that the gateway uses. It ships no types and documents no inner modules. */

declare module 'node-zookeeper-client/lib/ConnectionManager.js' {
  import type { EventEmitter } from 'node:events';
  import type { Socket } from 'node:net';

  interface ConnectionManagerServer {
    host: string;
    port: number | string;
  }

  class ConnectionManager extends EventEmitter {
    static readonly STATES: Readonly<{
      DISCONNECTED: 0;
      CONNECTING: 1;
      CONNECTED: 2;
      CONNECTED_READ_ONLY: 3;
      CLOSING: -1;
      CLOSED: -2;
      SESSION_EXPIRED: -3;
      AUTHENTICATION_FAILED: -4;
    }>;
    constructor(
      connectionString: string,
      options: {
        sessionTimeout: number;
        spinDelay: number;
        retries: number;
        sessionId?: Buffer;
        sessionPassword?: Buffer;
      },
      stateListener: (state: number) => void,
    );
    servers: ConnectionManagerServer[];
    nextServerIndex: number;
    serverAttempts: number;
    state: number;
    socket: Socket | undefined;
    xid: number;
    zxid: Buffer;
    sessionId: Buffer;
    sessionPassword: Buffer;
    sessionTimeout: number;
    connectTimeout: number;
    pingTimeout: number;
    connectTimeoutHandler: NodeJS.Timeout | null;
    pendingBuffer: Buffer | null;
    credentials: { scheme: string; auth: Buffer }[];
    updateTimeout(sessionTimeout: number): void;
    setState(state: number): void;
    getSessionId(): Buffer;
    getSessionPassword(): Buffer;
    getSessionTimeout(): number;
    connect(): void;
    close(): void;
    findNextServer(callback: (server: ConnectionManagerServer) => void): void;
    queue(request: unknown, callback?: (error: unknown, response?: unknown) => void): void;
    addAuthInfo(scheme: string, auth: Buffer): void;
    onSocketConnected(): void;
    onSocketConnectTimeout(): void;
    onSocketData(data: Buffer): void;
    onSocketDrain(): void;
    onSocketClosed(hadError: boolean): void;
    onSocketError(error: Error): void;
    onSocketTimeout(): void;
    onPacketQueueReadable(): void;
  }
  export default ConnectionManager;
}

declare module 'node-zookeeper-client/lib/jute/index.js' {
  interface JuteRecord {
    serialize(buffer: Buffer, offset: number): number;
    deserialize(buffer: Buffer, offset: number): number;
    byteLength(): number;
  }
  interface ConnectResponse extends JuteRecord {
    protocolVersion: number;
    timeOut: number;
    sessionId: Buffer;
    passwd: Buffer;
  }
  const jute: {
    PROTOCOL_VERSION: number;
    XID_NOTIFICATION: -1;
    XID_PING: -2;
    XID_AUTHENTICATION: -4;
    OP_CODES: Readonly<Record<string, number>>;
    Request: new (header: JuteRecord | null, payload: JuteRecord | null) => { toBuffer(): Buffer };
    protocol: {
      ConnectRequest: new (
        protocolVersion: number,
        lastZxidSeen: Buffer,
        timeOut: number,
        sessionId: Buffer,
        passwd: Buffer,
      ) => JuteRecord;
      ConnectResponse: new () => ConnectResponse;
      RequestHeader: new (xid?: number, type?: number) => JuteRecord & { xid: number; type: number };
      AuthPacket: new (type?: number, scheme?: string, auth?: Buffer) => JuteRecord;
    };
  };
  export default jute;
}

declare module 'node-zookeeper-client/lib/Path.js' {
  const path: { validate(path: string): void };
  export default path;
}

declare module 'node-zookeeper-client' {
  interface Id {
    scheme: string;
    id: string;
  }
  interface Acl {
    permission: number;
    id: Id;
  }
  const zookeeper: {
    createClient: (...args: unknown[]) => unknown;
    ACL: { OPEN_ACL_UNSAFE: Acl[]; CREATOR_ALL_ACL: Acl[]; READ_ACL_UNSAFE: Acl[] };
    CreateMode: Readonly<{ PERSISTENT: 0; PERSISTENT_SEQUENTIAL: 2; EPHEMERAL: 1; EPHEMERAL_SEQUENTIAL: 3 }>;
    Exception: Readonly<Record<string, number>>;
  };
  export type { Acl };
  export default zookeeper;
}
