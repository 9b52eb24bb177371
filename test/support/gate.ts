/** Holds back one operation of a real session, where a test must decide what happens meanwhile. */
import { ZooKeeperClient } from '../../src/zookeeper/client.js';

/** Shut once, it stops who comes next until it is opened. */
export class Gate {
  open: () => void = () => undefined;
  reached: Promise<void> = Promise.resolve();
  #waiting: { opened: Promise<void>; arrive: () => void } | undefined;

  shut(): void {
    const opened = new Promise<void>((resolve) => (this.open = resolve));
    this.reached = new Promise((resolve) => (this.#waiting = { opened, arrive: resolve }));
  }

  async pass(): Promise<void> {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.arrive();
    await waiting?.opened;
  }
}

/** The object itself, with some of its members replaced; of a session also for whoever asks it until a deadline. */
export function intercepted<T extends object>(target: T, members: Partial<T>): T {
  const proxy: T = new Proxy(target, {
    get: (_, name) => {
      if (name in members) return members[name as keyof T];
      if (name === 'until') return ZooKeeperClient.prototype.until.bind(proxy as unknown as ZooKeeperClient);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  return proxy;
}

/** The object itself, with what one of its methods answers waiting at the gate. */
export function answeringBehind<
  K extends PropertyKey,
  T extends object & Record<K, (...how: never[]) => Promise<unknown>>,
>(gate: Gate, target: T, method: K): T {
  const answering = async (...how: never[]): Promise<unknown> => {
    const answer = await target[method](...how);
    await gate.pass();
    return answer;
  };
  return intercepted(target, { [method]: answering } as Partial<T>);
}
