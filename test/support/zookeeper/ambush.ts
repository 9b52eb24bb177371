/**
 * Faults of the proxy that wait for one exact frame.
 */
import { replyXid, requestHeader } from './frames.js';

export type Direction = 'toZooKeeper' | 'fromZooKeeper';

/** A fault that waits for its moment. */
export interface Ambush {
  kind: 'loseReply' | 'loseRequest' | 'cutMidFrame';
  direction: Direction;
  opcodes: readonly number[];
  sprung: () => void;
}

/** What an ambush looks at of a connection. */
export interface Ambushed {
  /** The client's first frame, the handshake, has passed: what follows has a header. */
  readonly established: boolean;
  /** Requests whose answer is to be lost: ambush to xid. */
  readonly doomed: Map<Ambush, number>;
}

/** Whether this piece is the one that the ambush waits for. */
export function triggers(ambush: Ambush, link: Ambushed, direction: Direction, piece: Buffer): boolean {
  switch (ambush.kind) {
    case 'cutMidFrame':
      return direction === ambush.direction;
    case 'loseRequest': {
      if (direction !== 'toZooKeeper' || !link.established) return false;
      const header = requestHeader(piece);
      return header !== undefined && ambush.opcodes.includes(header.opcode);
    }
    case 'loseReply': {
      const header = link.established ? requestHeader(piece) : undefined;
      if (direction === 'toZooKeeper') {
        // Remembers whose answer to lose; the ambush stays for it.
        if (header && ambush.opcodes.includes(header.opcode)) link.doomed.set(ambush, header.xid);
        return false;
      }
      const doomed = link.doomed.get(ambush);
      return doomed !== undefined && replyXid(piece) === doomed;
    }
  }
}
