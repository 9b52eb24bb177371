/**
 * What Terraform's and OpenTofu's backend `http` needs (ADR 31): a state is a configuration key, and its lock a
 * reservation, found again by the id that a run made up for it. A run that says that it has the lock writes the state
 * only as long as it has it, which is checked in the same transaction.
 *
 *   state `prod`:  key `terraform/prod`, lock `terraform.prod`
 *
 * Source:  https://developer.hashicorp.com/terraform/language/backend/http
 */
import { isPosternError, PosternError } from '../../../errors.js';
import type { ConfigOperation } from '../../../recipes/config/plan.js';
import { readTogether } from '../../../recipes/config/together.js';
import type { Guard } from '../../../recipes/line/guard.js';
import { newAttempt } from '../../../recipes/marks.js';
import { findStanding } from '../../../recipes/reservation/change.js';
import { instant } from '../../../time.js';
import type { components } from '../../contract/contract.js';
import type { RawBody } from '../../frame/body.js';
import type { Answer, Exchange, Routes } from '../../frame/exchange.js';
import type { Building } from '../shared/serving.js';
import { namedNamespaceOf } from '../shared/subject.js';
import { giveBack, holderOf, standing, take, type Named } from './taken.js';

type Schemas = components['schemas'];

const OWNER_MAX = 200;
/** A browser that opens a state runs nothing of it. */
const SANDBOX = { 'Content-Security-Policy': 'sandbox' };

export function terraformRoutes(building: Building): Routes {
  const routes = new TerraformRoutes(building);
  return {
    readTerraformState: (exchange) => routes.read(exchange),
    writeTerraformState: (exchange) => routes.write(exchange),
    deleteTerraformState: (exchange) => routes.delete(exchange),
    lockTerraformState: (exchange) => routes.lock(exchange),
    unlockTerraformState: (exchange) => routes.unlock(exchange),
  };
}

class TerraformRoutes {
  readonly #context: Building['context'];
  readonly #recipes: Building['recipes'];

  constructor({ context, recipes }: Building) {
    this.#context = context;
    this.#recipes = recipes;
  }

