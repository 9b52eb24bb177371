/**
 * Resolves the names of queues. One watch per queue in use tells when it is reconfigured or deleted; after a second
 * without use, queue and watch are dropped.
 *
 * A queue is created in one transaction, by a push to a new name or by its configuration; of two concurrent ones, one
 * finds that the other was faster.
 */
import { PosternError } from '../../errors.js';
import { fullJitter, pause, SECOND, type Requester } from '../../time.js';
import type { ZooKeeperClient } from '../../zookeeper/client.js';
import { byDeadline } from '../../zookeeper/by-deadline.js';
import { isReason, isTransient, unless } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import type { ReadNode } from '../../zookeeper/read-nodes.js';
import { retrying } from '../../zookeeper/retrying.js';
import type { Watch } from '../../zookeeper/watch.js';
import type { Coordination } from '../coordination.js';
import { inTurn, type NameTurn } from '../name-turn.js';
import { MessageReads } from './claim/message-reads.js';
import { OpenQueue } from './open-queue.js';
import type { OtherQueues, Queue } from './queue.js';
import { decodeQueue, DEFAULT_CONFIG, encodeQueue, newQueueId, type FoundQueue, type QueueConfig } from './config.js';
import { PRIORITY_DEFAULT, QueuePaths } from './paths.js';
import { createPriority } from './push/tails.js';

interface Entry {
  queue: OpenQueue;
  /** Undefined once it has fired: the node has to be read again. */
  watch: Watch | undefined;
}

/** Unused so long, a queue is dropped from memory; its view of the messages goes earlier (`dispatcher.ts`). */
const IDLE_MS = SECOND;
const SWEEP_EVERY_MS = SECOND / 2;
const REFRESH_MS = 5 * SECOND;
/** For so long a reading that several requests share waits for ZooKeeper. */
const READ_MS = 10 * SECOND;
const RETRY_BASE_MS = 5;
const RETRY_CAP_MS = 500;
/** Names remembered, for the metrics. */
const USED_MAX = 1_000;

export class Queues implements OtherQueues {
  readonly messages: MessageReads;
  readonly #context: Coordination;
  readonly #entries = new Map<string, Entry>();
  /** By path, least recently used first. */
  readonly #used = new Map<string, { namespace: string; name: string; at: number }>();
  readonly #reading = new Map<string, Promise<Entry | undefined>>();
  #sweeping: NodeJS.Timeout | undefined;
  #closed = false;

  /** @param maxMessageBytes of the largest body */
  constructor(context: Coordination, maxMessageBytes: number) {
    this.#context = context;
    this.messages = new MessageReads(maxMessageBytes);
  }

