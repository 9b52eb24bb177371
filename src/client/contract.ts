/**
 * The contract as types: every operation by its method and path, and what it is sent and answers. They are derived from
 * `contract.d.ts`, which is generated from `openapi.yaml`: an operation, a member or an answer that the contract does
 * not have does not compile.
 */
import type { components, paths } from '../http/contract/contract.js';

/** The schemas of the contract, by name. */
export type Schemas = components['schemas'];

/** The body of every problem (RFC 9457). */
export type Problem = Schemas['Problem'];

type Method = 'get' | 'put' | 'post' | 'delete';

/** Every operation of the contract, as `'POST /v1/locks/{name}/acquire'`. */
export type Operation = {
  [P in keyof paths]: {
    [M in Method]: paths[P][M] extends object ? `${Uppercase<M>} ${P}` : never;
  }[Method];
}[keyof paths];

type Definition<O extends Operation> = O extends `${infer M} ${infer P}`
  ? P extends keyof paths
    ? Lowercase<M> extends keyof paths[P]
      ? NonNullable<paths[P][Lowercase<M>]>
      : never
    : never
  : never;

type Parameters<O extends Operation> = Definition<O> extends { parameters: infer P } ? P : never;
type Part<O extends Operation, K extends string> = K extends keyof Parameters<O>
  ? NonNullable<Parameters<O>[K]>
  : never;

/** A member that must be given if the contract requires any of it, and may not be given if there is none. */
type Given<K extends string, T> = [T] extends [never]
  ? { [key in K]?: never }
  : Record<string, never> extends T
    ? { [key in K]?: T }
    : { [key in K]: T };

/** The client adds these itself. */
type OwnHeader = 'Lease-Token' | 'Namespace';

type HeadersOf<O extends Operation> = [Part<O, 'header'>] extends [never] ? never : Omit<Part<O, 'header'>, OwnHeader>;

/** The operations that have a header of this name. */
export type OperationsWith<H extends string> = {
  [O in Operation]: H extends keyof HeadersOf<O> ? O : never;
}[Operation];

type Content<T> = T extends { content: infer C } ? C[keyof C] : never;
type BodyOf<O extends Operation> =
  Definition<O> extends { requestBody: infer B }
    ? { body: Content<B> }
    : Definition<O> extends { requestBody?: infer B }
      ? [NonNullable<B>] extends [never]
        ? { body?: never }
        : { body?: Content<NonNullable<B>> }
      : { body?: never };

/** What the contract lets a request say, apart from the credential, the namespace and the lease token. */
export type RequestParts<O extends Operation> = Given<'path', Part<O, 'path'>> &
  Given<'query', Part<O, 'query'>> &
  Given<'headers', HeadersOf<O>> &
  BodyOf<O>;

type Success = 200 | 201 | 202 | 204 | 304;
type Responses<O extends Operation> = Definition<O> extends { responses: infer R } ? R : never;
type AnswerBody<T> = T extends { content: { 'application/json': infer B } }
  ? B
  : T extends { content: infer C }
    ? '*/*' extends keyof C
      ? Uint8Array
      : string
    : undefined;

/** The answers that are no problems, told apart by `status`; a problem is thrown as a `PosternError`. */
export type Answer<O extends Operation> = {
  [S in keyof Responses<O> & Success]: {
    status: S;
    /** By their names in lower case. */
    headers: Readonly<Record<string, string | undefined>>;
    /** JSON as a value; texts as texts; values of the configuration as bytes. */
    body: AnswerBody<Responses<O>[S]>;
  };
}[keyof Responses<O> & Success];
