/** The version of the package that runs. */
import { readFileSync } from 'node:fs';
import { ROOT } from './root.js';

const manifest = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')) as { version: string };

export const version = manifest.version;
