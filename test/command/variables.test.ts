/** What `postern` says of a variable that is spelt nearly as one of its settings. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { misspelt } from '../../src/command/variables.js';
import { SETTINGS } from '../../src/settings/table.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { LONG_MS, MAIN, runCommand } from './run-command.js';

/** What jobs and hooks find in their environment, and may run the command with. */
const OF_JOBS = (
  'ATTEMPT DELIVERIES ELECTION EVENT FENCING_TOKEN FENCING_TOKENS FILE GROUP HOLD_ID HOLD_IDS KEY LOCK MESSAGE_ID NAME ' +
  'OCCURRENCE QUEUE REASON SLOT SLOT_DATA VALUE'
).split(' ');
/** What Kubernetes tells of a Service `postern`. */
const OF_A_SERVICE = [
  'SERVICE_HOST',
  'SERVICE_PORT',
  'SERVICE_PORT_HTTP',
  'PORT',
  'PORT_7070_TCP',
  'PORT_7070_TCP_ADDR',
];

const set = (names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, 'something']));

let replica: Replica;
beforeAll(async () => {
  replica = await startReplica();
});
afterAll(() => replica[Symbol.asyncDispose]());

describe('a variable that is not a setting', { timeout: LONG_MS }, () => {
  it.each([
    ['POSTERN_NAMSPACE', 'POSTERN_NAMESPACE'],
    ['POSTERN_URLS', 'POSTERN_URL'],
    ['POSTERN_APIKEY', 'POSTERN_API_KEY'],
  ])('is named where it looks like one: %s', async (name, near) => {
    const sentence = `${name} is not a setting and has no effect; ${near} is near`;
    const run = runCommand(['ls', 'queues'], { url: replica.url, settings: { [name]: 'shop' } });
    expect(await run.code(), run.stderr).toBe(0);
    expect(run.stderr).toBe(`postern: ${sentence}\n`);
    const json = runCommand(['ls', 'queues', '--json'], { url: replica.url, settings: { [name]: 'shop' } });
    expect(await json.code(), json.stderr).toBe(0);
    expect(JSON.parse(json.stderr)).toEqual({ event: 'misspelt', message: sentence });
  });

  it('is not named where it is of the gateway, of the job, or of somebody else', () => {
    const ofGateways = Object.values(SETTINGS).map(({ env }) => env);
    expect(misspelt(set(ofGateways))).toEqual([]);
    expect(misspelt(set([...OF_JOBS, ...OF_A_SERVICE].map((name) => `POSTERN_${name}`)))).toEqual([]);
  });

  it('is not named by a command that a job runs', async () => {
    const nested = [process.execPath, MAIN, 'ls', 'locks'];
    const run = runCommand(['lock', 'outer', '--', ...nested], { url: replica.url });
    expect(await run.code(), run.stderr).toBe(0);
    expect(run.stderr).toBe('');
  });
});
