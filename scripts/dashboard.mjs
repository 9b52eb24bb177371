/**
 * Writes the Grafana dashboard from the table below: `node scripts/dashboard.mjs`; `--check` only says whether it is current.
 *
 * The classic JSON of a dashboard is two thousand lines of which forty mean something; those are here.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './lib/install.mjs';

const FILE = join(ROOT, 'helm', 'postern', 'files', 'dashboard.json');

const WIDTH = 24;
const ROW_HEIGHT = 1;
const PANEL_HEIGHT = 8;

const rate = (metric, labels = '') => `rate(${metric}{${chosen(labels)}}[$__rate_interval])`;
const now = (metric, labels = '') => `${metric}{${chosen(labels)}}`;
const chosen = (labels) => ['job=~"$job"', 'instance=~"$instance"', labels].filter(Boolean).join(', ');
const sum = (by, expression) => `sum by (${by}) (${expression})`;
const quantile = (q, by, metric, labels = '') =>
  `histogram_quantile(${q}, ${sum(`${by}, le`, rate(`${metric}_bucket`, labels))})`;

/** @typedef {{ title: string, about: string, unit: string, queries: [string, string][], width?: number, min?: number, stack?: boolean, stat?: boolean }} Panel */

/** @type {{ title: string, panels: Panel[] }[]} */
const ROWS = [
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
        width: 6,
      },
      {
        title: 'Waiters',
        about: 'Requests that wait in line, in all replicas.',
        unit: 'short',
        queries: [[sum('kind', now('postern_waiters')), '{{kind}}']],
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
        about: 'Connections made for leases: new ones, moved from another replica, evicted here before.',
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
        title: 'Refused under overload',
        about:
          'New work that a replica had no time for, by what was late. Heartbeats, releases and the like are not among it.',
        unit: 'reqps',
        queries: [[sum('instance, late', rate('postern_overload_refusals_total')), '{{instance}} {{late}}']],
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

const datasource = { type: 'prometheus', uid: '${datasource}' };

function dashboard() {
  const panels = [];
  let y = 0;
  for (const row of ROWS) {
    panels.push({
      type: 'row',
      title: row.title,
      collapsed: false,
      gridPos: { x: 0, y, w: WIDTH, h: ROW_HEIGHT },
      panels: [],
    });
    y += ROW_HEIGHT;
    let x = 0;
    for (const panel of row.panels) {
      const w = panel.width ?? WIDTH / 3;
      if (x + w > WIDTH) [x, y] = [0, y + PANEL_HEIGHT];
      panels.push(drawn(panel, { x, y, w, h: PANEL_HEIGHT }));
      x += w;
    }
    y += PANEL_HEIGHT;
  }
  return {
    uid: 'postern',
    title: 'Postern',
    description:
      'Herd and contention first, then queues, configuration, transactions, leases, ZooKeeper, HTTP and the processes.',
    tags: ['postern', 'zookeeper'],
    schemaVersion: 39,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    timezone: '',
    annotations: { list: [] },
    links: [],
    templating: { list: [variableOfDatasource(), variable('job', ''), variable('instance', '{job=~"$job"}')] },
    panels: panels.map((panel, index) => ({ id: index + 1, ...panel })),
  };
}

/** @param {Panel} panel */
function drawn({ title, about, unit, queries, stack = false, stat = false }, gridPos) {
  const targets = queries.map(([expr, legendFormat], index) => ({
    refId: String.fromCharCode('A'.charCodeAt(0) + index),
    datasource,
    expr,
    legendFormat,
    editorMode: 'code',
    range: !stat,
    instant: stat,
  }));
  const common = { title, description: about, datasource, gridPos, targets };
  if (stat) {
    return {
      ...common,
      type: 'stat',
      options: { reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false }, textMode: 'value_and_name' },
      fieldConfig: { defaults: { unit }, overrides: [] },
    };
  }
  return {
    ...common,
    type: 'timeseries',
    options: {
      legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        custom: {
          lineWidth: 1,
          fillOpacity: stack ? 20 : 0,
          showPoints: 'never',
          stacking: { mode: stack ? 'normal' : 'none' },
        },
      },
      overrides: [],
    },
  };
}

function variableOfDatasource() {
  return {
    name: 'datasource',
    label: 'Data source',
    type: 'datasource',
    query: 'prometheus',
    current: {},
    hide: 0,
    refresh: 1,
  };
}

/** Filled from the labels of one metric that every replica has. */
function variable(name, selector) {
  const query = `label_values(postern_build_info${selector}, ${name})`;
  return {
    name,
    label: name === 'job' ? 'Job' : 'Replica',
    type: 'query',
    datasource,
    definition: query,
    query: { query, refId: name },
    refresh: 2,
    sort: 1,
    hide: 0,
    multi: true,
    includeAll: true,
    allValue: '.+',
    current: { selected: true, text: ['All'], value: ['$__all'] },
  };
}

const text = `${JSON.stringify(dashboard(), null, 2)}\n`;
if (process.argv.includes('--check')) {
  if (readFileSync(FILE, 'utf8') !== text) {
    console.error('helm/postern/files/dashboard.json is not what scripts/dashboard.mjs makes: run that.');
    process.exitCode = 1;
  }
} else {
  writeFileSync(FILE, text);
}
