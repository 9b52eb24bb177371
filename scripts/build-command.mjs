/** `npm run build:command`: the command `postern`, into `dist/command`. */
import { fileURLToPath } from 'node:url';
import { bundleCommand } from './lib/command-bundle.mjs';

await bundleCommand(fileURLToPath(new URL('..', import.meta.url)));
