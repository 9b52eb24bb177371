/**
 * As much of PromQL, and of the text that Prometheus scrapes, as a test needs to see whether a query can find
 * something.
 */

/** Labels that Prometheus gives to what it scrapes. */
const TARGET_LABELS = ['job', 'instance', 'namespace'];

export interface Selector {
  metric: string;
  /** Labels with the value they must equal, or undefined where the matcher is not `=`. */
  matchers: Record<string, string | undefined>;
}

/** Every metric of ours that an expression reads, with its matchers. */
export function selectorsOf(expression: string): Selector[] {
  return [...expression.matchAll(/\b(postern_\w+)\b(?:\{([^}]*)\})?/g)].map(([, metric = '', inside = '']) => ({
    metric,
    matchers: Object.fromEntries(
      [...inside.matchAll(/(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"/g)].map(([, label = '', operator, value]) => [
        label,
        operator === '=' ? value : undefined,
      ]),
    ),
  }));
}

/** The labels that an expression sums or counts by. */
export function groupingOf(expression: string): string[] {
  return [...expression.matchAll(/\bby\s*\(([^)]*)\)/g)].flatMap(([, labels = '']) =>
    labels.split(',').map((label) => label.trim()),
  );
}

/** A page of `/metrics`, as far as it says which series there are. */
export class Exposition {
  /** For each series name the label sets that it has. */
  readonly #series = new Map<string, Record<string, string>[]>();

  constructor(text: string) {
    for (const line of text.split('\n')) {
      const [, name, type] = /^# TYPE (\S+) (\S+)/.exec(line) ?? [];
      if (name !== undefined)
        for (const suffix of type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']) this.#of(name + suffix);
      const [, sample, labels = ''] = /^([a-z]\w*)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
      if (sample === undefined) continue;
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
      this.#of(sample).push(Object.fromEntries(pairs.map(([, label = '', value = '']) => [label, value])));
    }
  }

  has(metric: string): boolean {
    return this.#series.has(metric);
  }

  /** Whether a series has the label; those of the scrape are added to all. */
  hasLabel(metric: string, label: string): boolean {
    return TARGET_LABELS.includes(label) || (this.#series.get(metric) ?? []).some((labels) => label in labels);
  }

  hasValue(metric: string, label: string, value: string): boolean {
    return (this.#series.get(metric) ?? []).some((labels) => labels[label] === value);
  }

  #of(metric: string): Record<string, string>[] {
    let found = this.#series.get(metric);
    if (found === undefined) this.#series.set(metric, (found = []));
    return found;
  }
}
