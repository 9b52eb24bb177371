/**
 * Whether an `If-None-Match` names this ETag. Compared weakly (RFC 9110, 13.1.2): a proxy that compresses makes `W/"x"` of `"x"`, and
 * such a poll shall wait too.
 */
export function matchesEtag(header: string, etag: string): boolean {
  const tags: readonly string[] = header.match(/"[^"]*"/g) ?? [];
  return header.trim() === '*' || tags.includes(etag);
}
