/** What requests of a replica do on the sessions of leases, changed for a test. */
import type { Requester } from '../../src/time.js';
import type { LeaseSession } from '../../src/zookeeper/lease-session.js';
import type { Replica } from './start-gateway.js';

/** Has `prepare` change the lease sessions that requests of this replica work with. */
export function onSessions(
  replica: Replica,
  prepare: (session: LeaseSession, requester: Requester | undefined) => void,
): void {
  const { sessions } = replica.gateway.context.leases;
  const use = sessions.useRepeatedly.bind(sessions);
  sessions.useRepeatedly = (lease, deadline, work, requester) =>
    use(
      lease,
      deadline,
      (session, attempt) => {
        prepare(session, requester);
        return work(session, attempt);
      },
      requester,
    );
}
