/** `postern reserve`, `reservation extend`, `reservation release`. */
import { lstatSync } from 'node:fs';
import { userInfo } from 'node:os';
import { PosternError } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type * as descriptions from '../commands/reservation.js';
import { environment } from '../environment.js';
import { EXIT, Failure, UsageError } from '../exit.js';
import { firstLine } from '../gateway.js';
import type { Output } from '../output.js';
import { replaceFile } from '../sidecar/files.js';
import { withClient } from './client.js';

const VARIABLE = 'POSTERN_RESERVATION_TOKEN';

export async function reserve(given: GivenFor<typeof descriptions.reserve>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { owner = userInfo().username, reason, wait: waitMs = 0 } = given.values;
  const asked = { forMs: lengthOf(given.values), owner, waitMs, ...(reason !== undefined && { reason }) };
  const reserved = await withClient(given, (postern) => postern.lock(name).reserve(asked)).catch(notAcquired);
  const { reservationToken, reservedUntil } = reserved;
  given.output.result(reserved, () => reservationToken);
  given.output.tell('reserved', `"${name}" is reserved for ${owner} until ${reservedUntil}`, { reservedUntil });
  return EXIT.ok;
}

export async function extend(given: GivenFor<typeof descriptions.extend>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const [forMs, token] = [lengthOf(given.values), tokenOf(given.values)];
  const extended = await withClient(given, (postern) => postern.lock(name).extendReservation(token, forMs));
  given.output.result(extended, () => `reserved until ${extended.reservedUntil}`);
  if (extended.reservationToken !== undefined)
    replaceToken(given.values['token-file'], extended.reservationToken, given.output);
  return EXIT.ok;
}

export async function release(given: GivenFor<typeof descriptions.release>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const token = tokenOf(given.values);
  await withClient(given, (postern) => postern.lock(name).releaseReservation(token));
  if (given.output.json) given.output.result({ name, released: true }, () => '');
  return EXIT.ok;
}

/** That somebody else has it is no refusal: it may be tried again. */
function notAcquired(error: unknown): never {
  if (!(error instanceof PosternError) || error.code !== 'lock-held') throw error;
  throw new Failure(EXIT.notAcquired, error.message, { code: error.code, problem: error.problem }, { cause: error });
}

function lengthOf({ for: forMs }: { for: number | undefined }): number {
  if (forMs === undefined) throw new UsageError('--for must be given: a duration such as 30m or 2h');
  return forMs;
}

/** Never an argument: those of a process can be seen by others on its machine. */
function tokenOf({ 'token-file': path }: { 'token-file': string | undefined }): string {
  const token = path === undefined ? environment[VARIABLE]?.trim() : firstLine(path, '--token-file');
  if (token === undefined || token === '')
    throw new UsageError(`--token-file or ${VARIABLE} must say the token that "postern reserve" printed`);
  return token;
}

/** The keys of the gateway change, and the old token opens only as long as the old key is there. */
function replaceToken(path: string | undefined, token: string, output: Output): void {
  try {
    if (path !== undefined && lstatSync(path).isFile()) {
      replaceFile(path, Buffer.from(`${token}\n`));
      return;
    }
  } catch {
    // The reservation is extended all the same.
  }
  output.tell(
    'token-replaced',
    'the gateway is changing its keys, after which this token does not open: extend with --json, and keep the reservationToken',
  );
}
