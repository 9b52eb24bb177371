/**
 * What follows from an operation itself, so that no file in `openapi/` says it. The bundler reads these tables and adds
 * what an operation does not say in its own words; what it sets to `null` it does not have.
 *
 * @typedef {object} Facts what the rules look at
 * @property {string} method lower case
 * @property {boolean} needsCredential
 * @property {boolean} isRateLimited false: neither the limits of a principal nor overload refuse it (`x-rate-limited`)
 * @property {boolean} waits which is limited by itself
 * @property {boolean} streams its success may be a stream of events
 * @property {boolean} hasBody
 * @property {boolean} hasJsonBody
 * @property {boolean} answersContent its success has a body, so it has a type that the caller may not accept
 * @property {(header: string) => boolean} takes whether it has this header as a parameter
 * @property {boolean} takesRequestId whether its body may have a `requestId`
 */

/** @type {(facts: Facts) => boolean} */
const always = () => true;
/** @type {(facts: Facts) => boolean} */
const isConditional = ({ method, takes }) => method === 'get' && takes('If-None-Match');

/**
 * Responses, by status: which of `components/responses`, and who gives it.
 * @type {[string, string, (facts: Facts) => boolean][]}
 */
export const RESPONSES = [
  ['304', 'NotModified', isConditional],
  ['400', 'BadRequest', always],
  ['401', 'Unauthenticated', ({ needsCredential }) => needsCredential],
  ['403', 'Forbidden', always], // without a credential too: for its Host or Origin
  ['405', 'MethodNotAllowed', always],
  ['406', 'NotAcceptable', ({ answersContent }) => answersContent],
  ['410', 'LeaseExpired', ({ takes }) => takes('Lease-Token')],
  ['413', 'TooLarge', ({ hasBody }) => hasBody],
  ['414', 'UriTooLong', always],
  ['415', 'UnsupportedMediaType', ({ hasBody }) => hasBody],
  ['422', 'Invalid', always],
  [
    '429',
    'TooMany',
    ({ needsCredential, isRateLimited, waits, streams }) => needsCredential && (isRateLimited || waits || streams),
  ],
  ['431', 'HeadersTooLarge', always],
  ['500', 'Internal', always],
  ['503', 'Unavailable', ({ needsCredential, isRateLimited }) => needsCredential || isRateLimited],
];

/** Parameters: which of `components/parameters`, and who takes it. @type {[string, (facts: Facts) => boolean][]} */
export const PARAMETERS_AFTER_LEASE_TOKEN = [
  ['Namespace', ({ needsCredential, takes }) => needsCredential && !takes('Namespace')],
  ['IdempotencyKey', ({ takesRequestId }) => takesRequestId],
];

/** Likewise, after its own. @type {[string, (facts: Facts) => boolean][]} */
export const LAST_PARAMETERS = [
  ['MaxMs', ({ streams }) => streams],
  ['LastEventId', ({ streams }) => streams],
];

/** Members: their values, and of whom. @type {[string, unknown, (facts: Facts) => boolean][]} */
export const MEMBERS = [
  // A few values of bounded length; what takes more says so, and with `null` as much as the replica reads at all.
  ['x-max-body-bytes', 32_768, ({ hasJsonBody }) => hasJsonBody],
];

/** Headers of every response, also of those in `components`. @type {[string, string][]} */
export const HEADERS = [['Trace-Id', 'TraceId']];

/** Headers of a 200 that stands at the operation. @type {[string, string, (facts: Facts) => boolean][]} */
export const SUCCESS_HEADERS = [['ETag', 'ETag', isConditional]];

/** What every one of `problems` is. */
export const PROBLEM = { type: 'application/problem+json', schema: 'Problem' };
