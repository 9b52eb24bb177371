/**
 * The rows of what that takes: ZooKeeper, HTTP, the processes.
 */
import { now, quantile, rate, sum } from './promql.mjs';

/** @type {import('../dashboard.mjs').Row[]} */
export const SYSTEM = [
  {
    title: 'ZooKeeper',
    panels: [
      {
        title: 'Latency of requests',
        about: 'From sending a request to ZooKeeper to its reply: all but one in a hundred are faster.',
        unit: 's',
        queries: [[quantile(0.99, 'op', 'postern_zookeeper_request_duration_seconds'), '{{op}} p99']],
      },
      {
        title: 'Requests',
        about: 'Requests to ZooKeeper, by operation.',
        unit: 'reqps',
        queries: [[sum('op', rate('postern_zookeeper_request_duration_seconds_count')), '{{op}}']],
      },
      {
        title: 'Connected',
        about: 'Whether the control session of each replica is connected.',
        unit: 'bool_on_off',
        queries: [[sum('instance', now('postern_zookeeper_connected')), '{{instance}}']],
        stat: true,
        width: 4,
      },
      {
        title: 'Reconnects',
        about: 'How often the control session found its way back after its connection was lost, in the last hour.',
        unit: 'short',
        queries: [[sum('instance', `increase(${now('postern_zookeeper_reconnects_total')}[1h])`), '{{instance}}']],
        stat: true,
        width: 4,
      },
      {
        title: 'Leaps of the clock',
        about:
          "How often in the last hour the time of ZooKeeper's leader went on by over a second more, or less, than the replica's: the clocks of its servers disagree.",
        unit: 'short',
        queries: [[sum('instance', `increase(${now('postern_zookeeper_clock_leaps_total')}[1h])`), '{{instance}}']],
        stat: true,
        width: 4,
      },
      {
        title: 'Servers set aside',
        about:
          'How often in the last hour a server of ZooKeeper was passed over for some seconds, as it hung or gave leases another timeout.',
        unit: 'short',
        queries: [
          [sum('instance', `increase(${now('postern_zookeeper_servers_set_aside_total')}[1h])`), '{{instance}}'],
        ],
        stat: true,
        width: 4,
      },
      {
        title: 'Writes in one transaction',
        about:
          'Releases, grants, pushes and other writes of requests share transactions: how many one carries on average. 1 when there is little to do.',
        unit: 'none',
        queries: [
          [
            `${sum('instance', rate('postern_zookeeper_group_commit_writes_sum'))} / (${sum('instance', rate('postern_zookeeper_group_commit_writes_count'))} > 0)`,
            '{{instance}}',
          ],
        ],
      },
      {
        title: 'Writes that wait for a transaction',
        about:
          'Now, because as many transactions as may be are on their way. Often above 0: ZooKeeper is the bottleneck.',
        unit: 'short',
        queries: [[sum('instance', now('postern_zookeeper_group_commit_queue')), '{{instance}}']],
      },
      {
        title: 'Highest fencing token',
        about:
          'The newest transaction of ZooKeeper with the fencing floor. What to give to POSTERN_FENCING_FLOOR after a restore.',
        unit: 'none',
        queries: [[`max(${now('postern_fencing_token_highest')})`, 'highest']],
      },
      {
        title: 'Shared transactions that failed',
        about:
          'Refused: one of their writes was, and each is sent again by itself. Without a reply: those who asked are told that the outcome is unknown.',
        unit: 'ops',
        queries: [[sum('outcome', rate('postern_zookeeper_group_commit_failures_total')), '{{outcome}}']],
      },
      {
        title: 'Watches',
        about:
          'Watches that the replicas have set: one for each who waits behind another one, one for each observed name.',
        unit: 'short',
        queries: [[sum('instance', now('postern_watches')), '{{instance}}']],
      },
      {
        title: 'Watch events',
        about:
          'Notifications from ZooKeeper. "reset" counts what was read again after the control session was replaced.',
        unit: 'ops',
        queries: [[sum('type', rate('postern_watch_events_total')), '{{type}}']],
      },
    ],
  },
  {
    title: 'HTTP',
    panels: [
      {
        title: 'Requests by route',
        about: 'Requests that do not wait.',
        unit: 'reqps',
        queries: [[sum('method, route', rate('postern_http_request_duration_seconds_count')), '{{method}} {{route}}']],
        width: 12,
      },
      {
        title: 'Latency by route',
        about: 'Requests that do not wait: all but one in a hundred are faster.',
        unit: 's',
        queries: [
          [quantile(0.99, 'method, route', 'postern_http_request_duration_seconds'), '{{method}} {{route}} p99'],
        ],
        width: 12,
      },
      {
        title: 'Answers by status',
        about: 'Requests that wait and those that do not, by the status of their answer.',
        unit: 'reqps',
        queries: [
          [sum('status', rate('postern_http_request_duration_seconds_count')), '{{status}}'],
          [sum('status', rate('postern_http_wait_duration_seconds_count')), '{{status}} after a wait'],
        ],
        stack: true,
      },
      {
        title: 'In flight',
        about: 'Requests being served now, waits and streams included. POSTERN_MAX_WAITERS bounds those that wait.',
        unit: 'short',
        queries: [[sum('instance', now('postern_http_requests_in_flight')), '{{instance}}']],
      },
      {
        title: 'Waits and streams by route',
        about: 'How long requests with waitMs, and event streams, were open: half of them shorter.',
        unit: 's',
        queries: [[quantile(0.5, 'method, route', 'postern_http_wait_duration_seconds'), '{{method}} {{route}} p50']],
      },
    ],
  },
  {
    title: 'Processes',
    panels: [
      {
        title: 'CPU',
        about: 'Cores in use. The gateway serves from one; at 1 it is full.',
        unit: 'none',
        queries: [[sum('instance', rate('postern_process_cpu_seconds_total')), '{{instance}}']],
        width: 6,
      },
      {
        title: 'Memory',
        about: 'Resident memory.',
        unit: 'bytes',
        queries: [[sum('instance', now('postern_process_resident_memory_bytes')), '{{instance}}']],
        width: 6,
      },
      {
        title: 'Event loop',
        about: 'How late a timer fires, once in a hundred times: what every request may have to wait.',
        unit: 's',
        queries: [[sum('instance', now('postern_nodejs_eventloop_lag_p99_seconds')), '{{instance}}']],
        width: 6,
      },
      {
        title: 'Overloaded',
        about: 'Whether a replica is overloaded, by what is late: its event loop, or ZooKeeper.',
        unit: 'bool_on_off',
        queries: [[sum('instance, late', now('postern_overloaded')), '{{instance}} {{late}}']],
        width: 6,
      },
      {
        title: 'Open files and sockets',
        about: 'As a share of what the process may open.',
        unit: 'percentunit',
        queries: [
          [
            `${sum('instance', now('postern_process_open_fds'))} / ${sum('instance', now('postern_process_max_fds'))}`,
            '{{instance}}',
          ],
        ],
        width: 6,
      },
      {
        title: 'Versions',
        about: 'Replicas by version: two of them only during an update.',
        unit: 'short',
        queries: [[`count by (version, node) (${now('postern_build_info')})`, 'Postern {{version}} on Node {{node}}']],
        stat: true,
      },
    ],
  },
];
