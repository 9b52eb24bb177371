/** What is checked of alerts and metrics with Prometheus' own tool. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { ROOT } from '../lib/install.mjs';
import { thePair } from './scene.mjs';
import { must, tools } from './tools.mjs';

const RULES = join(ROOT, 'helm', 'postern', 'files', 'rules.yaml');
const RULES_TEST = join(ROOT, 'compose', 'rules.test.yaml');

export const monitoringChecks = [
  { name: 'alerts: the rules are rules', check: checkRules },
  { name: 'alerts: their unit tests pass', check: testRules },
  { name: 'metrics: a real page has good names, help and units', check: checkMetrics },
];

async function checkRules() {
  const output = await must(await tools.promtool(), ['check', 'rules', RULES]);
  return /(\d+ rules) found/.exec(output)?.[1];
}

async function testRules() {
  await must(await tools.promtool(), ['test', 'rules', RULES_TEST]);
}

export async function checkMetrics() {
  const promtool = await tools.promtool();
  const { replicas } = await thePair();
  for (const { opsUrl } of replicas) {
    const page = await (await fetch(`${opsUrl}/metrics`)).text();
    const child = spawn(promtool, ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk.toString()));
    child.stdin.end(page);
    const [code] = await once(child, 'close');
    if (code !== 0) throw new Error(output || `exit code ${code}`);
  }
}
