/** What the command is set by, and what is most likely meant to be one of these. */
import { nearest } from './arguments/parse.js';

const SETTINGS: readonly string[] = [
  'POSTERN_URL',
  'POSTERN_NAMESPACE',
  'POSTERN_API_KEY',
  'POSTERN_API_KEY_FILE',
  'POSTERN_CA_FILE',
  'POSTERN_CERT_FILE',
  'POSTERN_KEY_FILE',
  'POSTERN_RESERVATION_TOKEN',
];

/**
 * Sentences about variables that are spelt nearly as a setting. Any other name may mean something to somebody: to a
 * gateway that is started in the same shell, to the job that runs this command, to a script, or to Kubernetes, which
 * tells each container of a Service "postern".
 */
export function misspelt(environment: Readonly<Record<string, string | undefined>>): string[] {
  return Object.keys(environment)
    .filter((name) => name.startsWith('POSTERN_') && !SETTINGS.includes(name))
    .sort()
    .map((name) => [name, nearest(name, SETTINGS)] as const)
    .filter(([, near]) => near !== undefined)
    .map(([name, near]) => `${name} is not a setting and has no effect; ${near} is near`);
}
