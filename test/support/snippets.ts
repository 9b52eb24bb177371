/** What the pages tell people to type, and a shell to type it into. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Where the pages say that the gateway is. */
const ADDRESS = /127\.0\.0\.1:7070/g;

export interface Page {
  name: string;
  /** For a shell. */
  blocks: string[];
  /** In TypeScript. */
  programs: string[];
}

/** README.md and the pages in docs/. */
export async function pages(): Promise<Page[]> {
  return Promise.all(['README.md', ...(await pagesIn('docs'))].map(pageOf));
}

/** The pages in docs/recipes/. */
export async function recipePages(): Promise<Page[]> {
  return Promise.all((await pagesIn('docs/recipes')).map(pageOf));
}

async function pagesIn(folder: string): Promise<string[]> {
  const files = await readdir(join(ROOT, folder));
  return files
    .filter((file) => file.endsWith('.md'))
    .sort()
    .map((file) => `${folder}/${file}`);
}

async function pageOf(name: string): Promise<Page> {
  const text = await readFile(join(ROOT, name), 'utf8');
  const marked = (language: string): string[] =>
    [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
      .filter((found) => found[1] === language)
      .map(([, , block = '']) => block);
  return { name, blocks: marked('sh'), programs: marked('ts') };
}

/** Runs the blocks as one script, by a curl that calls a problem a failure, as `-f` does. */
export async function run(
  blocks: readonly string[],
  url: string,
  settings: Record<string, string> = {},
): Promise<{ code: number | null; output: string }> {
  const dir = await mkdtemp(join(tmpdir(), 'postern-snippets-'));
  try {
    const path = env['PATH'] ?? '';
    await writeFile(
      join(dir, 'curl'),
      `#!/bin/sh\nPATH=${path}\ncase " $* " in *" -f "*) exec curl "$@" ;; *) exec curl --fail-with-body "$@" ;; esac\n`,
    );
    await chmod(join(dir, 'curl'), 0o755);
    // `npx postern` runs the package that it stands in.
    for (const entry of ['dist', 'package.json', 'scripts']) await symlink(join(ROOT, entry), join(dir, entry));
    const script = blocks.map((block) => block.replace(ADDRESS, new URL(url).host)).join('\n');
    const child = spawn('bash', ['-euo', 'pipefail', '-c', script], {
      cwd: dir, // what a block writes is gone afterwards
      env: {
        PATH: `${dir}:${path}`,
        HOME: dir,
        TMPDIR: dir,
        npm_config_offline: 'true',
        npm_config_update_notifier: 'false',
        POSTERN_URL: url,
        ...settings,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, output };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
