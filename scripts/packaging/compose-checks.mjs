/** What is checked of compose.yaml: its form, what it mounts, and the programs' own verdict on their settings. */
import { copyFile, mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';
import { ROOT } from '../lib/install.mjs';
import { debianEnvironment, must, tools } from './tools.mjs';

export const composeChecks = [
  { name: 'compose: the file is of the form that engines read', check: checkForm },
  { name: 'compose: what it names is there, and only loopback is published', check: checkReferences },
  { name: 'compose: the balancer takes its settings', check: checkBalancer },
  { name: 'compose: Prometheus takes its settings', check: checkPrometheus },
];

/** YAML merges (`<<`) are resolved, as engines do. */
async function composeFile() {
  return parse(await readFile(join(ROOT, 'compose.yaml'), 'utf8'), { merge: true });
}

async function checkForm() {
  const schema = JSON.parse(await readFile(join(await tools.composeModule(), 'schema', 'compose-spec.json'), 'utf8'));
  const ajv = new Ajv2020.default({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addFormat('ports', true).addFormat('expose', true).addFormat('subnet_ip_address', true);
  const validate = ajv.compile(schema);
  if (!validate(await composeFile())) throw new Error(ajv.errorsText(validate.errors, { separator: '\n' }));
}

async function checkReferences() {
  const { services, volumes, networks } = await composeFile();
  for (const [name, service] of Object.entries(services)) {
    const wrong = (/** @type {string} */ what) => {
      throw new Error(`service ${name}: ${what}`);
    };
    if (service.build === undefined && !/:[^:]*\d/.test(service.image)) wrong(`${service.image} has no version`);
    for (const other of Array.isArray(service.depends_on)
      ? service.depends_on
      : Object.keys(service.depends_on ?? {})) {
      if (!(other in services)) wrong(`depends on ${other}, which is not there`);
      if (service.depends_on[other]?.condition !== 'service_healthy') continue;
      // The image of the gateway has its own healthcheck.
      if (services[other].healthcheck === undefined && services[other].build === undefined)
        wrong(`waits for the health of ${other}, which has no healthcheck`);
    }
    for (const network of service.networks) if (!(network in networks)) wrong(`network ${network} is not there`);
    for (const volume of service.volumes ?? []) {
      const [source = ''] = volume.split(':');
      if (source.startsWith('.')) await stat(join(ROOT, source));
      else if (!(source in volumes)) wrong(`volume ${source} is not there`);
    }
    for (const port of service.ports ?? [])
      if (!port.startsWith('127.0.0.1:')) wrong(`publishes ${port} beyond loopback`);
  }
  return `${Object.keys(services).length} services`;
}

async function checkBalancer() {
  const { environment } = (await composeFile()).services.balancer;
  // The names of the replicas exist where the compose file runs.
  const env = { ...(await debianEnvironment()), ...environment, POSTERN_1: '127.0.0.1:1', POSTERN_2: '127.0.0.1:2' };
  const output = await must(await tools.haproxy(), ['-c', '-f', join(ROOT, 'compose', 'haproxy.cfg')], { env });
  if (/\[(WARNING|ALERT)\]/.test(output)) throw new Error(output);
}

async function checkPrometheus() {
  const dir = await mkdtemp(join(tmpdir(), 'postern-prometheus-'));
  try {
    const { volumes } = (await composeFile()).services.prometheus;
    const mounts = volumes.map((volume) => volume.split(':')).filter(([source]) => source.startsWith('.'));
    for (const [source, target] of mounts)
      await copyFile(join(ROOT, source), join(dir, target.replace('/etc/prometheus/', '')));
    await must(await tools.promtool(), ['check', 'config', join(dir, 'prometheus.yml')]);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
