/**
 * The whole of it in motion: a pair of replicas behind the balancer under load, scraped by Prometheus. Its rules
 * evaluate, the queries of the dashboard find something, and a replica that is gone is noticed.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../lib/install.mjs';
import { withLoad } from './load.mjs';
import { checkMetrics } from './monitoring-checks.mjs';
import { eventually, theBalancer, thePair, thePrometheus } from './scene.mjs';

/** For the queries: what Grafana would put in. Four scrapes are what a rate needs to be more than a guess. */
const VARIABLES = { $job: '.+', $instance: '.+', $__rate_interval: '5s' };
const FOUND_WITHIN_MS = 60_000;

export const liveChecks = [
  { name: 'live: Prometheus scrapes a running pair, and the rules evaluate', check: checkRulesEvaluate },
  { name: 'live: every query of the dashboard finds data under load', check: checkDashboard },
  { name: 'live: the metrics of a busy replica have good names, help and units', check: checkMetrics },
  { name: 'live: under that load no alert fires', check: checkSilence },
  {
    name: 'live: clients that repeat a request whose connection was cut notice nothing of a replica that stops; Prometheus does',
    check: checkStop,
  },
];

async function checkRulesEvaluate() {
  const prometheus = await thePrometheus();
  await eventually('both replicas are scraped', async () => {
    const { activeTargets } = await prometheus.ask('targets');
    return activeTargets.length === 2 && activeTargets.every(({ health }) => health === 'up');
  });
  await eventually('every rule was evaluated', async () => (await rules()).every(({ health }) => health === 'ok'));
  return `${(await rules()).length} rules`;
}

async function rules() {
  const { groups } = await (await thePrometheus()).ask('rules');
  return groups.flatMap((group) => group.rules);
}

async function checkDashboard() {
  const [prometheus, { url }] = await Promise.all([thePrometheus(), theBalancer()]);
  const { panels, templating } = JSON.parse(
    await readFile(join(ROOT, 'helm', 'postern', 'files', 'dashboard.json'), 'utf8'),
  );
  const queries = panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ title, expr: filled(expr) })),
  );
  await withLoad(url, async () => {
    for (const { title, expr } of queries)
      await eventually(`panel "${title}" shows something: ${expr}`, () => finds(prometheus, expr), FOUND_WITHIN_MS);
  });
  for (const { name, query } of templating.list.filter(({ type }) => type === 'query')) {
    const [, selector, label] = /^label_values\((.+), (\w+)\)$/.exec(query.query) ?? [];
    const values = await prometheus.ask(`label/${label}/values`, { 'match[]': filled(selector ?? '') });
    if (values.length === 0) throw new Error(`the variable ${name} has no values`);
  }
  return `${queries.length} queries`;
}

function filled(/** @type {string} */ expression) {
  return Object.entries(VARIABLES).reduce((text, [name, value]) => text.replaceAll(name, value), expression);
}

async function finds(prometheus, expr) {
  const { result } = await prometheus.ask('query', { query: expr });
  return result.some(({ value }) => Number.isFinite(Number(value[1])));
}

async function checkSilence() {
  const firing = (await rules()).filter(({ state }) => state === 'firing').map(({ name }) => name);
  if (firing.length > 0) throw new Error(`firing: ${firing.join(', ')}`);
}

async function checkStop() {
  const [{ replicas }, { url }] = await Promise.all([thePair(), theBalancer()]);
  const { answered } = await withLoad(url, async () => {
    await replicas[0]?.stop();
    await eventually('PosternReplicaDown is pending', async () =>
      (await rules()).some(({ name, state }) => name === 'PosternReplicaDown' && state === 'pending'),
    );
  });
  const failed = Object.entries(answered).filter(([status]) => !/^2|^409$|^503$|^cut$/.test(status));
  if (failed.length > 0) throw new Error(`answers through the balancer: ${JSON.stringify(answered)}`);
  return JSON.stringify(answered);
}
