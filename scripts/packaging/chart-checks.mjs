/** What is checked of the chart, with each of the value files in `helm/postern/ci`, and of the examples beside it. */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { parse, parseAllDocuments } from 'yaml';
import { ROOT } from '../lib/install.mjs';
import { run } from '../lib/run.mjs';
import { PROGRAM_VALUES, templateProgram } from './sidecar-chart.mjs';
import { KUBERNETES_VERSIONS, must, tools } from './tools.mjs';

const CHART = join(ROOT, 'helm', 'postern');
const VALUES = join(CHART, 'ci');
export const EXAMPLES = join(ROOT, 'helm', 'examples');
const [OLDEST = ''] = KUBERNETES_VERSIONS;
const HELM_MS = 60_000;
const ZOOKEEPER_PORT = 2181;
const TEMPLATE_BYTES_MAX = 16 * 1_048_576;

/** What must not be installed, and words of the sentence that says why. */
const REFUSED = [
  { values: ['zookeeper.connectString='], says: 'zookeeper.connectString is empty' },
  { values: ['auth.insecure=false'], says: 'there are no API keys' },
  { values: ['auth.insecure=false', 'auth.secret=keys'], says: 'set leaseKeys.secret or zookeeper.authSecret' },
  { values: ['auth.oidc.issuer=https://login.example.org'], says: 'auth.oidc.audience' },
  { values: ['auth.oidc.audience[0]=postern'], says: 'without auth.oidc.issuer' },
  { values: ['auth.oidc.issuer=login.example.org'], says: 'issuer' },
  { values: ['tls.clientCaSecret=clients'], says: 'tls.clientCaSecret needs tls.secret' },
  { values: ['replicas=3'], says: 'replicas' },
  { values: ['replicaCount=many'], says: 'replicaCount' },
  { values: ['zookeeper.connectString=zk:2181 zk:2182'], says: 'connectString' },
  { values: ['settings.maxWaitMs=0'], says: 'maxWaitMs' },
  { values: ['settings.root=/a/../b'], says: 'root' },
  { values: ['auth.keys[0].id=a', 'auth.keys[0].hash=secret', 'auth.keys[0].namespaces=*'], says: 'hash' },
  { values: ['zookeeper.tls.clientCertificate=true'], says: 'zookeeper.tls.secret' },
  { values: ['ingress.enabled=true'], says: 'ingress.host' },
  { values: ['ingress.enabled=true', 'ingress.host=postern.example.org'], says: 'networkPolicy.clients' },
  { values: ['service.type=LoadBalancer'], says: 'networkPolicy.clients' },
  { values: ['serviceMonitor.enabled=true'], says: 'networkPolicy.scrapers' },
];

export const chartChecks = [
  { name: 'chart: lints with every value file', check: lint },
  { name: 'chart: refuses values that could not work', check: refuses },
  { name: 'chart: gives what Kubernetes and the Prometheus operator take', check: conforms },
  { name: 'chart: pods are not root, write nowhere, and are probed without ZooKeeper', check: checkPods },
  { name: 'chart: nobody but those who are named reaches a pod, and it reaches ZooKeeper', check: checkNetwork },
  { name: 'chart: settings are those of the gateway', check: checkSettings },
  { name: 'chart: the container of a sidecar is that of the example, and mistakes are refused', check: checkSidecar },
  { name: 'chart: a setting that is emptied is left to the gateway', check: checkEmptied },
];

function valueFiles() {
  return readdir(VALUES);
}

async function lint() {
  const files = await valueFiles();
  const helm = await tools.helm();
  for (const file of files)
    await must(helm, ['lint', '--strict', '--kube-version', OLDEST, CHART, '-f', join(VALUES, file)]);
  return `${files.length} value files`;
}

/**
 * What the chart makes of a value file.
 * @param {string} name @param {{ version?: string, sets?: readonly string[] }} [options]
 * @returns {Promise<string>}
 */
export async function template(name, { version = OLDEST, sets = [] } = {}) {
  const more = sets.flatMap((set) => ['--set', set]);
  const args = ['template', 'release', CHART, '--kube-version', version, '-f', join(VALUES, name), ...more];
  const { stdout } = await promisify(execFile)(await tools.helm(), args, { maxBuffer: TEMPLATE_BYTES_MAX });
  return stdout;
}

async function refuses() {
  const helm = await tools.helm();
  const smallest = join(VALUES, 'smallest.yaml');
  for (const { values, says } of REFUSED) {
    const sets = values.flatMap((value) => ['--set', value]);
    const args = ['template', 'release', CHART, '--kube-version', OLDEST, '-f', smallest, ...sets];
    const { code, output } = await run(helm, args, { timeoutMs: HELM_MS });
    if (code === 0) throw new Error(`took ${values.join(', ')}`);
    if (!output.includes(says)) throw new Error(`refused ${values.join(', ')} without "${says}": ${output}`);
  }
  return `${REFUSED.length} mistakes`;
}

