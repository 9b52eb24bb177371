/** What is checked of the container image. */
import { filesBelow } from './dockerfile.mjs';
import { inspectImage, lintDockerfile, mayConfine, runInImage, startInImage, untilHealthy } from './image.mjs';
import { theEnsemble, theImage } from './scene.mjs';
import { freePort } from './zookeepers.mjs';

export const imageChecks = [
  { name: 'image: the Dockerfile lints, and needs neither root nor a shell', check: lintDockerfile },
  { name: 'image: its stages give what belongs in it', check: async () => inspectImage(await theImage()) },
  { name: 'image: refuses to serve everybody unless told to', check: refusesWithoutCredentials },
  { name: 'image: serves, as a user who may write nowhere, and stops', check: serves },
];

async function refusesWithoutCredentials() {
  const image = await theImage();
  const { code, output } = await runInImage(image, image.entrypoint, { POSTERN_ZOOKEEPER: '127.0.0.1:1' });
  if (code !== 1 || !output.includes('POSTERN_AUTH_FILE')) throw new Error(`exit code ${code}: ${output}`);
}

async function serves() {
  const [image, ensemble] = await Promise.all([theImage(), theEnsemble()]);
  const before = await filesBelow(image.root);
  const port = String(await freePort());
  const settings = { POSTERN_ZOOKEEPER: ensemble.connectString, POSTERN_HOST: '127.0.0.1', POSTERN_PORT: port };
  const started = startInImage(image, image.entrypoint, settings);
  try {
    await untilHealthy(image, started, settings, '/healthz');
    await untilHealthy(image, started, settings, '/readyz');
    await commandRuns(image, `http://127.0.0.1:${port}`);
  } finally {
    await started.stop();
  }
  if (started.child.exitCode !== 0)
    throw new Error(`SIGTERM ended it with ${started.child.exitCode ?? started.child.signalCode}: ${started.output}`);
  const after = await filesBelow(image.root);
  const touched = Object.keys({ ...before, ...after }).filter((path) => before[path] !== after[path]);
  if (touched.length > 0) throw new Error(`it wrote into the image: ${touched.join(', ')}`);
  const { code } = await runInImage(image, image.healthcheck, settings);
  if (code === 0) throw new Error('the healthcheck passes although nothing runs');
  return mayConfine() ? 'with the image as its root' : 'without a root of its own: that takes root rights';
}

/** The command, whose guardian must do without a shell too. */
async function commandRuns(image, url) {
  const [node = ''] = image.entrypoint;
  const words = [['--version'], ['doctor'], ['lock', 'image', '--', node, '-e', 'process.exit(7)']];
  for (const [index, each] of words.entries()) {
    const { code, output } = await runInImage(image, [node, `${image.workdir}/dist/command/main.js`, ...each], {
      POSTERN_URL: url,
    });
    if (code !== (index === 2 ? 7 : 0)) throw new Error(`postern ${each.join(' ')} ended with ${code}: ${output}`);
  }
}
