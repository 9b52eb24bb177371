/** `npm run build:browser`: the scripts of the pages, into `dist/browser`. */
import { fileURLToPath } from 'node:url';
import { bundleBrowser } from './lib/browser-bundle.mjs';

await bundleBrowser(fileURLToPath(new URL('..', import.meta.url)));
