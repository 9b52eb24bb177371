/**
 * What a request for permits says of their number, and whether that goes together with what the semaphore's users
 * agreed on (`agreement.ts`).
 *
 * A request that names a limit is refused if another one is agreed on. A request that names none takes whatever is
 * agreed on; somebody has to name it first. Permits are granted by neither, but by the agreed limit, which the
 * transaction of the grant checks.
 */
import { InvalidError, LimitMismatchError, StandingConflictError, type PosternError } from '../../../errors.js';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import { unless } from '../../../zookeeper/errors.js';
import type { NodeData } from '../../../zookeeper/operations.js';
import { decodeAgreement } from './agreement.js';
import type { JoinRequest } from '../join/request.js';
import type { Line } from '../line.js';

export class PermitTerms {
  readonly #control: ControlSession;
  readonly #line: Line;
  readonly #request: JoinRequest;

  constructor(control: ControlSession, line: Line, request: JoinRequest) {
    this.#control = control;
    this.#line = line;
    this.#request = request;
  }

  /**
   * Whether the caller's terms are those that were agreed on, or may become so; true where there is nothing to agree
   * on. Otherwise {@link refusal} says why.
   */
  async agree(): Promise<boolean> {
    if (this.#request.permits === undefined) return true;
    if (this.#line.agreed === undefined) await this.read(false);
    if (this.#fit()) return true;
    await this.read(true);
    return this.#fit();
  }

  /** Reads the agreed limit into the line. @param upToDate as a quorum of the ensemble knows it */
  async read(upToDate: boolean): Promise<void> {
    const { hardDeadline, name } = this.#request;
    const { path } = this.#line;
    const read = (): Promise<NodeData | undefined> => unless(this.#control.getData(path, hardDeadline), 'NO_NODE');
    const node = await (upToDate ? this.#control.readLatest(read, hardDeadline) : read());
    if (node === undefined) {
      if (upToDate) this.#line.agreed = undefined;
      return;
    }
    const agreement = decodeAgreement(node);
    if (agreement === undefined)
      throw new StandingConflictError(`The directory of "${name}" was made by another client: it is no semaphore.`);
    this.#line.agree(agreement);
  }

  refusal(): PosternError {
    const { name, permits } = this.#request;
    const { limit, count } = permits ?? {};
    const agreed = this.#line.agreed?.limit;
    if (agreed === undefined)
      return new InvalidError(
        'limit',
        limit,
        `given: nobody has agreed on a number of permits for semaphore "${name}" yet (or it was forgotten after an hour without use); name it here, or with PUT`,
      );
    if (limit !== undefined) return new LimitMismatchError(name, limit, agreed);
    return new InvalidError('count', count, `at most the limit of semaphore "${name}", which is ${agreed}`, {
      limit: agreed,
    });
  }

  #fit(): boolean {
    const { limit, count = 1 } = this.#request.permits ?? {};
    const agreed = this.#line.agreed?.limit;
    if (limit !== undefined) return agreed === undefined || agreed === limit;
    return agreed !== undefined && count <= agreed;
  }
}
