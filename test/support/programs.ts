/** Programs in TypeScript that the pages show, compiled against the package as those of its users are. */
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import ts from 'typescript';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true, // the strictest of our callers
  target: ts.ScriptTarget.ES2022,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: ['node'],
  skipLibCheck: true,
};

export interface Compiled extends AsyncDisposable {
  /** What the compiler says; nothing if all is well. */
  readonly problems: string;
  /** The file to run for a program. */
  fileOf(name: string): string;
}

/** @param programs their texts by their names */
export async function compile(programs: ReadonlyMap<string, string>): Promise<Compiled> {
  const folder = await mkdtemp(join(tmpdir(), 'postern-programs-'));
  const pathOf = (name: string, extension: string): string =>
    join(folder, `${name.replace(/\.md$/, '').replaceAll('/', '-')}.${extension}`);
  await mkdir(join(folder, 'node_modules'));
  await symlink(ROOT, join(folder, 'node_modules', 'postern'));
  await symlink(join(ROOT, 'node_modules', '@types'), join(folder, 'node_modules', '@types'));
  const types = join(folder, 'types');
  await declareClient(types);
  for (const [name, text] of programs) await writeFile(pathOf(name, 'mts'), text);
  const program = ts.createProgram(
    [...programs.keys()].map((name) => pathOf(name, 'mts')),
    {
      ...OPTIONS,
      typeRoots: [join(folder, 'node_modules', '@types')],
      paths: { 'postern/client': [join(types, 'client', 'index.d.ts')] },
    },
  );
  const found = [...ts.getPreEmitDiagnostics(program), ...program.emit().diagnostics];
  return {
    problems: ts.formatDiagnostics(found, {
      getCanonicalFileName: (name) => name,
      getCurrentDirectory: () => folder,
      getNewLine: () => '\n',
    }),
    fileOf: (name) => pathOf(name, 'mjs'),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

/** The types of the client as the package has them, which the build for the tests leaves out. */
async function declareClient(folder: string): Promise<void> {
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  await promisify(execFile)(execPath, [tsc, '-p', join(ROOT, 'tsconfig.client.json'), '--outDir', folder]);
  const contract = join('http', 'contract', 'contract.d.ts');
  await mkdir(join(folder, 'http', 'contract'), { recursive: true });
  await cp(join(ROOT, 'src', contract), join(folder, contract));
}
