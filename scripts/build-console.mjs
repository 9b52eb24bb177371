/** `npm run build:console`: the web console, into `dist/console`. */
import { fileURLToPath } from 'node:url';
import { bundleConsole } from './lib/console-bundle.mjs';

await bundleConsole(fileURLToPath(new URL('..', import.meta.url)), (line) => console.log(line));
