/** The chart's pods, its test and the examples, run as processes against a real ensemble. */
import { createHash, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { EXAMPLES, objectsOf, template } from './chart-checks.mjs';
import { startPod } from './pods.mjs';
import { eventually, theBalancer, theEnsemble, theImage } from './scene.mjs';
import { freePort } from './zookeepers.mjs';

export const podChecks = [
  { name: 'chart: its pod starts with what the chart gives it, and asks for keys', check: runDeployment },
  { name: 'chart: `helm test` takes and releases a lock, and fails where it cannot', check: runHelmTest },
  {
    name: 'gateway in a pod: is ready before the program, serves it on loopback, stops after it',
    check: runGatewayInPod,
  },
  { name: 'sidecar: leads for the program beside it, and gives the lead back after it', check: runSidecar },
  { name: 'cronjob: works when the lock is free, and does nothing while somebody else has it', check: runCronJob },
];

async function runDeployment() {
  const [image, { connectString }] = await Promise.all([theImage(), theEnsemble()]);
  const key = randomBytes(32).toString('base64url');
  const hash = createHash('sha256').update(key).digest('hex');
  const objects = objectsOf(await template('keys-in-values.yaml', { sets: [`auth.keys[0].hash=sha256:${hash}`] }));
  const [deployment] = objects.filter(({ kind }) => kind === 'Deployment');
  const { spec } = deployment.spec.template;
  const ports = { http: await freePort(), ops: await freePort() };
  // What the chart's README has the operator make.
  const leaseKeys = {
    kind: 'Secret',
    metadata: { name: 'coordination-lease-keys' },
    data: { 'lease-keys': Buffer.from(randomBytes(32).toString('base64')).toString('base64') },
  };
  const pod = await startPod(spec, {
    image,
    objects: [...objects, leaseKeys],
    replace: {
      POSTERN_HOST: '127.0.0.1',
      POSTERN_PORT: String(ports.http),
      POSTERN_OPS_PORT: String(ports.ops),
      POSTERN_ZOOKEEPER: connectString,
      POSTERN_ZOOKEEPER_TLS: 'false',
    },
  });
  try {
    const [{ startupProbe, livenessProbe, readinessProbe }] = spec.containers;
    for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe]) {
      await eventually(`${httpGet.path} answers`, async () => {
        const { status } = await fetch(`http://127.0.0.1:${ports[httpGet.port]}${httpGet.path}`);
        return status === 200;
      });
    }
    const ask = async (/** @type {Record<string, string>} */ headers) =>
      (await fetch(`http://127.0.0.1:${ports.http}/v1/locks`, { headers })).status;
    const answers = [await ask({}), await ask({ authorization: `Bearer ${key}` })];
    if (answers.join() !== '401,200') throw new Error(`without and with a key: ${answers.join()}`);
  } catch (error) {
    throw new Error(`${/** @type {Error} */ (error).message}\n${pod.containers[0]?.started.output}`);
  } finally {
    await pod.stop();
  }
}

async function runHelmTest() {
  const [image, { url }] = await Promise.all([theImage(), theBalancer()]);
  const objects = objectsOf(await template('smallest.yaml'));
  const test = objects.find(({ metadata }) => metadata.annotations?.['helm.sh/hook'] === 'test');
  const runAt = async (address) => {
    const pod = await startPod(test.spec, { image, objects, replace: { POSTERN_URL: address } });
    const [ended] = await pod.end();
    return ended;
  };
  const good = await runAt(url);
  if (good?.code !== 0) throw new Error(good?.output);
  const bad = await runAt(`http://127.0.0.1:${await freePort()}`);
  if (bad?.code !== 69) throw new Error(`not told that nobody serves: ${bad?.code}: ${bad?.output}`);
  return good.output.trim().split('\n').at(-1);
}

async function runGatewayInPod() {
  const [image, { connectString }] = await Promise.all([theImage(), theEnsemble()]);
  const objects = objectsOf(await readFile(join(EXAMPLES, 'gateway-in-pod.yaml'), 'utf8'));
  const { spec } = objects[0].spec.template;
  const [sidecar] = spec.initContainers;
  const host = sidecar.env.find(({ name }) => name === 'POSTERN_HOST').value;
  if (host !== '127.0.0.1') throw new Error(`the gateway listens on ${host}`);
  const port = String(await freePort());
  const replace = { POSTERN_PORT: port, POSTERN_ZOOKEEPER: connectString, POSTERN_URL: `http://127.0.0.1:${port}` };
  const pod = await startPod(spec, { image, objects, replace });
  const ended = await pod.end();
  const failed = ended.filter(({ code }) => code !== 0);
  if (failed.length > 0)
    throw new Error(failed.map(({ name, code, output }) => `${name}: ${code}: ${output}`).join('\n'));
}

