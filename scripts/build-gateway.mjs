/** `npm run build:gateway`, behind the compiler: the gateway in one file, `dist/run.js`. */
import { fileURLToPath } from 'node:url';
import { bundleGateway } from './lib/gateway-bundle.mjs';

await bundleGateway(fileURLToPath(new URL('..', import.meta.url)));
