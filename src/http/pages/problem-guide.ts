/** What each code means to the person who meets it: the text of `/problems/<code>`. */
import type { ErrorCode } from '../../errors.js';

export interface Guidance {
  /** What the gateway is saying. */
  readonly meaning: string;
  /** Whether anything may have been done. */
  readonly happened: string;
  /** What to do about it. */
  readonly advice: string;
}

const NOTHING_DONE = 'No. The request was refused before anything was done.';

export const PROBLEM_GUIDE: Readonly<Record<ErrorCode, Guidance>> = {
  malformed: {
    meaning:
      'The request cannot be read: the body is not JSON or not UTF-8, the path or query holds a percent sequence that is none, or the bytes on the connection are not HTTP. For a body, `position` says where it goes wrong.',
    happened: NOTHING_DONE,
    advice: 'Correct the request. Let a library write the JSON and encode the path, rather than joining strings.',
  },
  'lease-token-required': {
    meaning: 'This request is made for a lease, and the header `Lease-Token` is missing or empty.',
    happened: NOTHING_DONE,
    advice:
      'Send the `leaseToken` that came with the lease. In a shell script, look whether the variable that should hold it is empty. To acquire without a lease of your own, send `lease` and `requestId` in the body.',
  },
  unauthenticated: {
    meaning:
      'This gateway wants an API key or a token of its identity provider, and the request carries none, or one that is not valid here.',
    happened:
      'Nothing, if it came at once. A credential that came to an end while its request waited is answered so too: `outcome` is `unknown` where the request left something behind, such as a place that is kept, until its lease ends.',
    advice:
      'Send `Authorization: Bearer <key or token>`. A key that worked before may have been taken out of the file of keys; a token may have expired.',
  },
  forbidden: {
    meaning:
      'The credential is known, but has not the scope that this needs in this namespace, or not for this name (`scope`, `kind`, `namespace` and `name` say which). Without configured credentials: the request came from a web page of others, or for a host name that is not this machine.',
    happened: NOTHING_DONE,
    advice:
      'Ask the operator for the scope, or use the right namespace. To be reached from other machines the gateway needs POSTERN_AUTH_FILE or POSTERN_OIDC_ISSUER (or POSTERN_INSECURE); to be called by other web pages, POSTERN_CORS_ORIGINS.',
  },
  'invalid-lease-token': {
    meaning:
      'The lease token does not open: it is cut short or changed, was sealed by another installation or under a key that has been dropped, or belongs to another principal or namespace.',
    happened: NOTHING_DONE,
    advice:
      'Send the token exactly as it was given, with the credential that it was given to. If it is lost, take a new lease; the old one ends by itself when its TTL is over.',
  },
  'invalid-reservation-token': {
    meaning:
      'The reservation token does not open: it is cut short or changed, was sealed by another installation or under a key that has been dropped, or belongs to another principal, namespace or lock.',
    happened: NOTHING_DONE,
    advice:
      'Send the token exactly as it was given, for the same lock, with the credential that it was given to. If it is lost, the reservation ends at its time, or an administrator breaks it.',
  },
  'not-found': {
    meaning:
      'There is nothing under this path, no living lease with this id, or no transaction: also one whose history is over. (Locks that nobody uses are not missing: they are free, and shown so.)',
    happened: NOTHING_DONE,
    advice: 'Compare the path with the contract at /docs.',
  },
  'method-not-allowed': {
    meaning: 'The path exists, but not with this method. The header `Allow` lists the methods it has.',
    happened: NOTHING_DONE,
    advice: 'Use one of them. Acquire and release are POST requests, because they do more than store what you send.',
  },
  'not-acceptable': {
    meaning: 'The `Accept` header rules out every type that the answer exists in; `types` lists them.',
    happened: NOTHING_DONE,
    advice: 'Ask for one of them, or leave the header out.',
  },
  'lock-held': {
    meaning:
      'It is held, by somebody else or by another hold of your own lease (under another `requestId`), and the wait (`waitMs`, which is 0 unless you say otherwise) is over. `holder` names the lease, its label, since when, and the fencing token. With `lockedUntil` a hold was lost whose lock-delay runs until then.',
    happened: 'No. Your place in line was given up. A lease that was made in the same request has ended again.',
    advice:
      'Try again later, or wait in line with a larger `waitMs`. With `keepPlace: true` the place stays in line when the wait is over, and the same request goes on waiting.',
  },
  'not-holder': {
    meaning:
      'Your lease neither holds this nor waits for it, under the given `holdId` or `requestId`. Of an election: this candidacy does not lead, or there is none. To a request to revoke: nobody holds it.',
    happened:
      'No. But if an earlier attempt of this release answered `outcome-unknown` or was lost, then this answer says that it had happened.',
    advice:
      'After such a retry, all is well. Otherwise look at `GET /v1/leases/self`: the hold may have another `requestId`, or may have been lost with an earlier lease. If you thought you held it, stop what it protects.',
  },
  'too-many-holds': {
    meaning:
      'This lease has as many holds and places in line, claims, or bytes of their paths as one may have; `limit` names which, and the member of that name its value. The end of a lease frees all of it in one step, which ZooKeeper can take up to a size only.',
    happened: NOTHING_DONE,
    advice:
      'Release what you no longer need, acknowledge what you have worked on, or spread the work over several leases. Shorter names need fewer bytes.',
  },
  'too-many-reservations': {
    meaning:
      'This namespace, or this principal in it, has as many reservations as it may have; `limit` names which, and the member of that name its value.',
    happened: NOTHING_DONE,
    advice: 'Release what is no longer needed; `GET /v1/reservations` shows who has reserved what, and until when.',
  },
  conflict: {
    meaning:
      'The state changed while the request was at work (`retryable` is true), or does not go together with what was asked and stays so (`retryable` is false); `detail` says which of it.',
    happened: NOTHING_DONE,
    advice:
      'Read the state again, and repeat the request if you still want it. Where it is not retryable, change the request, or the state, first.',
  },
  'lease-expired': {
    meaning:
      'The lease has ended: no heartbeat reached ZooKeeper for longer than its TTL, or it was ended by request. Everything it held was freed, and others may hold it now.',
    happened: 'Nothing was done for this request, unless `outcome` says `unknown`.',
    advice:
      'Stop whatever you did under its locks, then take a new lease. If heartbeats were sent, look for pauses in your program longer than the TTL, or raise the TTL.',
  },
  'version-mismatch': {
    meaning: 'The value is not at the version that your request requires.',
    happened: NOTHING_DONE,
    advice:
      'Read it again, decide again, and write with the version you have read. A retry of your own write answers its first outcome when it carries the same `Idempotency-Key`.',
  },
  'fencing-token-stale': {
    meaning:
      'The fencing token is not that of the present holder: the lock has been lost, and perhaps granted to somebody else.',
    happened: NOTHING_DONE,
    advice: 'Stop writing under this lock. Acquire it again before you go on.',
  },
  'too-large': {
    meaning: 'The body, or the value in it, has more bytes than are read or kept; `maxBytes` is the limit.',
    happened: NOTHING_DONE,
    advice: 'Send less at once. Coordination data should be small: put large values elsewhere and share their address.',
  },
  'uri-too-long': {
    meaning: 'The request target (path and query) has more than `maxBytes` bytes.',
    happened: NOTHING_DONE,
    advice: 'Shorten it. Every name of the contract fits; most often something was appended to the query in a loop.',
  },
  'unsupported-media-type': {
    meaning: 'The body has a type, character set or encoding that is not read here.',
    happened: NOTHING_DONE,
    advice:
      'Send JSON in UTF-8, not compressed, with `Content-Type: application/json`. Requests with an `Origin` header must say that type; others may leave it out.',
  },
  invalid: {
    meaning:
      'A value breaks its rule, or a member or query parameter is not known. `field` names the first, `detail` shows value and rule, and `errors` lists the first few.',
    happened: NOTHING_DONE,
    advice: 'Correct the value. A member that is unknown here may belong to a later version of the gateway.',
  },
  'rate-limited': {
    meaning:
      'This principal sends more requests per second, or has more waits or streams open, than the operator allows; `limit` names which. Heartbeats and releases are never refused for it.',
    happened: NOTHING_DONE,
    advice: 'Wait for as long as `Retry-After` says, and add some randomness.',
  },
  'queue-full': {
    meaning: 'The queue has reached the depth that its configuration allows.',
    happened: 'No. None of the messages was stored.',
    advice:
      'Wait for consumers to catch up, then push again. More messages at once than `maxDepth` are never taken (`retryable` is false): push fewer in one request.',
  },
  'too-many-names': {
    meaning:
      'The namespace has as many names of this kind (locks, queues, counters, keys in one directory of the configuration …) as one may have; `maxNames` says how many.',
    happened: NOTHING_DONE,
    advice:
      'Use names again instead of making up new ones, such as one for each job: what distinguishes them belongs into data or messages. Delete what is not used; names of locks go by themselves some time after their last use. Names that there are can be used meanwhile.',
  },
  'too-many-leases': {
    meaning: 'This principal has as many leases as one may have.',
    happened: NOTHING_DONE,
    advice:
      'End leases you no longer need, and share one lease among the threads of a process (each with its own `requestId`).',
  },
  'headers-too-large': {
    meaning: 'The request headers have more than `maxBytes` bytes in all.',
    happened: NOTHING_DONE,
    advice: 'Look for cookies or headers that a proxy adds; the gateway needs none of them.',
  },
  internal: {
    meaning: 'The gateway has a fault. Its log holds the reason under the trace id, which is `instance` in the answer.',
    happened: 'It may have been done, or not. A read changed nothing; for a write it is not known.',
    advice: 'Repeat the same request (with the same `requestId`), which finds out. Report the fault with the trace id.',
  },
  'zookeeper-error': {
    meaning:
      'ZooKeeper answered with an error code that the gateway does not expect here. It is logged under the trace id.',
    happened: 'No: ZooKeeper refused the request.',
    advice:
      'Look at the log of the gateway and of ZooKeeper; access control lists and quotas set by others are common reasons.',
  },
  'zookeeper-unavailable': {
    meaning:
      'ZooKeeper could not be reached in time, or has no quorum, and did not take the request. Where `namespace` is given: the operator has closed that namespace, or moves it to another ensemble.',
    happened: 'No. Nothing was sent, or the server refused it.',
    advice:
      'Repeat the request after `Retry-After`. Leases live on as long as ZooKeeper keeps their sessions; a client counts its own deadline from its last answered heartbeat.',
  },
  'outcome-unknown': {
    meaning: 'The connection to ZooKeeper was lost after a write had been sent and before its reply came.',
    happened: 'It may have been done, or not.',
    advice:
      'Repeat the same request with the same lease and `requestId`: it finds what the first one did, and answers as if nothing had gone wrong. A release that is repeated and answers `not-holder` had happened.',
  },
  'identity-provider-unavailable': {
    meaning:
      'The request carries a token of an identity provider, and this replica has not been able to read the keys that such tokens are signed with, or not in time.',
    happened: NOTHING_DONE,
    advice:
      'Repeat the request. If it stays so, the operator should look in the log of the replica why POSTERN_OIDC_JWKS, or the discovery document of POSTERN_OIDC_ISSUER, cannot be read. API keys work meanwhile.',
  },
  overloaded: {
    meaning:
      'This replica serves as many waits and streams as it may, or it, or ZooKeeper, has more to do than there is time for. Or the request waited behind earlier ones of its connection until its time was over: `requestTimeoutMs` is then in the answer.',
    happened: NOTHING_DONE,
    advice:
      'Repeat the request after `Retry-After`; another replica may have room at once. Go on with heartbeats meanwhile: they are never refused, nor is a release or an acknowledgement.',
  },
  draining: {
    meaning: 'This replica is shutting down and ends its waits.',
    happened:
      'You do not hold anything new. With `placeKept: true` your place in line is kept, as long as your lease lives and until nobody has asked for it in some ten seconds of its being first.',
    advice:
      'Repeat the same request at once; another replica takes it up at the same place in line. If you do not want it any more, release it.',
  },
};
