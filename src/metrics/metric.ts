/**
 * How the table declares a metric.
 *
 * Labels are a list of names, or names with all their values. With values, every combination is set to zero at start,
 * so that a rate exists from the first scrape.
 */
import { Counter, Gauge, Histogram, type Aggregator, type Registry } from 'prom-client';

type Labels = readonly string[] | Readonly<Record<string, readonly string[]>>;
type NameOf<L extends Labels> = L extends readonly (infer Name extends string)[] ? Name : Extract<keyof L, string>;

interface Words<L extends Labels> {
  readonly name: string;
  readonly help: string;
  readonly labels?: L;
}

/** Creates the metric in a registry. */
type Declared<Metric> = (registry: Registry) => Metric;

export function counter<const L extends Labels = readonly string[]>(words: Words<L>): Declared<Counter<NameOf<L>>> {
  return (registry) => {
    const made = new Counter<string>({ ...common(words), registers: [registry] });
    for (const values of combinations(words.labels)) made.inc(values, 0);
    return made;
  };
}

export function gauge<const L extends Labels = readonly string[]>(
  words: Words<L> & { readonly aggregator?: Aggregator },
): Declared<Gauge<NameOf<L>>> {
  const { aggregator = 'sum' } = words;
  return (registry) => {
    const made = new Gauge<string>({ ...common(words), aggregator, registers: [registry] });
    for (const values of combinations(words.labels)) made.set(values, 0);
    return made;
  };
}

export function histogram<const Name extends string = string>(
  words: Words<readonly Name[]> & { readonly buckets: readonly number[] },
): Declared<Histogram<Name>> {
  const { labels = [], buckets } = words;
  return (registry) =>
    new Histogram({ ...common(words), labelNames: labels, buckets: [...buckets], registers: [registry] });
}

function common({ name, help, labels = [] }: Words<Labels>): { name: string; help: string; labelNames: string[] } {
  return { name, help, labelNames: isList(labels) ? [...labels] : Object.keys(labels) };
}

function combinations(labels: Labels = []): Record<string, string>[] {
  if (isList(labels)) return [];
  return Object.entries(labels).reduce<Record<string, string>[]>(
    (all, [label, values]) => all.flatMap((one) => values.map((value) => ({ ...one, [label]: value }))),
    [{}],
  );
}

function isList(labels: Labels): labels is readonly string[] {
  return Array.isArray(labels);
}
