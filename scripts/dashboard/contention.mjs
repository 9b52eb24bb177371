/**
 * The first rows: what goes on in lines, as numbers and over time. Consumers of queues and callers at barriers wait
 * because that is what they are for; the numbers are of those who wait for a hold.
 */
import { now, quantile, rate, sum } from './promql.mjs';

const HOLDS = 'kind=~"lock|rwlock|semaphore"';
const lately = (metric) => `sum(rate(${now(metric)}[5m]))`;

/** @type {import('../dashboard.mjs').Row[]} */
export const CONTENTION = [
  {
    title: 'Now',
    height: 4,
    panels: [
      {
        title: 'Herd factor now',
        about: 'Wake-ups for each hand-off over the last five minutes, of all kinds together. 1 is what it should be.',
        unit: 'none',
        queries: [[`${lately('postern_wakeups_total')} / (${lately('postern_handoffs_total')} > 0)`, 'herd factor']],
        stat: true,
        width: 6,
      },
      {
        title: 'Waiters now',
        about: 'Requests that wait for locks, read-write locks and permits, in all replicas.',
        unit: 'short',
        queries: [[`sum(${now('postern_waiters', HOLDS)})`, 'waiters']],
        stat: true,
        width: 6,
      },
      {
        title: 'Longest wait now',
        about:
          'Of these requests, for how long the first one has been waiting. A request that is repeated to keep its place begins anew.',
        unit: 's',
        queries: [[`max(${now('postern_oldest_wait_seconds', HOLDS)})`, 'longest wait']],
        stat: true,
        width: 6,
      },
      {
        title: 'Refusals now',
        about:
          'Requests refused by a limit or under overload in each second, over the last five minutes. Refusals because somebody else holds are none of them.',
        unit: 'reqps',
        queries: [
          [`${lately('postern_limit_refusals_total')} + ${lately('postern_overload_refusals_total')}`, 'refusals'],
        ],
        stat: true,
        width: 6,
      },
    ],
  },
  {
    title: 'Herd and contention',
    panels: [
      {
        title: 'Contended names',
        about:
          'Requests that wait, of the names with the longest lines: POSTERN_MAX_CONTENDED_LABELS in each process (empty if that is 0). /v1/contention?scope=all tells more.',
        unit: 'short',
        queries: [
          [
            `topk(10, ${sum('namespace, kind, name', now('postern_contended_waiters'))})`,
            '{{kind}} {{namespace}}/{{name}}',
          ],
        ],
        width: 12,
      },
      {
        title: 'Waiters',
        about:
          'Requests that wait, in all replicas; of queues and barriers, those that wait for a message or a change.',
        unit: 'short',
        queries: [[sum('kind', now('postern_waiters')), '{{kind}}']],
        width: 6,
      },
      {
        title: 'Refusals by reason',
        about:
          'By a limit: of a replica (waiters, bodies, answers), of one principal in it (requests, waits, streams, leases), of a lease (holds). Under overload: new work, by what is late.',
        unit: 'reqps',
        queries: [
          [sum('limit', rate('postern_limit_refusals_total')), 'limit: {{limit}}'],
          [sum('late', rate('postern_overload_refusals_total')), 'overload: {{late}}'],
        ],
        stack: true,
        width: 6,
      },
      {
        title: 'Herd factor',
        about: 'Wake-ups for each hand-off. 1: a release wakes one waiter. More: waiters are woken in vain.',
        unit: 'none',
        queries: [
          [
            `${sum('kind', rate('postern_wakeups_total'))} / (${sum('kind', rate('postern_handoffs_total'))} > 0)`,
            '{{kind}}',
          ],
        ],
      },
      {
        title: 'Hand-offs, and wake-ups in vain',
        about:
          'Grants to those who had waited, wake-ups after which a contender had to go on waiting, listings of a line.',
        unit: 'ops',
        queries: [
          [sum('kind', rate('postern_handoffs_total')), '{{kind}} hand-offs'],
          [sum('kind', rate('postern_spurious_wakeups_total')), '{{kind}} in vain'],
          [sum('kind', rate('postern_line_listings_total')), '{{kind}} listings'],
        ],
      },
      {
        title: 'From the end of a hold to the grant of its heir',
        about:
          'From the notice that its turn has come (a lease ended, or another replica released) to the reply to its grant. Releases that hand over in one transaction are not in it.',
        unit: 's',
        queries: [
          [quantile(0.5, 'kind', 'postern_succession_seconds'), '{{kind}} p50'],
          [quantile(0.99, 'kind', 'postern_succession_seconds'), '{{kind}} p99'],
        ],
      },
      {
        title: 'Requests to acquire, by how they ended',
        about:
          'Granted at once, granted after waiting, refused because somebody else holds, given up by the client, ended by the loss of the lease.',
        unit: 'reqps',
        queries: [[sum('outcome', rate('postern_acquire_total')), '{{outcome}}']],
        stack: true,
      },
      {
        title: 'Wait until granted',
        about:
          'From the arrival of a request to its grant: half of the requests, and all but one in a hundred, are faster.',
        unit: 's',
        queries: [
          [quantile(0.5, 'kind', 'postern_acquire_wait_seconds'), '{{kind}} p50'],
          [quantile(0.99, 'kind', 'postern_acquire_wait_seconds'), '{{kind}} p99'],
        ],
      },
      {
        title: 'Hold',
        about: 'From grant to release, of what was released through the replica that granted it.',
        unit: 's',
        queries: [
          [quantile(0.5, 'kind', 'postern_hold_seconds'), '{{kind}} p50'],
          [quantile(0.99, 'kind', 'postern_hold_seconds'), '{{kind}} p99'],
        ],
      },
    ],
  },
];
