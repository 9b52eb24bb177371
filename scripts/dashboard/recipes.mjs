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
        title: 'Paused queues',
        about: 'Queues that hand nothing out until they are resumed.',
        unit: 'short',
        queries: [[`max by (queue) (${now('postern_queue_paused')} > 0)`, '{{queue}}']],
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
        about:
          'Messages that were handed out again, because an earlier claim ended without an acknowledgement; and those that never were.',
        unit: 'ops',
        queries: [
          [`sum(${rate('postern_queue_redeliveries_total')})`, 'again'],
          [`sum(${rate('postern_queue_messages_total', 'op="dead_letter"')})`, 'given up: to the dead letters'],
          [`sum(${rate('postern_queue_messages_total', 'op="message_expire"')})`, 'expired before anybody got them'],
        ],
      },
    ],
  },
  {
    title: 'Configuration, transactions, runs, schedules, counters',
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
        title: 'Members of pools',
        about:
          'Members that were assigned, that were released, and that were found lost with their lease (in pools with a quarantine).',
        unit: 'ops',
        queries: [[sum('outcome', rate('postern_pool_members_total')), '{{outcome}}']],
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
        title: 'Messages to groups',
        about:
          'Messages that were posted, found posted by an earlier try, and dropped because of their number or their age.',
        unit: 'ops',
        queries: [[sum('outcome', rate('postern_group_messages_total')), '{{outcome}}']],
      },
      {
        title: 'Schedules',
        about:
          'Occurrences of schedules that were pushed or missed, and pushes that their queue refused, which are tried again.',
        unit: 'ops',
        queries: [
          [sum('outcome', rate('postern_schedule_occurrences_total')), '{{outcome}}'],
          [`sum(${rate('postern_schedule_refusals_total')})`, 'refused'],
        ],
      },
      {
        title: 'Lateness of schedules',
        about: 'How long after its time an occurrence was pushed: all but one in a hundred sooner.',
        unit: 's',
        queries: [[`histogram_quantile(0.99, ${sum('le', rate('postern_schedule_lateness_seconds_bucket'))})`, 'p99']],
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
    title: 'Reservations',
    panels: [
      {
        title: 'Reservations that stand',
        about: 'Locks that are held until a time, in all namespaces. POSTERN_MAX_RESERVATIONS bounds them.',
        unit: 'short',
        queries: [[`max(${now('postern_reservations')})`, 'reservations']],
      },
      {
        title: 'Reservations',
        about:
          'Made, extended, released by their token, and ended at their time; given up while they waited, and given back because nobody could be told.',
        unit: 'ops',
        queries: [[sum('outcome', rate('postern_reservations_total')), '{{outcome}}']],
      },
      {
        title: 'Lateness of their end',
        about:
          'How long after its time a reservation was freed: all but one in a hundred sooner. Two seconds are promised.',
        unit: 's',
        queries: [[`histogram_quantile(0.99, ${sum('le', rate('postern_reservation_late_seconds_bucket'))})`, 'p99']],
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
