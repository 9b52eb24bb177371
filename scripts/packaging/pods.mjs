/**
 * Pods as processes of this machine: native sidecars first, each until its startup probe passes, then the containers to
 * their end, then the sidecars are stopped. Environment, commands and mounted files are those of the manifest;
 * addresses are replaced, for there is no cluster network.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { endWithParent } from '../lib/children.mjs';
import { runInImage, startInImage } from './image.mjs';
import { eventually } from './scene.mjs';

const ENDS_WITHIN_MS = 120_000;
/** What the cluster knows of a pod. */
const FIELDS = { 'metadata.name': 'a-pod', 'status.podIP': '127.0.0.1' };

/**
 * @typedef {{ name: string, code: number | null, output: string }} Ended
 * @typedef {{ image: import('./dockerfile.mjs').Image, objects: any[], replace: Record<string, string>, secrets?:
 *   Record<string, string> }} World `objects` are where ConfigMaps and Secrets are looked for; `replace` gives
 *   variables of the environment other values; `secrets` are those that the manifest only names, as `name/key`
 */

/**
 * Starts a pod, and leaves it running.
 * @param {any} spec @param {World} world
 */
export async function startPod(spec, world) {
  const dir = await mkdtemp(join(tmpdir(), 'postern-pod-'));
  await chmod(dir, 0o755); // the image's user reads what is mounted
  const volumes = new Map();
  for (const volume of spec.volumes ?? []) volumes.set(volume.name, await writeVolume(dir, volume, world.objects));
  const start = (container) => startContainer(container, { ...world, volumes });
  /** @type {{ container: any, started: ReturnType<typeof startContainer> }[]} */
  const sidecars = [];
  const stop = async () => {
    for (const { started } of [...sidecars, ...containers].reverse()) await started.stop();
    await rm(dir, { recursive: true, force: true });
  };
  /** @type {{ container: any, started: ReturnType<typeof startContainer> }[]} */
  let containers = [];
  try {
    for (const container of spec.initContainers ?? []) {
      if (container.restartPolicy !== 'Always') throw new Error(`${container.name} is no native sidecar`);
      const started = start(container);
      sidecars.push({ container, started });
      await eventually(`${container.name} has started`, async () => {
        const { passed, output } = await probe(container, world);
        if (!passed) throw new Error(`${output}${started.output}`);
        return true;
      });
    }
    containers = spec.containers.map((container) => ({ container, started: start(container) }));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    sidecars,
    containers,
    stop,
    /** Waits for the containers, then stops the sidecars as the kubelet does. @returns {Promise<Ended[]>} */
    async end() {
      const timer = setTimeout(
        () => containers.forEach(({ started }) => started.child.kill('SIGKILL')),
        ENDS_WITHIN_MS,
      );
      await Promise.all(containers.map(({ started }) => started.exited));
      clearTimeout(timer);
      await stop();
      return [...containers, ...sidecars].map(({ container, started }) => ({
        name: container.name,
        code: started.child.exitCode,
        output: started.output,
      }));
    },
  };
}

/** The startup probe of a container. @returns {Promise<{ passed: boolean, output: string }>} */
async function probe({ name, ports, startupProbe, ...container }, world) {
  const { exec, httpGet } = startupProbe;
  if (exec) {
    const { code, output } = await runInImage(world.image, exec.command, environmentOf(container, world));
    return { passed: code === 0, output };
  }
  const port = ports.find((each) => each.name === httpGet.port)?.containerPort ?? httpGet.port;
  const { ok, status } = await fetch(`http://127.0.0.1:${port}${httpGet.path}`);
  return { passed: ok, output: `${name}: ${httpGet.path} answers ${status}\n` };
}

/** Those of the image in their image; others on this machine. */
function startContainer(container, world) {
  const { image, volumes } = world;
  const env = environmentOf(container, world);
  const isOurs = /(^|\/)postern[:@]/.test(container.image);
  // As the kubelet does, `$(NAME)` stands for a variable.
  const words = [...(container.command ?? (isOurs ? image.entrypoint : [])), ...(container.args ?? [])].map((word) =>
    word.replace(/\$\((\w+)\)/g, (all, name) => env[name] ?? all),
  );
  const mounts = (container.volumeMounts ?? []).map(({ name, mountPath }) => [mountPath, volumes.get(name)]);
  // In one pass: where these directories are may look like another mount.
  const outside = (text) => {
    const [inside, dir] = mounts.find(([path]) => text.startsWith(`${path}/`)) ?? [];
    return inside === undefined ? text : `${dir}${text.slice(inside.length)}`;
  };
  const mounted = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, outside(value)]));
  // What is mounted would not be seen from a root of its own.
  if (isOurs) return startInImage(image, words.map(outside), mounted, { confined: mounts.length === 0 });
  const [program = '', ...args] = words.map(outside);
  const child = spawn(program, args, {
    env: { PATH: process.env['PATH'], ...mounted },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  endWithParent(child);
  const started = { child, output: '', exited: once(child, 'exit'), stop };
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (started.output += chunk.toString()));
  async function stop() {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM');
      await started.exited;
    }
    return child.exitCode;
  }
  return started;
}

/** @returns {Record<string, string>} */
function environmentOf(container, { replace, secrets = {} }) {
  const own = (container.env ?? []).map(({ name, value, valueFrom }) => {
    if (valueFrom === undefined) return [name, value];
    if (valueFrom.fieldRef !== undefined) return [name, FIELDS[valueFrom.fieldRef.fieldPath]];
    const { name: secret, key } = valueFrom.secretKeyRef;
    const found = secrets[`${secret}/${key}`];
    if (found === undefined) throw new Error(`${name}: there is no Secret ${secret} with ${key}`);
    return [name, found];
  });
  return { ...Object.fromEntries(own), ...replace };
}

async function writeVolume(dir, { name, configMap, secret, emptyDir }, objects) {
  if (emptyDir) {
    await mkdir(join(dir, name));
    return join(dir, name);
  }
  const [kind, wanted] = configMap ? ['ConfigMap', configMap.name] : ['Secret', secret?.secretName];
  const object = objects.find((candidate) => candidate.kind === kind && candidate.metadata.name === wanted);
  if (object === undefined) throw new Error(`volume ${name}: there is no ${kind} ${wanted}`);
  const encoding = kind === 'Secret' ? 'base64' : 'utf8';
  for (const [file, text] of Object.entries(object.data)) {
    const path = join(dir, name, file);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, Buffer.from(text, encoding));
  }
  return join(dir, name);
}
