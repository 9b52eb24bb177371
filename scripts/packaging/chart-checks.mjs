/** What is checked of the chart, with each of the value files in `helm/postern/ci`, and of the examples beside it. */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse, parseAllDocuments } from 'yaml';
import { ROOT } from '../lib/install.mjs';
import { run } from '../lib/run.mjs';
import { KUBERNETES_VERSIONS, must, tools } from './tools.mjs';

const CHART = join(ROOT, 'helm', 'postern');
const VALUES = join(CHART, 'ci');
export const EXAMPLES = join(ROOT, 'helm', 'examples');
const [OLDEST = ''] = KUBERNETES_VERSIONS;
const HELM_MS = 60_000;
const TEMPLATE_BYTES_MAX = 16 * 1_048_576;

/** What must not be installed, and words of the sentence that says why. */
const REFUSED = [
  { values: ['zookeeper.connectString='], says: 'zookeeper.connectString is empty' },
  { values: ['auth.insecure=false'], says: 'there are no API keys' },
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
];

export const chartChecks = [
  { name: 'chart: lints with every value file', check: lint },
  { name: 'chart: refuses values that could not work', check: refuses },
  { name: 'chart: gives what Kubernetes and the Prometheus operator take', check: conforms },
  { name: 'chart: pods are not root, write nowhere, and are probed without ZooKeeper', check: checkPods },
  { name: 'chart: settings are those of the gateway', check: checkSettings },
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

/** Every variable that the chart sets is one that the gateway reads, with the default that the gateway has. */
async function checkSettings() {
  const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  const known = new Map(
    [...readme.matchAll(/^\| `(POSTERN_\w+)` +\| (?:`([^`]*)`)? *\|/gm)].map(([, name, fallback]) => [name, fallback]),
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
    const name = `POSTERN_${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
    if (!known.has(name)) throw new Error(`settings.${key} is not a setting of the gateway`);
    const fallback = known.get(name) ?? '';
    if (String(value) !== fallback)
      throw new Error(`settings.${key} is ${value}; the gateway's default is ${fallback}`);
  }
  return `${new Set(variables.map(({ name }) => name)).size} variables`;
}