async function runSidecar() {
  const [image, { url }] = await Promise.all([theImage(), theBalancer()]);
  const ports = { 8080: await freePort(), 7072: await freePort() };
  let text = await readFile(join(EXAMPLES, 'sidecar.yaml'), 'utf8');
  for (const [port, here] of Object.entries(ports)) text = text.replaceAll(port, String(here));
  const objects = objectsOf(text);
  const { spec } = objects[0].spec.template;
  // The program asks at a fixed port of its pod; here others may have that.
  spec.initContainers[0].args.push('--listen', '127.0.0.1:0');
  const secrets = { 'postern-api-key/api-key': 'not-asked-for' };
  const pod = await startPod(spec, { image, objects, replace: { POSTERN_URL: url }, secrets });
  const election = async () => (await fetch(`${url}/v1/elections/writer`)).json();
  try {
    await eventually('the pod leads', async () => {
      const { status } = await fetch(`http://127.0.0.1:${ports[7072]}/leader`);
      return status === 200;
    });
    const { leader } = await election();
    if (leader.value !== `127.0.0.1:${ports[8080]}` || leader.label !== 'a-pod')
      throw new Error(`leads as ${JSON.stringify(leader)}`);
  } catch (error) {
    throw new Error(`${/** @type {Error} */ (error).message}\n${pod.sidecars[0]?.started.output}`);
  } finally {
    await pod.stop();
  }
  const ended = pod.sidecars[0]?.started;
  if (ended?.child.exitCode !== 0) throw new Error(`exit code ${ended?.child.exitCode}: ${ended?.output}`);
  const { candidateCount } = await election();
  if (candidateCount !== 0) throw new Error('the lead was not given back');
}

async function runCronJob() {
  const [image, { url }] = await Promise.all([theImage(), theBalancer()]);
  const objects = objectsOf(await readFile(join(EXAMPLES, 'cronjob.yaml'), 'utf8'));
  const { spec } = objects.find(({ kind }) => kind === 'CronJob').spec.jobTemplate.spec.template;
  const run = async () => {
    const secrets = { 'postern-api-key/api-key': 'not-asked-for' };
    const pod = await startPod(spec, { image, objects, replace: { POSTERN_URL: url }, secrets });
    const [ended] = await pod.end();
    if (ended?.code !== 0) throw new Error(`exit code ${ended?.code}: ${ended?.output}`);
    return ended.output;
  };
  const tokenOf = (/** @type {string} */ output) => Number(/fencing token (\d+)\n/.exec(output)?.[1]);
  const first = await run();
  const release = await takeLock(url, 'nightly-report');
  const idle = await run();
  if (tokenOf(idle) > 0 || !idle.includes('somebody else has the lock')) throw new Error(`while it is held: ${idle}`);
  await release();
  const next = await run();
  if (!(tokenOf(next) > tokenOf(first))) throw new Error(`${first}---\n${next}`);
}

/** As somebody else. @param {string} url @param {string} name @returns {Promise<() => Promise<void>>} gives it back */
async function takeLock(url, name) {
  const ask = (/** @type {string} */ method, /** @type {string} */ path, /** @type {RequestInit} */ rest) =>
    fetch(url + path, { method, ...rest });
  const body = JSON.stringify({ lease: { ttlMs: 30_000 }, requestId: randomBytes(16).toString('hex'), waitMs: 10_000 });
  const headers = { 'content-type': 'application/json' };
  const acquired = await ask('POST', `/v1/locks/${name}/acquire`, { headers, body });
  if (acquired.status !== 200) throw new Error(`${acquired.status}: ${await acquired.text()}`);
  const { leaseToken } = /** @type {{ leaseToken: string }} */ (await acquired.json());
  return async () => void (await ask('DELETE', '/v1/leases/self', { headers: { 'lease-token': leaseToken } }));
}
