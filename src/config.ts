/**
 * Reads the settings; nothing else reads the environment. `settings/` declares them, and is also the source of `--help`
 * and of the README's table.
 *
 * A bad value stops the start with the variable, the value and the rule. The result is frozen: nothing changes it
 * later.
 */
import { isLoopback } from './loopback.js';
import { contradictions, dangers, hasCredentials } from './settings/safety.js';
import type { Setting } from './settings/setting.js';
import { FILES, SETTINGS, type Config, type FileOfAnother, type Values } from './settings/table.js';

export type { Config };

export type Environment = Readonly<Record<string, string | undefined>>;

/** Reports every problem at once, one sentence each. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

export interface LoadedConfig {
  readonly config: Config;
  /** Sentences for the log: unknown variables, and what runs unprotected. */
  readonly warnings: readonly string[];
}

/** @throws ConfigError */
export function loadConfig(environment: Environment = process.env): LoadedConfig {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(SETTINGS)) {
    values[name] = read(setting, environment[setting.env], problems);
  }
  const { leaseKeysFile, zookeeperAuthFile, ...own } = values as Values;
  const config: Config = {
    ...own,
    leaseKeys: own.leaseKeys.length > 0 ? own.leaseKeys : leaseKeysFile,
    zookeeperAuth: own.zookeeperAuth ?? zookeeperAuthFile,
    // No balancer stands before a loopback address.
    drainPauseMs: isLoopback(own.host) && !isSet(environment, SETTINGS.drainPauseMs) ? 0 : own.drainPauseMs,
    // Names that scopes hide are not shown to everybody.
    maxContendedLabels:
      hasCredentials(own) && own.opsPort === undefined && !isSet(environment, SETTINGS.maxContendedLabels)
        ? 0
        : own.maxContendedLabels,
  };
  for (const [name, file] of Object.entries(FILES) as [keyof typeof FILES, FileOfAnother][])
    if (isSet(environment, SETTINGS[name]) && isSet(environment, SETTINGS[file]))
      problems.push(`${SETTINGS[name].env} and ${SETTINGS[file].env} are both set; set one of them.`);
  problems.push(...contradictions(config));
  if (problems.length > 0) throw new ConfigError(problems);
  return { config: Object.freeze(config), warnings: [...unknownVariables(environment), ...dangers(config)] };
}

function isSet(environment: Environment, setting: Pick<Setting<unknown>, 'env'>): boolean {
  return (environment[setting.env] ?? '') !== '';
}

/** Compose files and charts pass empty strings for settings that are not set. */
function read(setting: Setting<unknown>, text: string | undefined, problems: string[]): unknown {
  if (text === undefined || text === '') return setting.fallback;
  const shown = setting.secret ? 'not readable' : JSON.stringify(text);
  try {
    const value = setting.parse(text);
    if (value !== undefined) return value;
    problems.push(`${setting.env} is ${shown}; it must be ${setting.rule}.`);
  } catch (error) {
    problems.push(`${setting.env} is ${shown}: ${(error as Error).message}; it must be ${setting.rule}.`);
  }
  return setting.fallback;
}

/** Tells the command where a gateway is: in a shell that starts one as well it is no mistake. */
const OF_THE_COMMAND = 'POSTERN_URL';

function unknownVariables(environment: Environment): string[] {
  const known = new Set([OF_THE_COMMAND, ...Object.values<Setting<unknown>>(SETTINGS).map(({ env }) => env)]);
  return Object.keys(environment)
    .filter((name) => name.startsWith('POSTERN_') && !known.has(name))
    .sort()
    .map((name) => `${name} is not a setting and has no effect.`);
}

/** For `--help`. */
export function settingsHelp(): string {
  const lines = Object.values<Setting<unknown>>(SETTINGS).map(({ env, sentence, rule, shownFallback }) => {
    const fallback = shownFallback === '' ? '' : ` Default: ${shownFallback}.`;
    return `  ${env}\n      ${sentence}\n      Value: ${rule}.${fallback}`;
  });
  return ['Settings (environment variables; an empty one counts as not set):', ...lines].join('\n');
}

/** For the README. */
export function settingsMarkdown(): string {
  const rows = Object.values<Setting<unknown>>(SETTINGS).map(
    ({ env, sentence, rule, shownFallback }) =>
      `| \`${env}\` | ${shownFallback === '' ? '' : `\`${shownFallback}\``} | ${rule} | ${sentence} |`,
  );
  return ['| variable | default | value | what it does |', '| --- | --- | --- | --- |', ...rows].join('\n');
}