async function conforms() {
  const [kubeconform, schemas] = await Promise.all([tools.kubeconform(), tools.schemas()]);
  const dir = await mkdtemp(join(tmpdir(), 'postern-chart-'));
  let count = 0;
  try {
    for (const version of KUBERNETES_VERSIONS) {
      const manifests = [];
      for (const [index, file] of (await valueFiles()).entries()) {
        manifests.push(join(dir, `${version}-${index}.yaml`));
        await writeFile(manifests.at(-1) ?? '', await template(file, { version }));
      }
      for (const file of PROGRAM_VALUES) {
        manifests.push(join(dir, `${version}-program-${file}`));
        await writeFile(manifests.at(-1) ?? '', await programOf(file, version));
      }
      for (const name of await readdir(EXAMPLES)) manifests.push(join(EXAMPLES, name));
      const locations = [`v${version}`, 'operator'].flatMap((name) => [
        '-schema-location',
        join(schemas, name, '{{ .ResourceKind }}{{ .KindSuffix }}.json'),
      ]);
      const args = [
        '-strict',
        '-summary',
        '-output',
        'json',
        '-kubernetes-version',
        version,
        ...locations,
        ...manifests,
      ];
      const { code, output } = await run(kubeconform, args, { timeoutMs: HELM_MS });
      const { resources, summary } = JSON.parse(output);
      if (code !== 0 || summary.skipped > 0)
        throw new Error(
          resources?.map(({ kind, name, msg }) => `${version} ${kind} ${name}: ${msg}`).join('\n') ?? output,
        );
      count += summary.valid;
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
  return `${count} objects, on Kubernetes ${KUBERNETES_VERSIONS.join(' and ')}`;
}

/** @param {string} text @returns {any[]} */
export function objectsOf(text) {
  return parseAllDocuments(text)
    .map((document) => document.toJS())
    .filter((object) => object !== null);
}

/** The pods that a manifest would make, each with the name of what makes it. */
function podsOf(objects) {
  return objects.flatMap(({ kind, metadata, spec }) => {
    const pod = kind === 'Pod' ? spec : kind === 'CronJob' ? spec.jobTemplate.spec.template.spec : spec?.template?.spec;
    return pod === undefined ? [] : [{ name: `${kind} ${metadata.name}`, pod }];
  });
}

async function checkPods() {
  const texts = await Promise.all([
    ...(await valueFiles()).map((file) => template(file)),
    ...PROGRAM_VALUES.map((file) => programOf(file, OLDEST)),
    ...(await readdir(EXAMPLES)).map((name) => readFile(join(EXAMPLES, name), 'utf8')),
  ]);
  const pods = texts.flatMap((text) => podsOf(objectsOf(text)));
  for (const { name, pod } of pods) {
    const must = (condition, what) => {
      if (!condition) throw new Error(`${name}: ${what}`);
    };
    must(pod.securityContext.runAsNonRoot === true && pod.securityContext.runAsUser > 0, 'may be root');
    must(pod.securityContext.seccompProfile.type === 'RuntimeDefault', 'has no seccomp profile');
    must(pod.automountServiceAccountToken === false, 'has a token for the API of the cluster');
    for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
      const { securityContext, resources, livenessProbe, image } = container;
      must(securityContext.readOnlyRootFilesystem === true, `${container.name} may write`);
      must(securityContext.allowPrivilegeEscalation === false, `${container.name} may become more than it is`);
      must(securityContext.capabilities.drop.includes('ALL'), `${container.name} has capabilities`);
      must(resources.limits.memory !== undefined, `${container.name} has no limit of memory`);
      must(!image.endsWith(':latest'), `${image} is no version`);
      const probed = livenessProbe?.httpGet?.path ?? livenessProbe?.exec?.command.at(-1) ?? '/healthz';
      must(probed === '/healthz', `${container.name}: liveness asks ${probed}`);
    }
  }
  return `${pods.length} pods`;
}

async function programOf(file, version) {
  const { code, output } = await templateProgram(file, { version });
  if (code !== 0) throw new Error(output);
  return output;
}

async function checkSidecar() {
  const containerOf = (text) => podsOf(objectsOf(text))[0].pod.initContainers[0];
  const made = containerOf(await programOf('values.yaml', OLDEST));
  const shown = containerOf(await readFile(join(EXAMPLES, 'sidecar.yaml'), 'utf8'));
  if (!isDeepStrictEqual(made, shown))
    throw new Error(`the chart makes ${JSON.stringify(made)}, the example has ${JSON.stringify(shown)}`);
  for (const { set, says } of [
    { set: 'sidecar.health=', says: 'health is empty' },
    { set: 'sidecar.elected=writer', says: 'there is no value "elected"' },
  ]) {
    const { code, output } = await templateProgram('values.yaml', { version: OLDEST, sets: [set] });
    if (code === 0 || !output.includes(says)) throw new Error(`${set}: ${output}`);
  }
}

async function checkNetwork() {
  const files = await valueFiles();
  for (const file of files) {
    const wrong = (/** @type {string} */ what) => new Error(`${file}: ${what}`);
    const objects = objectsOf(await template(file));
    const policy = objects.find(({ kind }) => kind === 'NetworkPolicy');
    if (policy === undefined) throw wrong('has no network policy');
    for (const { from = [], ports } of policy.spec.ingress)
      if (from.length === 0) throw wrong(`everybody reaches ${ports[0].port}`);
    const deployment = podsOf(objects).find(({ name }) => name.startsWith('Deployment'));
    const { value } = deployment?.pod.containers[0].env.find(({ name }) => name === 'POSTERN_ZOOKEEPER');
    const servers = value.split('/')[0].split(',');
    const wanted = [...new Set(servers.map((server) => Number(/:(\d+)$/.exec(server)?.[1] ?? ZOOKEEPER_PORT)))].join();
    const open = policy.spec.egress[0].ports.map(({ port }) => port).join();
    if (open !== wanted) throw wrong(`ZooKeeper is at ${wanted}, open are ${open}`);
  }
  return `${files.length} value files`;
}

/** Every variable that the chart sets is one that the gateway reads, with the default that the gateway has. */
async function checkSettings() {
  const page = await readFile(join(ROOT, 'docs', 'settings.md'), 'utf8');
  const known = new Map(
    [...page.matchAll(/^\| `(POSTERN_\w+)` +\| (?:`([^`]*)`)? *\|/gm)].map(([, name, fallback]) => [name, fallback]),
  );
  const environments = await Promise.all(
    (await valueFiles()).map(async (file) => podsOf(objectsOf(await template(file)))),
  );
  const variables = environments
    .flat()
    .filter(({ name }) => name.startsWith('Deployment'))
    .flatMap(({ pod }) => pod.containers[0].env)
    .filter(({ name }) => name.startsWith('POSTERN_'));
  for (const { name } of variables) if (!known.has(name)) throw new Error(`${name} is not a setting of the gateway`);
  const { settings } = parse(await readFile(join(CHART, 'values.yaml'), 'utf8'));
  for (const [key, value] of Object.entries(settings)) {
    const name = variableOf(key);
    if (!known.has(name)) throw new Error(`settings.${key} is not a setting of the gateway`);
    const fallback = known.get(name) ?? '';
    if (String(value ?? '') !== fallback)
      throw new Error(`settings.${key} is ${value}; the gateway's default is ${fallback}`);
  }
  return `${new Set(variables.map(({ name }) => name)).size} variables`;
}

/** And the pod gives a gateway that stops the time that it takes by these defaults. A 0 is no emptied value. */
async function checkEmptied() {
  const podWith = async (/** @type {readonly string[]} */ sets) => {
    const pods = podsOf(objectsOf(await template('smallest.yaml', { sets })));
    return pods.find(({ name }) => name.startsWith('Deployment'))?.pod;
  };
  const { settings } = parse(await readFile(join(CHART, 'values.yaml'), 'utf8'));
  const nulls = Object.keys(settings).map((key) => `settings.${key}=null`);
  const variables = Object.keys(settings).map(variableOf);
  for (const { name, value } of (await podWith(nulls)).containers[0].env)
    if (variables.includes(name) && (value ?? '') !== '') throw new Error(`${name} is emptied, but is "${value}"`);
  const { terminationGracePeriodSeconds: usual } = await podWith([]);
  for (const { seconds, sets } of [
    { seconds: usual, sets: nulls },
    { seconds: usual, sets: ['settings.drainPauseMs=null'] },
    { seconds: 10, sets: ['settings.drainPauseMs=0', 'settings.drainMs=0'] },
  ]) {
    const { terminationGracePeriodSeconds: given } = await podWith(sets);
    if (given !== seconds) throw new Error(`${sets.join(', ')}: ${given} seconds to stop, not ${seconds}`);
  }
  return `${variables.length} settings`;
}

/** @param {string} key of `settings` in the values */
function variableOf(key) {
  return `POSTERN_${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}
