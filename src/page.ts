/** A page of a list of names, as it was asked for. */
export interface Page {
  readonly limit: number;
  /** The last name of the page before. */
  readonly after: string | undefined;
  readonly prefix: string;
  /** Whether whoever asks may see what has this name. The others are passed over before the page is filled, so that pages tell nothing of them. */
  readonly shows: (name: string) => boolean;
}

/** Names of this page, and whatever comes behind it, in their order. */
export function pageOfNames(names: readonly string[], { after, prefix, shows }: Omit<Page, 'limit'>): string[] {
  return names.filter((name) => name.startsWith(prefix) && (after === undefined || name > after) && shows(name)).sort();
}
