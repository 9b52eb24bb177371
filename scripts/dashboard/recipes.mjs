/**
 * The rows of what Postern does besides lines (`contention.mjs`): queues, configuration, leases.
 */
import { now, quantile, rate, sum } from './promql.mjs';

/** @type {import('../dashboard.mjs').Row[]} */
export const RECIPES = [
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
    ],
  },
  {
    title: 'Configuration, transactions, runs, counters',
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
        title: 'Runs',
        about: 'Starts of an occurrence by what they were told, and attempts that were finished as done or failed.',
        unit: 'ops',
        queries: [
          [sum('outcome', rate('postern_run_starts_total')), 'start: {{outcome}}'],
          [sum('outcome', rate('postern_run_finishes_total')), 'finish: {{outcome}}'],
        ],
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