  /** Those that requests to this replica were about within the last `ms`, as far as is remembered. */
  usedWithin(ms: number): { namespace: string; name: string }[] {
    const since = performance.now() - ms;
    return [...this.#used.values()].filter(({ at }) => at >= since);
  }

  /** @returns undefined when there is no queue of that name */
  find(namespace: string, name: string, deadline: number): Promise<Queue | undefined> {
    const path = this.#context.layout.queue(namespace, name);
    this.#used.delete(path);
    this.#used.set(path, { namespace, name, at: performance.now() });
    const [oldest] = this.#used.keys();
    if (this.#used.size > USED_MAX && oldest !== undefined) this.#used.delete(oldest);
    return this.look(namespace, name, deadline);
  }

  /** As `find`, for this replica's own purposes: nobody has asked for the queue. */
  async look(namespace: string, name: string, deadline: number): Promise<Queue | undefined> {
    const path = this.#context.layout.queue(namespace, name);
    const known = this.#entries.get(path);
    if (known?.watch !== undefined) {
      known.queue.usedAt = performance.now();
      return known.queue;
    }
    // One that has more time than others share it with reads on, and one that has less does not wait for them.
    const reading = (): Promise<Entry | undefined> =>
      byDeadline(this.#sharedReading(path, namespace, name), deadline, 'the reading of the queue');
    return (await retrying(deadline, reading, (error) => isTransient(error) && !this.#closed))?.queue;
  }

  /** What a queue of that name would be. */
  unmade(namespace: string, name: string): Pick<Queue, 'name' | 'config' | 'paths'> {
    return {
      name,
      config: DEFAULT_CONFIG,
      paths: new QueuePaths(this.#context.layout.queueData(namespace, newQueueId())),
    };
  }

  /** Whether what is known of it here was not what it is: then it is known now, or gone. */
  async isOutdated(queue: Queue, deadline: number): Promise<boolean> {
    const { control, layout } = this.#context;
    const path = layout.queue(queue.namespace, queue.name);
    const before = queue.config;
    await retrying(deadline, () => control.sync(path, deadline)); // the event of what changed it comes before the reply
    const entry = this.#entries.get(path);
    if (entry?.queue === queue && entry.watch !== undefined) return false;
    return (await this.find(queue.namespace, queue.name, deadline)) !== queue || queue.config !== before;
  }

  async isCurrent(queue: Queue, deadline: number): Promise<boolean> {
    return (await this.find(queue.namespace, queue.name, deadline)) === queue;
  }

  async openOrCreate(namespace: string, name: string, deadline: number, requester?: Requester): Promise<Queue> {
    const control = requester === undefined ? this.#context.control : this.#context.control.writingFor(requester);
    for (let tries = 0; ; tries += 1) {
      const queue = await this.find(namespace, name, deadline);
      if (queue !== undefined) return queue;
      try {
        await inTurn(this.turnOf(namespace, name, control, deadline), (turn) =>
          this.create(namespace, name, DEFAULT_CONFIG, { control, turn, deadline }),
        );
      } catch (error) {
        // Whether it was made is seen by looking; nothing was pushed yet.
        if (!isTransient(error)) throw error;
        await pause(fullJitter(tries, RETRY_BASE_MS, RETRY_CAP_MS));
      }
    }
  }

  /** @throws PosternError `not-found` */
  async expect(namespace: string, name: string, deadline: number): Promise<Queue> {
    const queue = await this.find(namespace, name, deadline);
    if (queue === undefined)
      throw new PosternError('not-found', `There is no queue "${name}" in namespace "${namespace}".`);
    return queue;
  }

  async reopen(queue: Queue, deadline: number): Promise<void> {
    const path = this.#context.layout.queue(queue.namespace, queue.name);
    const entry = this.#entries.get(path);
    if (entry?.queue === queue) this.#drop(path, entry);
    await retrying(deadline, () => this.#context.control.sync(path, deadline));
  }

  /** Whatever makes, configures or deletes a queue of that name does so in its turn. */
  turnOf(namespace: string, name: string, control: ZooKeeperClient, deadline: number): NameTurn {
    const path = this.#context.layout.queueTurn(namespace, name);
    return { zk: control.until(deadline), path, busy: `Others made, configured and deleted queue "${name}"` };
  }

  /** @returns false when it was there already */
  async create(
    namespace: string,
    name: string,
    config: QueueConfig,
    { control, turn, deadline }: { control: ZooKeeperClient; turn: MultiOperation; deadline: number },
  ): Promise<boolean> {
    const { layout, names } = this.#context;
    await names.admit(layout.queues(namespace), deadline);
    const id = newQueueId();
    const path = layout.queue(namespace, name);
    const paths = new QueuePaths(layout.queueData(namespace, id));
    for (;;) {
      try {
        await control.multi(
          [
            turn,
            { type: 'create', path, data: encodeQueue({ id, config }) },
            { type: 'create', path: paths.data, data: Buffer.from(name) },
            { type: 'create', path: paths.takers },
            { type: 'create', path: paths.pushers },
            { type: 'create', path: paths.delayed },
            { type: 'create', path: paths.dedup },
            { type: 'create', path: paths.nacks },
            ...createPriority(paths, PRIORITY_DEFAULT),
          ],
          deadline,
        );
        return true;
      } catch (error) {
        if (isReason(error, 'NODE_EXISTS')) return false;
        if (!isReason(error, 'NO_NODE')) throw error;
        await control.ensurePath(layout.queues(namespace), deadline);
        await control.ensurePath(layout.queueContents(namespace), deadline);
      }
    }
  }

  /** Reads what a name stands for now. Whoever changes it does so at the version read. */
  async read(namespace: string, name: string, deadline: number): Promise<FoundQueue | undefined> {
    const { control, layout } = this.#context;
    const path = layout.queue(namespace, name);
    return foundIn(name, await control.readLatest(() => unless(control.getData(path, deadline), 'NO_NODE'), deadline));
  }

  /** Calls `listener` once when a queue of that name may have appeared. @returns undefined when there is one */
  async appearance(
    namespace: string,
    name: string,
    listener: () => void,
    deadline: number,
  ): Promise<Watch | undefined> {
    const path = this.#context.layout.queue(namespace, name);
    const { value, watch } = await this.#context.control.watches.exists(path, listener, deadline);
    if (value === undefined) return watch;
    watch?.cancel();
    return undefined;
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#sweeping);
    for (const [path, entry] of this.#entries) this.#drop(path, entry);
  }

  #sharedReading(path: string, namespace: string, name: string): Promise<Entry | undefined> {
    let reading = this.#reading.get(path);
    if (reading === undefined) {
      reading = this.#read(path, namespace, name, performance.now() + READ_MS).finally(() =>
        this.#reading.delete(path),
      );
      this.#reading.set(path, reading);
    }
    return reading;
  }

  async #read(path: string, namespace: string, name: string, deadline: number): Promise<Entry | undefined> {
    const { control } = this.#context;
    let changed = false;
    const onChange = (): void => {
      changed = true;
      const entry = this.#entries.get(path);
      if (entry === undefined) return;
      entry.watch = undefined;
      this.#refresh(entry.queue);
    };
    let node = await control.watches.getData(path, onChange, deadline);
    if (node.value === undefined) {
      // This server may be behind the one that made it, or follow a leader that was replaced before (protocol C37).
      await control.readLatest(() => Promise.resolve(), deadline);
      node = await control.watches.getData(path, onChange, deadline);
    }
    const known = this.#entries.get(path);
    const forget = (): void => {
      node.watch?.cancel();
      if (known !== undefined) this.#drop(path, known);
    };
    let found: FoundQueue | undefined;
    try {
      found = foundIn(name, node.value);
    } catch (error) {
      forget(); // nobody goes on with what it was
      throw error;
    }
    if (found === undefined || this.#closed) {
      forget();
      return undefined;
    }
    const { id } = found.record;
    if (known !== undefined && known.queue.id !== id) this.#drop(path, known);
    const queue = known?.queue.id === id ? known.queue : new OpenQueue(this.#context, this, { namespace, name }, found);
    queue.learn(found);
    queue.usedAt = performance.now();
    const entry = { queue, watch: changed ? undefined : node.watch };
    this.#entries.set(path, entry);
    this.#sweeping ??= setInterval(() => this.#sweep(), SWEEP_EVERY_MS).unref();
    return entry;
  }

  /**
   * Those who wait at a queue learn that it was deleted, or is configured otherwise, though nobody asks for it by its
   * name.
   */
  #refresh({ namespace, name }: Queue): void {
    if (this.#closed) return;
    this.look(namespace, name, performance.now() + REFRESH_MS).catch(() => undefined); // the sweep tries again
  }

  #sweep(): void {
    const now = performance.now();
    for (const [path, entry] of this.#entries) {
      if (entry.queue.busy) {
        entry.queue.usedAt = now;
        if (entry.watch === undefined) this.#refresh(entry.queue);
      } else if (now - entry.queue.usedAt > IDLE_MS) this.#drop(path, entry);
    }
    if (this.#entries.size > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }

  #drop(path: string, entry: Entry): void {
    if (this.#entries.get(path) === entry) this.#entries.delete(path);
    entry.watch?.cancel();
    entry.queue.close();
  }
}

/** @throws NewerRecordError */
function foundIn(name: string, node: ReadNode | undefined): FoundQueue | undefined {
  const record = node === undefined ? undefined : decodeQueue(name, node.data);
  return node === undefined || record === undefined ? undefined : { record, version: node.stat.version };
}
