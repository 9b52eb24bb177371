/**
 * `node scripts/check-packaging.mjs`: image, package, compose file, chart, pages, dashboard and alerts, on a machine
 * without a container engine and without a cluster. Part of `.ci/run`; it needs Go, Python and Debian's package
 * archive, which `npm test` never does.
 *
 * Every check prints PASS or FAIL; all run, so that one round of fixing is enough. Words as arguments run those checks
 * alone whose names have one of them.
 */
import { checkNode, installPackages } from './lib/install.mjs';

try {
  checkNode();
  await installPackages((line) => console.log(line));
} catch (error) {
  console.error(/** @type {Error} */ (error).message);
  process.exit(1);
}

// What follows stands on the packages.
const { chartChecks } = await import('./packaging/chart-checks.mjs');
const { clientChecks } = await import('./packaging/client-checks.mjs');
const { composeChecks } = await import('./packaging/compose-checks.mjs');
const { imageChecks } = await import('./packaging/image-checks.mjs');
const { pageChecks } = await import('./packaging/page-checks.mjs');
const { podChecks } = await import('./packaging/pod-checks.mjs');
const { liveChecks } = await import('./packaging/live-checks.mjs');
const { monitoringChecks } = await import('./packaging/monitoring-checks.mjs');
const { disposeScene } = await import('./packaging/scene.mjs');
const { getAhead } = await import('./packaging/tools.mjs');

const CHECKS = [
  ...imageChecks,
  ...clientChecks,
  ...composeChecks,
  ...monitoringChecks,
  ...chartChecks,
  ...podChecks,
  ...pageChecks,
  ...liveChecks,
];

const wanted = process.argv.slice(2);
getAhead();
const failed = [];
for (const { name, check } of CHECKS) {
  if (wanted.length > 0 && !wanted.some((word) => name.includes(word))) continue;
  const start = performance.now();
  const seconds = () => ((performance.now() - start) / 1_000).toFixed(1);
  try {
    const detail = await check();
    console.log(`PASS  ${name}${detail ? `: ${detail}` : ''} (${seconds()} s)`);
  } catch (error) {
    failed.push(name);
    console.log(
      `FAIL  ${name} (${seconds()} s)\n${String(/** @type {Error} */ (error).message).replace(/^/gm, '        ')}`,
    );
  }
}
await disposeScene();
console.log(failed.length > 0 ? `packaging failed: ${failed.join('; ')}` : 'packaging passed');
process.exit(failed.length > 0 ? 1 : 0);
