/** A request as a line for a shell. The gateway writes it into its pages, and their script writes it again. */

export interface Line {
  /** Scheme, host and port. */
  readonly origin: string;
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** As they stand in double quotes: `$TOKEN` is a variable of the shell. */
  readonly headers: readonly string[];
  /** Undefined: none. */
  readonly body: string | undefined;
  /** Of any type, and not read as JSON. */
  readonly isRaw: boolean;
  readonly isStream: boolean;
}

export function curlLine({ origin, method, path, headers, body, isRaw, isStream }: Line): string {
  const data = body === undefined ? [] : [isRaw ? '--data-binary' : '-d', quoted(body)];
  const url = /^[\w:/.~%[\]-]*$/.test(origin + path) ? origin + path : quoted(origin + path);
  return [
    'curl',
    ...(method === 'GET' ? [] : ['-X', method]),
    ...(isStream ? ['-N'] : []),
    url,
    ...headers.flatMap((header) => ['-H', `"${header}"`]),
    ...data,
  ].join(' ');
}

/** Within single quotes a shell reads nothing but their end. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
