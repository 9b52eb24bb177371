/**
 * What is the same for everybody: pages, scripts and style sheets. Made at the first request, compressed at the first
 * that takes it so, and then the same bytes for all, in memory once however many clients do not read them. Each form
 * has an ETag of its own, so a reader that has it gets 304.
 */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, gzip } from 'node:zlib';
import { preferredCoding } from '../frame/accept.js';
import { headerOf } from '../frame/call.js';
import type { Answer, Handler } from '../frame/exchange.js';
import { matchesEtag } from '../routes/shared/etag.js';

/** In the order in which they are preferred; node compresses in threads of its own, so nothing waits for it. */
const CODINGS = { br: promisify(brotliCompress), gzip: promisify(gzip) } as const;
type Coding = keyof typeof CODINGS;
const NAMES = Object.keys(CODINGS) as Coding[];

interface Form {
  /** Of the body as it is made. */
  readonly hash: string;
  readonly answer: Answer;
  readonly headers: { readonly ETag: string; readonly Vary: string };
}

/**
 * @param make an answer whose body is a text or bytes; called once, or again if it fails
 */
export function asset(make: () => Answer | Promise<Answer>): Handler {
  const forms = new Map<Coding | undefined, Promise<Form>>();
  const formIn = (coding: Coding | undefined): Promise<Form> => {
    const kept = forms.get(coding);
    if (kept !== undefined) return kept;
    const made = coding === undefined ? plainForm(make) : formIn(undefined).then((plain) => compressed(plain, coding));
    forms.set(coding, made);
    made.catch(() => forms.delete(coding));
    return made;
  };
  return async ({ headers }) => {
    const form = await formIn(preferredCoding(headerOf(headers['accept-encoding']), NAMES));
    const known = headerOf(headers['if-none-match']);
    if (known !== undefined && matchesEtag(known, form.headers.ETag)) return { status: 304, headers: form.headers };
    return form.answer;
  };
}

async function plainForm(make: () => Answer | Promise<Answer>): Promise<Form> {
  const made = await make();
  const body = Buffer.isBuffer(made.body) ? made.body : Buffer.from(made.body as string);
  return formOf(made, body, createHash('sha256').update(body).digest('base64url').slice(0, 22));
}

async function compressed({ answer, hash }: Form, coding: Coding): Promise<Form> {
  const made = { ...answer, headers: { ...answer.headers, 'Content-Encoding': coding } };
  return formOf(made, await CODINGS[coding](answer.body as Buffer), hash, `-${coding}`);
}

function formOf(made: Answer, body: Buffer, hash: string, suffix = ''): Form {
  const headers = { ETag: `"${hash}${suffix}"`, Vary: 'Accept-Encoding' };
  return { hash, headers, answer: { ...made, body, isShared: true, headers: { ...made.headers, ...headers } } };
}
