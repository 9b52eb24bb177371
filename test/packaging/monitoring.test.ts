/**
 * What Prometheus and Grafana are given: every query finds its metrics in a real `/metrics`, every alert is explained
 * and tested.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { begin, vote } from '../recipes/transaction/client.js';
import { eventually } from '../support/eventually.js';
import { spawnReplica, STANDING_WATCHES, type ReplicaProcess } from '../support/start-gateway.js';
import { Exposition, groupingOf, selectorsOf } from './promql.js';

interface Panel {
  type: string;
  title: string;
  description: string;
  datasource: { uid: string };
  gridPos: { x: number; y: number; w: number; h: number };
  targets: { expr: string; datasource: { uid: string } }[];
}
interface Alert {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string; description: string; runbook_url: string };
}
interface AlertTest {
  alertname: string;
  exp_alerts: unknown[];
}

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

const dashboard = JSON.parse(read('helm/postern/files/dashboard.json')) as { panels: Panel[] };
const { groups } = parse(read('helm/postern/files/rules.yaml')) as { groups: { rules: Alert[] }[] };
const { tests } = parse(read('compose/rules.test.yaml')) as { tests: { alert_rule_test: AlertTest[] }[] };
const runbook = read('docs/runbook.md');

const alerts = groups.flatMap(({ rules }) => rules);
const panels = dashboard.panels.filter(({ type }) => type !== 'row');
const expressions: [string, string][] = [
  ...panels.flatMap(({ title, targets }) => targets.map(({ expr }): [string, string] => [`panel ${title}`, expr])),
  ...alerts.map(({ alert, expr }): [string, string] => [`alert ${alert}`, expr]),
];

/** Statuses of answers are the labels that are not there from the start. */
const GROWS_WITH_TRAFFIC = ['status'];

let replica: ReplicaProcess;
let page: Exposition;
beforeAll(async () => {
  replica = await spawnReplica();
  const [holder, waiter] = await Promise.all([replica.createLease(), replica.createLease()]);
  await replica.hold('seen', holder);
  const waited = replica.acquire('seen', waiter, { waitMs: 5_000 });
  await replica.untilWaiting('seen', 1);
  await replica.release('seen', holder);
  expect((await waited).status).toBe(200);
  await replica.release('seen', waiter);
  const gone = await replica.createLease();
  await replica.hold('inherited', gone);
  const inherited = replica.acquire('inherited', waiter, { waitMs: 5_000 });
  // Only who watches when the lease ends has to be woken.
  const watching = new RegExp(`^postern_watches ${STANDING_WATCHES + 1}$`, 'm');
  await eventually('it watches', async () => watching.test((await replica.call('GET', '/metrics')).body as string));
  await replica.endLease(gone);
  expect((await inherited).status).toBe(200);
  await replica.release('inherited', waiter);
  await replica.expect(201, 'POST', '/v1/queues/seen/messages', { body: { messages: [{ body: 1 }] } });
  await replica.expect(201, 'POST', '/v1/queues/halted/messages', { body: { messages: [{ body: 1 }] } });
  await replica.expect(204, 'POST', '/v1/queues/halted/pause');
  // Somebody waits while it is read, so that there are contended names.
  await replica.hold('crowded', holder);
  void replica.acquire('crowded', waiter, { waitMs: 50_000 }).catch(() => undefined); // until the replica goes
  await replica.untilWaiting('crowded', 1);
  const id = await begin(replica, ['only']);
  await vote(replica, id, holder, 'only');
  // How deep queues are is counted now and then.
  page = await eventually('the queues are counted', async () => {
    const found = new Exposition((await replica.call('GET', '/metrics')).body as string);
    const areThere =
      found.hasValue('postern_queue_depth', 'queue', 'seen') &&
      found.hasValue('postern_queue_paused', 'queue', 'halted');
    return areThere && found;
  });
});
afterAll(() => replica[Symbol.asyncDispose]());

describe('every query', () => {
  it.each(expressions)('%s reads metrics that there are', (_, expression) => {
    for (const { metric } of selectorsOf(expression)) expect(page.has(metric), metric).toBe(true);
  });

  it.each(expressions)('%s matches labels and values that there are', (_, expression) => {
    for (const { metric, matchers } of selectorsOf(expression)) {
      for (const [label, value] of Object.entries(matchers)) {
        expect(page.hasLabel(metric, label), `${metric}{${label}}`).toBe(true);
        if (value === undefined || GROWS_WITH_TRAFFIC.includes(label)) continue;
        expect(page.hasValue(metric, label, value), `${metric}{${label}="${value}"}`).toBe(true);
      }
    }
  });

  it.each(expressions)('%s groups by labels that there are', (_, expression) => {
    const read = selectorsOf(expression).map(({ metric }) => metric);
    for (const label of groupingOf(expression))
      expect(
        read.some((metric) => page.hasLabel(metric, label)),
        label,
      ).toBe(true);
  });

  it('is found at all: nearly every metric of the gateway is on the dashboard', () => {
    const shown = new Set(panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => selectorsOf(expr))));
    expect(new Set([...shown].map(({ metric }) => metric)).size).toBeGreaterThan(25);
    expect(alerts.every(({ expr }) => expr.includes('postern_') || expr.startsWith('up{'))).toBe(true);
  });
});

