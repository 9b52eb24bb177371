/** The ETags in the condition of a write (`If-Match`), of configuration keys and of counters. */

/** Without quotes. One of them must be that of the value; `*` is any. */
export type ETags = readonly string[] | '*';

/** @param etag without quotes; undefined where there is no value */
export function hasEtag(etags: ETags, etag: string | undefined): boolean {
  return etags === '*' || (etag !== undefined && etags.includes(etag));
}
