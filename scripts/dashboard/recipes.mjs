/**
 * The rows of what Postern does: locks, queues, configuration, leases.
 */
import { now, quantile, rate, sum } from './promql.mjs';

/** @type {{ title: string, panels: import('../dashboard.mjs').Panel[] }[]} */
export const RECIPES = [
  {
    title: 'Herd and contention',
    panels: [
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
        width: 8,
      },
      {
        title: 'Herd factor now',
        about: 'The same over the last five minutes, of all kinds together. 1 is what it should be.',
        unit: 'none',
        queries: [
          [
            `sum(rate(${now('postern_wakeups_total')}[5m])) / (sum(rate(${now('postern_handoffs_total')}[5m])) > 0)`,
            'herd factor',
          ],
        ],
        stat: true,
        width: 4,
      },
      {
        title: 'Waiters',
        about: 'Requests that wait in line, in all replicas.',
        unit: 'short',
        queries: [[sum('kind', now('postern_waiters')), '{{kind}}']],
        width: 6,
      },
      {
        title: 'Contended names',
        about: 'Requests that wait, of the ten names with the longest lines. /v1/contention tells more of them.',
        unit: 'short',
        queries: [[`topk(10, ${sum('kind, name', now('postern_contended_waiters'))})`, '{{kind}} {{name}}']],
        width: 6,
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
        width: 6,
      },
      {
        title: 'Hold',
        about: 'From grant to release, of what was released through the replica that granted it.',
        unit: 's',
        queries: [
          [quantile(0.5, 'kind', 'postern_hold_seconds'), '{{kind}} p50'],
          [quantile(0.99, 'kind', 'postern_hold_seconds'), '{{kind}} p99'],
        ],
        width: 6,
      },
      {
        title: 'Requests to acquire, by how they ended',
        about:
          'Granted at once, granted after waiting, refused, given up by the client, ended by the loss of the lease.',
        unit: 'reqps',
        queries: [[sum('outcome', rate('postern_acquire_total')), '{{outcome}}']],
        stack: true,
      },
      {
        title: 'Conflicts',
        about: 'The share of requests to acquire that were refused because somebody else holds.',
        unit: 'percentunit',
        queries: [
          [
            `${sum('kind', rate('postern_acquire_total', 'outcome="refused"'))} / (${sum('kind', rate('postern_acquire_total'))} > 0)`,
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
    ],
  },
  {
    title: 'Queues',
    panels: [
      {
        title: 'Depth',
        about:
          'Messages in each queue, claimed ones among them. Beyond POSTERN_MAX_QUEUE_LABELS queues are counted together as "other".',
        unit: 'short',
        queries: [[`max by (queue) (${now('postern_queue_depth')})`, '{{queue}}']],
      },
      {
        title: 'Age of the oldest message',
        about: 'Since the oldest message that is still in the queue was pushed. Empty queues have none.',
        unit: 's',
        queries: [
          [`time() - (min by (queue) (${now('postern_queue_oldest_message_timestamp_seconds')} > 0))`, '{{queue}}'],
        ],
      },
      {
        title: 'Messages',
        about: 'Messages by what was done with them.',
        unit: 'ops',
        queries: [[sum('op', rate('postern_queue_messages_total')), '{{op}}']],
      },
      {
        title: 'Conflicts between consumers',
        about:
          "Messages that somebody else had taken in that moment, for each that was taken. Many: replicas get in each other's way.",
        unit: 'percentunit',
        queries: [
          [
            `sum(${rate('postern_queue_claim_conflicts_total')}) / (sum(${rate('postern_queue_messages_total', 'op=~"claim|pop"')}) > 0)`,
            'conflicts',
          ],
        ],
      },
      {
        title: 'Redeliveries',
        about: 'Messages that were handed out again, because an earlier claim ended without an acknowledgement.',
        unit: 'ops',
        queries: [
          [`sum(${rate('postern_queue_redeliveries_total')})`, 'again'],
          [`sum(${rate('postern_queue_messages_total', 'op="dead_letter"')})`, 'given up: to the dead letters'],
        ],
      },
      {
        title: 'Consumers that wait',
        about: 'Pops and claims that wait for a message.',
        unit: 'short',
        queries: [[sum('instance', now('postern_waiters', 'kind="queue"')), '{{instance}}']],
      },
    ],
  },
  {
    title: 'Configuration, transactions, counters',
    panels: [
      {
        title: 'Writes of configuration',
        about: 'Written, found done by an earlier try, refused, or of unknown outcome.',
        unit: 'ops',
        queries: [[sum('outcome', rate('postern_config_writes_total')), '{{outcome}}']],
      },
      {
        title: 'Transactions decided',
        about: 'Committed, or why they were aborted.',
        unit: 'ops',
        queries: [[sum('outcome', rate('postern_transactions_decided_total')), '{{outcome}}']],
      },
      {
        title: 'Time to a decision',
        about: 'From the creation of a transaction to its decision: all but one in a hundred are faster.',
        unit: 's',
        queries: [[quantile(0.99, 'outcome', 'postern_transaction_seconds'), '{{outcome}} p99']],
      },
      {
        title: 'Counters',
        about:
          'Operations on counters by outcome, and the transactions that they were done in: several at once under load.',
        unit: 'ops',
        queries: [
          [sum('outcome', rate('postern_counters_operations_total')), '{{outcome}}'],
          [`sum(${rate('postern_counters_transactions_total')})`, 'transactions'],
        ],
      },
    ],
  },
  {
    title: 'Leases',
    panels: [
      {
        title: 'Attached leases',
        about: 'Lease sessions that a replica has a connection for. POSTERN_MAX_ATTACHED is the most that it keeps.',
        unit: 'short',
        queries: [[sum('instance', now('postern_leases_attached')), '{{instance}}']],
        width: 6,
      },
      {
        title: 'Attaches and moves',
        about:
          'Connections made for leases: new ones, moved from another replica, evicted here before, or heartbeated too seldom.',
        unit: 'ops',
        queries: [[sum('reason', rate('postern_lease_attaches_total')), '{{reason}}']],
        width: 6,
      },
      {
        title: 'Heartbeats',
        about: 'Heartbeats of clients, by result.',
        unit: 'reqps',
        queries: [[sum('outcome', rate('postern_lease_heartbeats_total')), '{{outcome}}']],
        width: 6,
      },
      {
        title: 'Leases that expired',
        about: 'Leases that were found to have ended without being ended by their client.',
        unit: 'ops',
        queries: [[`sum(${rate('postern_leases_expired_total')})`, 'expired']],
        width: 6,
      },
    ],
  },
];
