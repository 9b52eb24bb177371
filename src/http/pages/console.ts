/**
 * The web console: a page of static files, bundled by `npm run build` from `src/console`. It has no rights of its own:
 * what it shows and does, it asks of the public API with the key of whoever looks at it.
 */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { PosternError } from '../../errors.js';
import { ROOT } from '../../root.js';
import type { Handler, Routes } from '../frame/exchange.js';
import { asset, type Source } from './asset.js';

const FOLDER = new URL('dist/console/', ROOT);

/** Nothing but its own files, and no connection but to this origin; `data:` is for the icon that a page has. */
const SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const ASSETS: Readonly<Record<string, string>> = {
  'app.js': 'text/javascript; charset=utf-8',
  'app.css': 'text/css; charset=utf-8',
};

export function consoleRoutes(): Routes {
  const assets = new Map(
    Object.entries(ASSETS).map(([name, contentType]): [string, Handler] => [
      name,
      asset(() => file(name, contentType)),
    ]),
  );
  return {
    console: asset(() => file('index.html', 'text/html; charset=utf-8')),
    consoleAsset: async (exchange) => {
      const found = assets.get(exchange.params['asset'] as string);
      if (found === undefined) throw new PosternError('not-found', 'The console has no such file.');
      return found(exchange);
    },
  };
}

async function file(name: string, contentType: string): Promise<Source> {
  const headers = { 'Content-Security-Policy': SECURITY_POLICY, 'Referrer-Policy': 'no-referrer' };
  try {
    return { status: 200, body: await readFile(fileURLToPath(new URL(name, FOLDER))), contentType, headers };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new PosternError('not-found', 'This checkout has no console yet: run `npm run build`.', { cause: error });
  }
}
