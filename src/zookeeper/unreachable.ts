/**
 * Why a replica does not reach ZooKeeper, server by server: reported once each server was tried in vain, and repeatedly
 * while that lasts.
 */
const TELL_EVERY_MS = 30_000;

export class Unreachable {
  readonly #tell: (failures: readonly string[]) => void;
  /** The latest failure of each server since the last connection. */
  readonly #failures = new Map<string, string>();
  readonly #servers: number;
  #toldAt: number | undefined;

  /**
   * @param servers how many there are
   * @param tell called with one text per server: its address and the cause
   */
  constructor(servers: number, tell: (failures: readonly string[]) => void) {
    this.#servers = servers;
    this.#tell = tell;
  }

  /**
   * @param server `host:port`
   * @param now on the monotonic clock
   */
  failed(server: string, cause: string, now = performance.now()): void {
    this.#failures.set(server, cause);
    if (this.#failures.size < this.#servers) return; // the others may serve
    if (this.#toldAt !== undefined && now - this.#toldAt < TELL_EVERY_MS) return;
    this.#toldAt = now;
    this.#tell(this.failures);
  }

  reached(): void {
    this.#failures.clear();
    this.#toldAt = undefined;
  }

  get failures(): readonly string[] {
    return [...this.#failures].map(([server, cause]) => `${server}: ${cause}`);
  }
}
