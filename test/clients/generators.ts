/**
 * The generators that are tried, with their versions: each makes a client of `openapi.yaml` with its default options,
 * which is compiled together with the program in `drivers` that uses it. openapi-typescript, whose version is in
 * package.json, makes types only; openapi-fetch is the client that goes with it.
 */
import { cp, mkdir, rm } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { env, execPath } from 'node:process';
import { fileURLToPath } from 'node:url';
import { must, provide } from '../../bench/provide.js';

const OPENAPI_FETCH = '0.17.0';
const OAPI_CODEGEN = 'v2.8.2';
const OPENAPI_PYTHON_CLIENT = '0.29.1';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const CONTRACT = join(ROOT, 'openapi.yaml');
const TOOLS = join(ROOT, 'node_modules');
const GO_ENV = { ...env, CGO_ENABLED: '0', GOFLAGS: '-buildvcs=false' };

/** Runs the program with these arguments. @returns what it printed */
export type Driver = (...args: string[]) => Promise<string>;

/** By the name of the generator. */
export const GENERATORS: Record<string, () => Promise<Driver>> = {
  'openapi-typescript': typescript,
  'oapi-codegen': go,
  'openapi-python-client': python,
};

async function typescript(): Promise<Driver> {
  const dir = await workDir('typescript');
  const client = await provide(`openapi-fetch-${OPENAPI_FETCH}`, (made) =>
    must('npm', ['install', '--prefix', made, '--no-audit', '--no-fund', `openapi-fetch@${OPENAPI_FETCH}`]),
  );
  await cp(join(client, 'node_modules'), join(dir, 'node_modules'), { recursive: true });
  await node(join(TOOLS, 'openapi-typescript', 'bin', 'cli.js'), [CONTRACT, '-o', join(dir, 'contract.d.ts')]);
  await node(join(TOOLS, 'typescript', 'bin', 'tsc'), ['-p', dir]);
  return (...args) => node(join(dir, 'main.mjs'), args);
}

async function go(): Promise<Driver> {
  const dir = await workDir('go');
  const generator = `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@${OAPI_CODEGEN}`;
  await mkdir(join(dir, 'postern'));
  const output = ['-package', 'postern', '-o', 'postern/client.go'];
  await must('go', ['run', generator, ...output, '-generate', 'types,client', CONTRACT], { cwd: dir, env: GO_ENV });
  await must('go', ['build', '-o', 'driver', '.'], { cwd: dir, env: GO_ENV });
  return (...args) => must(join(dir, 'driver'), args);
}

async function python(): Promise<Driver> {
  const dir = await workDir('python');
  const packages = await provide(`openapi-python-client-${OPENAPI_PYTHON_CLIENT}`, (made) =>
    must('python3', [
      ...['-m', 'pip', 'install', '-q', '--target', join(made, 'lib')],
      `openapi-python-client==${OPENAPI_PYTHON_CLIENT}`,
    ]),
  );
  const lib = join(packages, 'lib');
  const path = [join(lib, 'bin'), env['PATH']].join(delimiter); // it formats what it made with its own ruff
  const options = { env: { ...env, PATH: path, PYTHONPATH: [lib, dir].join(delimiter) } };
  const output = ['--meta', 'none', '--output-path', join(dir, 'postern')];
  await must('python3', ['-m', 'openapi_python_client', 'generate', '--path', CONTRACT, ...output], options);
  return (...args) => must('python3', [join(dir, 'main.py'), ...args], options);
}

/** An empty one with the program in it: what an earlier run has made is made anew. */
async function workDir(language: string): Promise<string> {
  const dir = join(ROOT, '.cache', 'clients', language);
  await rm(dir, { recursive: true, force: true });
  await cp(fileURLToPath(new URL(`drivers/${language}`, import.meta.url)), dir, { recursive: true });
  return dir;
}

function node(script: string, args: readonly string[]): Promise<string> {
  return must(execPath, [script, ...args]);
}
