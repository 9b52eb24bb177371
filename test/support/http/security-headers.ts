/** What every answer says to browsers and caches on the way, so that nothing of it is guessed, kept, framed or run. */

export interface AnswerHead {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** Of a page of our own: our style sheet and script, nothing inline, no markup made by scripts, nobody's frame. */
const PAGE_POLICY =
  /^default-src 'none'; style-src 'self'; (script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; )?base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/;

/** The console runs its own script too, and talks to its own origin; nothing of either is in the page itself. */
const CONSOLE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** What is wrong with the headers of an answer to this operation; undefined where there was none. */
export function securityComplaints(operationId: string | undefined, { status, headers }: AnswerHead): string[] {
  const complaints: string[] = [];
  const expectHeader = (name: string, expected: string | RegExp): void => {
    const value = headers[name];
    const isRight = expected instanceof RegExp ? expected.test(String(value)) : value === expected;
    if (!isRight) complaints.push(`${name} is ${String(value)}, not ${String(expected)}`);
  };
  expectHeader('x-content-type-options', 'nosniff');
  expectHeader('cross-origin-resource-policy', 'same-origin');
  expectHeader('cache-control', headers['etag'] === undefined ? 'no-store' : 'private, no-cache');
  // Somebody else's bytes, under whatever type they gave: a browser shows them, and runs nothing.
  if (operationId === 'showConfig' && status === 200 && !isType(headers, 'text/event-stream'))
    expectHeader('content-security-policy', 'sandbox');
  else if (isType(headers, 'text/html')) {
    expectHeader('content-security-policy', operationId === 'console' ? CONSOLE_POLICY : PAGE_POLICY);
    expectHeader('referrer-policy', 'no-referrer');
  }
  for (const name of ['x-powered-by', 'server', 'set-cookie'])
    if (headers[name] !== undefined) complaints.push(`there is a header ${name}`);
  return complaints;
}

function isType(headers: AnswerHead['headers'], type: string): boolean {
  return String(headers['content-type'] ?? '').startsWith(type);
}