  async read(exchange: Exchange): Promise<Answer> {
    const { namespace, key } = keyOf(exchange, 'read');
    const read = await readTogether(this.#context, {
      ...{ namespace, keys: [key], stale: false },
      deadline: exchange.deadline,
    });
    const value = read?.[0];
    if (value === undefined)
      throw new PosternError('not-found', `There is no state "${stateOf(exchange)}".`, { members: { key } });
    return { status: 200, body: value.bytes, contentType: value.contentType, headers: SANDBOX };
  }

  async write(exchange: Exchange): Promise<Answer> {
    const { namespace, key } = keyOf(exchange, 'use');
    const { bytes, contentType } = exchange.body as RawBody;
    await this.#put(exchange, namespace, { type: 'put', key, contentType, bytes });
    return { status: 200 };
  }

  /** Terraform takes every other answer than 200 for a failure. */
  async delete(exchange: Exchange): Promise<Answer> {
    const { namespace, key } = keyOf(exchange, 'use');
    await this.#put(exchange, namespace, { type: 'delete', key }).catch((error: unknown) => {
      if (!isPosternError(error, 'not-found')) throw error;
    });
    return { status: 200 };
  }

  async lock(exchange: Exchange): Promise<Answer> {
    const info = exchange.body as Schemas['TerraformLock'];
    const { Operation = '', Info = '', Who = '', ID: requestId } = info;
    const { bounds } = this.#recipes.reservation;
    const named = { ...lockOf(exchange), requestId };
    const wanted = {
      ...named,
      owner: Who === '' ? requestId : Who,
      reason: ['Terraform', Operation, Info]
        .filter((text) => text !== '')
        .join(' ')
        .slice(0, OWNER_MAX),
      details: JSON.stringify(told(info)),
      forMs: bounds.limits.terraformLockMs,
    };
    const taken = await take(this.#context, bounds, wanted, exchange);
    if (!taken.held) throw await this.#withInfo(taken.refusal, named, exchange);
    const { undelivered } = taken;
    return { status: 200, undelivered };
  }

  /** `terraform force-unlock` sends no ID: then it is whatever lock this principal has. */
  async unlock(exchange: Exchange): Promise<Answer> {
    const { ID } = exchange.body as Schemas['TerraformUnlock'];
    const lock = lockOf(exchange);
    const { namespace, name } = lock;
    const holder = await holderOf(this.#context, lock, exchange.deadline);
    if (holder === undefined) return { status: 200 };
    const id = holder.reservation?.id;
    const record = id === undefined ? undefined : await findStanding(this.#context, namespace, id, exchange.deadline);
    const isOwn = record?.principal === exchange.principal.id && (ID === undefined || ID === record.requestId);
    if (!isOwn || id === undefined) throw await this.#locked(lock, exchange);
    const principal = exchange.principal.id;
    await giveBack(this.#context, { namespace, name, principal, id, fencingToken: record.standing.czxid }, exchange);
    return { status: 200 };
  }

  async #put(exchange: Exchange, namespace: string, operation: ConfigOperation): Promise<void> {
    const guard = await this.#guardOf(exchange, namespace);
    const { deadline, requester } = exchange;
    const write = { namespace, operations: [operation], guard, attempt: newAttempt(), deadline, requester };
    await this.#recipes.config.writer.write(write);
  }

  /** @throws PosternError `lock-held` if somebody else has the lock, `not-holder` if this run has it no more */
  async #guardOf(exchange: Exchange, namespace: string): Promise<Guard | undefined> {
    const requestId = exchange.query['ID'] as string | undefined;
    const name = lockNameOf(exchange);
    if (requestId !== undefined) {
      const claim = await standing(this.#context, { namespace, name, requestId }, exchange);
      if (claim !== undefined) return { kind: 'lock', name, fencingToken: claim.fencingToken };
    }
    const holder = await holderOf(this.#context, { namespace, name }, exchange.deadline);
    if (holder !== undefined) throw await this.#locked({ namespace, name }, exchange);
    if (requestId !== undefined)
      throw new PosternError(
        'not-holder',
        `The lock of the state "${stateOf(exchange)}" that was taken under the ID ${requestId} has ended; nothing was written.`,
        { members: { name } },
      );
    return undefined;
  }

  async #locked(lock: Pick<Named, 'namespace' | 'name'>, exchange: Exchange): Promise<PosternError> {
    const name = stateOf(exchange);
    const refusal = new PosternError(
      'lock-held',
      `The state "${name}" is locked, and not by this request; nothing was done. Whoever has locked it unlocks it, or an administrator breaks the lock "${lock.name}".`,
      { members: { name: lock.name } },
    );
    return this.#withInfo(refusal, lock, exchange);
  }

  /** The members of a problem that Terraform shows, for those who may know them. */
  async #withInfo(
    refusal: PosternError,
    lock: Pick<Named, 'namespace' | 'name'>,
    exchange: Exchange,
  ): Promise<PosternError> {
    const { deadline } = exchange;
    const { name, namespace } = lock;
    const thing = { kind: 'lock', name };
    // Whoever may only write the state learns that it is locked, and not by whom.
    if (!exchange.allows('use', namespace, thing) && !exchange.allows('read', namespace, thing)) return refusal;
    const holder = await holderOf(this.#context, lock, deadline);
    const id = holder?.reservation?.id;
    const record = id === undefined ? undefined : await findStanding(this.#context, namespace, id, deadline);
    const { details } = record ?? {};
    // Of a reservation that has ended meanwhile no ID is known, and its holdId is not one that Terraform could use.
    const hasEnded = id !== undefined && record === undefined;
    const ID = hasEnded ? '' : (holder?.holdId ?? '');
    const info =
      details === undefined
        ? { ID, Who: holder?.reservation?.owner ?? holder?.label ?? '' }
        : (JSON.parse(details) as Schemas['TerraformLock']);
    const since = holder === undefined ? {} : { Created: instant(holder.since) };
    return new PosternError(refusal.code, refusal.message, { members: { ...refusal.members, ...since, ...info } });
  }
}

function stateOf(exchange: Exchange): string {
  return exchange.params['state'] as string;
}

function lockNameOf(exchange: Exchange): string {
  return `terraform.${stateOf(exchange)}`;
}

function keyOf(exchange: Exchange, scope: 'read' | 'use'): { namespace: string; key: string } {
  const key = `terraform/${stateOf(exchange)}`;
  const namespace = namedNamespaceOf(exchange, scope);
  exchange.authorize(scope, namespace, { name: key });
  return { namespace, key };
}

function lockOf(exchange: Exchange): Pick<Named, 'namespace' | 'name'> {
  const name = lockNameOf(exchange);
  const namespace = namedNamespaceOf(exchange, 'use');
  exchange.authorize('use', namespace, { name });
  return { namespace, name };
}

/** What Terraform defines, and nothing that somebody else has added. */
const MEMBERS = ['ID', 'Operation', 'Info', 'Who', 'Version', 'Created', 'Path'] as const;

function told(info: Schemas['TerraformLock']): object {
  return Object.fromEntries(MEMBERS.map((member) => [member, info[member]]));
}
