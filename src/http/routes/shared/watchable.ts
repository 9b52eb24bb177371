/** What a stream of many things (`events.ts`) needs of a kind; each kind's routes add it to `Serving.watchables`. */

/** A state, as the stream of that one thing would tell it. */
export interface Told {
  /** Equal ETags mean equal states. */
  readonly etag: string;
  /** In the words of the contract; undefined: there is no such thing. */
  readonly state: unknown;
  /** Whether the list of the kind has it. */
  readonly inUse: boolean;
}

export interface Watchable {
  /** Names of the kind are the children of the directory that this path is in. */
  pathOf(namespace: string, name: string): string;
  /**
   * Calls `tell` with the state as soon as it is known, and with every change, until the returned function is called.
   */
  subscribe(namespace: string, name: string, tell: (told: Told) => void): () => void;
}

/** By kind, as scopes name it. */
export type Watchables = Map<string, Watchable>;
