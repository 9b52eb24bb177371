/** `postern/client`: what a program imports. */
export { Postern, type RequestOptions } from './postern.js';
export type { PosternOptions, TlsOptions } from './options.js';
export { HoldLostError, PosternError, type LossCause, type PosternErrorOptions } from './errors.js';
export { Hold, type Revocation } from './hold.js';
export { Lock } from './lock.js';
export type { AcquireOptions } from './line.js';
export type { Answer, Operation, Problem, RequestParts, Schemas } from './contract.js';
