/**
 * Writes the Grafana dashboard from the tables in `dashboard/`: `node scripts/dashboard.mjs`; `--check` only says
 * whether it is current.
 *
 * The classic JSON of a dashboard is two thousand lines of which forty mean something; those are there.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONTENTION } from './dashboard/contention.mjs';
import { RECIPES } from './dashboard/recipes.mjs';
import { SYSTEM } from './dashboard/system.mjs';
import { ROOT } from './lib/install.mjs';

const FILE = join(ROOT, 'helm', 'postern', 'files', 'dashboard.json');

const WIDTH = 24;
const ROW_HEIGHT = 1;
const PANEL_HEIGHT = 8;

/**
 * @typedef {object} Panel
 * @property {string} title
 * @property {string} about
 * @property {string} unit  one of Grafana's
 * @property {[string, string][]} queries  each with the legend of its lines
 * @property {number} [width]  in columns of 24
 * @property {boolean} [stack]
 * @property {boolean} [stat]  a number, and not a line over time
 */

/**
 * @typedef {object} Row
 * @property {string} title
 * @property {number} [height]  of its panels
 * @property {Panel[]} panels
 */

const datasource = { type: 'prometheus', uid: '${datasource}' };

function dashboard() {
  const panels = [];
  let y = 0;
  for (const row of [...CONTENTION, ...RECIPES, ...SYSTEM]) {
    panels.push({
      type: 'row',
      title: row.title,
      collapsed: false,
      gridPos: { x: 0, y, w: WIDTH, h: ROW_HEIGHT },
      panels: [],
    });
    y += ROW_HEIGHT;
    const h = row.height ?? PANEL_HEIGHT;
    let x = 0;
    for (const panel of row.panels) {
      const w = panel.width ?? WIDTH / 3;
      if (x + w > WIDTH) [x, y] = [0, y + h];
      panels.push(drawn(panel, { x, y, w, h }));
      x += w;
    }
    y += h;
  }
  return {
    uid: 'postern',
    title: 'Postern',
    description:
      'Herd and contention first, as numbers and over time, then queues, configuration, transactions, leases, ZooKeeper, HTTP and the processes.',
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
