/**
 * Bounds the connections of clients, and chooses which one ends when another one comes.
 *
 * Anybody can open connections without a credential and leave them open, and a caller with one may open any number. One
 * client could take all of them for as long as idle ones are kept, and clients that heartbeat over new connections
 * would lose their leases. If all are taken, a newcomer therefore replaces a connection without a request in progress:
 * the one quiet for longest among those that are nobody's, else among those of the principal with the most. If all have
 * requests in progress, it replaces the longest wait of a principal with more than half of them.
 *
 *   opened ──▶ nobody's ◀──its last request was public, or refused── somebody's
 *                 └──────────request authorized──────────▶ somebody's, until then
 *
 *   quiet ──request authorized and read to its end──▶ occupied ──answer ended──▶ quiet
 *
 * A connection stays quiet while it serves public requests, which take no time unless the client does not read the
 * answer, and while a body is being sent. A client has its first round trip after the handshake to become somebody, and
 * beyond that the time a stranger takes to open as many connections as there may be.
 */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '../../log.js';
import { createSeldom } from '../../seldom.js';
import { MINUTE } from '../../time.js';

const PLACE = Symbol('place');
type PlacedSocket = Socket & { [PLACE]?: Place | undefined; readonly _parent?: PlacedSocket };

/** @param maxConnections Infinity: any number */
export function boundConnections(server: Server, maxConnections: number, logger: Logger): void {
  const places = new Places(maxConnections);
  const seldom = createSeldom(MINUTE);
  server.on('connection', (socket: PlacedSocket) => {
    const full = places.take(socket);
    if (full !== undefined && seldom(full))
      logger.warn({ maxConnections }, `connection limit reached: ${full} (logged once a minute)`);
  });
  // Requests know the TLS socket only; Node has no public name for the one below.
  server.on('secureConnection', (socket: PlacedSocket) => {
    socket[PLACE] = socket._parent?.[PLACE];
  });
}

/** Call it for each request that begins: its connection is nobody's until it is authorized. */
export function beginRequest(socket: PlacedSocket): void {
  socket[PLACE]?.begin();
}

/**
 * Call it when a request is authorized.
 * @param principal undefined for anonymous callers: the connection is nobody's then, though it may be occupied
 */
export function ownConnection(socket: PlacedSocket, principal: string | undefined): void {
  socket[PLACE]?.own(principal);
}

/**
 * Call it when an authorized request has been read to its end: its connection is not closed for others until the answer
 * has ended.
 */
export function occupyConnection(socket: PlacedSocket): void {
  socket[PLACE]?.occupy();
}

/** Call it when no request of a connection is left to be answered. */
export function restConnection(socket: PlacedSocket): void {
  socket[PLACE]?.rest();
}

/** The principal that owns the connection. */
export function ownerOf(socket: PlacedSocket): string | undefined {
  return socket[PLACE]?.owner;
}

/** A principal, or nobody, with all of their connections. */
class Owner {
  places = 0;
  /** Quiet longest first: a set keeps the order of insertion. */
  readonly quiet = new Set<Place>();
  /** Occupied longest first. */
  readonly occupied = new Set<Place>();
  readonly principal: string | undefined;

  constructor(principal?: string) {
    this.principal = principal;
  }

  get quietest(): Place | undefined {
    return firstOf(this.quiet);
  }
}

class Places {
  readonly nobody = new Owner();
  readonly #max: number;
  readonly #owners = new Map<string, Owner>();
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** @returns what was done, if all were taken */
  take(socket: PlacedSocket): string | undefined {
    let done: string | undefined;
    if (this.#taken >= this.#max) {
      const { quietest } = this.nobody;
      const given = quietest ?? this.#quietestOfMost() ?? this.#occupiedByMost();
      if (given === undefined) {
        socket.destroy();
        return 'refusing new ones';
      }
      given.end();
      done = `closing those of ${quietest === undefined ? 'the principal that has most' : 'nobody'} for new ones`;
    }
    this.#taken += 1;
    const place = new Place(socket, this);
    socket[PLACE] = place;
    socket.on('close', leavePlace);
    return done;
  }

  ownerOf(principal: string | undefined): Owner {
    if (principal === undefined) return this.nobody;
    let owner = this.#owners.get(principal);
    if (owner === undefined) this.#owners.set(principal, (owner = new Owner(principal)));
    return owner;
  }

  left({ principal, places }: Owner): void {
    if (places === 0 && principal !== undefined) this.#owners.delete(principal);
  }

  closed(): void {
    this.#taken -= 1;
  }

  /** Among principals with equally many: the connection quiet for longest. */
  #quietestOfMost(): Place | undefined {
    let [most, found]: [number, Place | undefined] = [0, undefined];
    for (const { places, quietest } of this.#owners.values()) {
      if (quietest === undefined || places < most) continue;
      if (places === most && found !== undefined && found.quietSince <= quietest.quietSince) continue;
      [most, found] = [places, quietest];
    }
    return found;
  }

  /** A wait can be repeated and keeps its place; a client that is kept out loses a lease. */
  #occupiedByMost(): Place | undefined {
    for (const { places, occupied } of this.#owners.values()) if (places > this.#max / 2) return firstOf(occupied);
    return undefined;
  }
}

/** The same function for all connections: there may be very many. */
function leavePlace(this: PlacedSocket): void {
  this[PLACE]?.leave();
}

function firstOf(places: ReadonlySet<Place>): Place | undefined {
  const [first] = places;
  return first;
}

class Place {
  /** Monotonic. */
  quietSince = performance.now();
  readonly #socket: Socket;
  readonly #places: Places;
  #owner: Owner;
  #isAuthorized = false;
  #isOpen = true;

  constructor(socket: Socket, places: Places) {
    this.#socket = socket;
    this.#places = places;
    this.#owner = places.nobody;
    this.#owner.places += 1;
    this.#owner.quiet.add(this);
  }

  get owner(): string | undefined {
    return this.#owner.principal;
  }

  begin(): void {
    this.#isAuthorized = false;
  }

  own(principal: string | undefined): void {
    this.#isAuthorized = true;
    if (principal === this.#owner.principal || !this.#isOpen) return;
    this.#disown();
    this.#enter(this.#places.ownerOf(principal));
  }

  occupy(): void {
    if (!this.#isOpen) return;
    this.#owner.quiet.delete(this);
    this.#owner.occupied.add(this);
  }

  rest(): void {
    if (!this.#isOpen) return;
    this.#disown();
    this.quietSince = performance.now();
    this.#enter(this.#isAuthorized ? this.#owner : this.#places.nobody);
  }

  /** Frees the place at once; Node reports the end later. */
  end(): void {
    this.leave();
    this.#socket.destroy();
  }

  leave(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#disown();
    this.#places.left(this.#owner);
    this.#places.closed();
  }

  #disown(): void {
    this.#owner.places -= 1;
    this.#owner.quiet.delete(this);
    this.#owner.occupied.delete(this);
  }

  #enter(owner: Owner): void {
    const before = this.#owner;
    this.#owner = owner;
    owner.places += 1;
    owner.quiet.add(this);
    this.#places.left(before);
  }
}
