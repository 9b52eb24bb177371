/** Holds back one operation of a real session, where a test must decide what happens meanwhile. */

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

/** The object itself, with some of its members replaced. */
export function intercepted<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get: (_, name) => {
      if (name in members) return members[name as keyof T];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