describe('the metrics', () => {
  it('call nothing a total that can go down', async () => {
    const text = (await replica.call('GET', '/metrics')).body as string;
    const gauges = [...text.matchAll(/^# TYPE (\S+) gauge$/gm)].map(([, name]) => name);
    expect(gauges.length).toBeGreaterThan(10);
    expect(gauges.filter((name) => name?.endsWith('_total'))).toEqual([]);
  });

  it('do not carry their type in their name, which promtool refuses', async () => {
    const text = (await replica.call('GET', '/metrics')).body as string;
    const names = [...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name);
    expect(names.filter((name) => /_(counter|gauge|histogram|summary)(_|$)/.test(name ?? ''))).toEqual([]);
  });

  it('name what is contended while somebody waits', () => {
    expect(page.hasValue('postern_contended_waiters', 'name', 'crowded')).toBe(true);
  });
});

describe('the dashboard', () => {
  it('begins with four numbers: herd factor, waiters, longest wait, refusals', () => {
    const [row, ...first] = dashboard.panels;
    expect(row).toMatchObject({ type: 'row', title: 'Now' });
    const shown = first.slice(0, 4).map(({ type, targets }) => `${type} ${targets[0]?.expr}`);
    expect(shown[0]).toMatch(/^stat .*wakeups_total.*handoffs_total/);
    expect(shown[1]).toMatch(/^stat .*postern_waiters/);
    expect(shown[2]).toMatch(/^stat .*postern_oldest_wait_seconds/);
    expect(shown[3]).toMatch(/^stat .*limit_refusals_total.*overload_refusals_total/);
  });

  it('has which names are contended next, then what is refused', () => {
    const next = dashboard.panels.slice(5);
    expect(next[0]).toMatchObject({ type: 'row', title: 'Herd and contention' });
    expect(next[1]?.targets[0]?.expr).toContain('sum by (namespace, kind, name) (postern_contended_waiters');
    const refusals = next.find(({ title }) => title === 'Refusals by reason');
    expect(refusals?.targets.map(({ expr }) => expr).join()).toMatch(/limit_refusals.*overload_refusals/);
  });

  it('lets no two panels overlap', () => {
    const taken = new Set<string>();
    for (const { title, gridPos } of dashboard.panels)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          expect(taken.has(`${x} ${y}`), title).toBe(false);
          taken.add(`${x} ${y}`);
        }
  });

  it('reads from the chosen data source, and explains each panel', () => {
    for (const { title, description, datasource, targets } of panels) {
      expect(description.length, title).toBeGreaterThan(10);
      for (const { uid } of [datasource, ...targets.map((target) => target.datasource)])
        expect(uid).toBe('${datasource}');
    }
  });
});

describe('every alert', () => {
  it.each(alerts.map(({ alert, labels, annotations }) => ({ alert, labels, annotations })))(
    '$alert says how bad it is, and leads to its section of the runbook',
    ({ alert, labels, annotations }) => {
      expect(['critical', 'warning', 'info']).toContain(labels.severity);
      expect(annotations.summary).toMatch(/\.$/);
      expect(annotations.description).toMatch(/\.$/);
      expect(annotations.runbook_url).toBe(`docs/runbook.md#${alert.toLowerCase()}`);
      expect(runbook).toContain(`\n## ${alert}\n`);
    },
  );

  it.each(alerts.map(({ alert }) => alert))('%s is tested: where it fires, and where it does not', (alert) => {
    const cases = tests
      .flatMap(({ alert_rule_test }) => alert_rule_test)
      .filter(({ alertname }) => alertname === alert);
    expect(cases.some(({ exp_alerts }) => exp_alerts.length > 0)).toBe(true);
    expect(cases.some(({ exp_alerts }) => exp_alerts.length === 0)).toBe(true);
  });

  it('has a section of the runbook, and each section an alert', () => {
    const sections = [...runbook.matchAll(/^## (.+)$/gm)].map(([, title]) => title);
    expect(sections).toEqual(alerts.map(({ alert }) => alert));
  });
});
