/**
 * What answers have told about a thing, such as the `holdId` of a lock or the ids of claimed messages: the example
 * bodies of later requests to the same thing are filled in with it, so that a release releases what was acquired.
 */

type Members = Record<string, unknown>;

export class Learned {
  /** Called after each change. */
  readonly listeners: (() => void)[] = [];
  readonly #things = new Map<string, Members>();

  /** @param text an answer about what `path` names */
  take(path: string, text: string): void {
    const answer = objectOf(text);
    if (answer === undefined) return;
    this.#things.set(thingOf(path), { ...this.#things.get(thingOf(path)), ...answer, ...claimsOf(answer) });
    for (const listener of this.listeners) listener();
  }

  /** @returns the body with the members that are known; any other body as it is */
  fill(path: string, body: string): string {
    const [example, known] = [objectOf(body), this.#things.get(thingOf(path))];
    if (example === undefined || known === undefined) return body;
    const filled = Object.entries(example).map(([name, value]) => [name, isId(name) ? (known[name] ?? value) : value]);
    return JSON.stringify(Object.fromEntries(filled));
  }
}

/** Values are the caller's to choose, ids are not. */
function isId(name: string): boolean {
  return ['holdId', 'candidateId', 'claimIds', 'fencingToken'].includes(name);
}

function claimsOf({ messages }: Members): Members {
  if (!Array.isArray(messages)) return {};
  const claimIds = (messages as Members[]).flatMap(({ claimId }) => (typeof claimId === 'string' ? [claimId] : []));
  return claimIds.length === 0 ? {} : { claimIds };
}

/** `/v1/locks/backup/acquire` is about `/v1/locks/backup`. */
function thingOf(path: string): string {
  return path.split('?', 1).join('').split('/').slice(0, 4).join('/');
}

function objectOf(text: string): Members | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : undefined;
  } catch {
    return undefined;
  }
}
