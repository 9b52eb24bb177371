/** `postern completion`: bash's script in a real bash; those of the other shells there where they are installed. */
import { spawnSync } from 'node:child_process';
import { env, execPath } from 'node:process';
import { describe, expect, it } from 'vitest';
import { COMMANDS } from '../../src/command/table.js';
import { MAIN } from './run-command.js';

function script(shell: string): string {
  const { status, stdout } = spawnSync(execPath, [MAIN, 'completion', shell], { encoding: 'utf8', env: {} });
  expect(status).toBe(0);
  return stdout;
}

function runShell(program: string, args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(program, args, {
    encoding: 'utf8',
    env: { PATH: env['PATH'], HOME: '/nonexistent' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

const has = (program: string): boolean => runShell(program, ['-c', ':']).status === 0;

/** What bash offers for the last of these words. */
function offered(...words: string[]): string[] {
  const line = ['postern', ...words].map((word) => `'${word}'`).join(' ');
  const ask = `${script('bash')}\nCOMP_WORDS=(${line}); COMP_CWORD=${words.length}; _postern; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { status, stdout, stderr } = runShell('bash', ['--norc', '-c', ask]);
  expect(status, stderr).toBe(0);
  return [...new Set(stdout.split('\n').filter((word) => word !== ''))];
}

describe('completion', () => {
  it('offers in bash subcommands, then theirs, options, and the values that there are', () => {
    expect(offered('')).toEqual(expect.arrayContaining(['lock', 'queue', 'doctor', '--help']));
    expect(offered('lo')).toEqual(['lock']);
    expect(offered('queue', '')).toEqual(['push', 'work', 'peek', 'tail', 'rm', 'pause', 'resume', 'redrive']);
    expect(offered('lock', 'x', '--kill')).toEqual(['--kill-after']);
    expect(offered('lock', 'x', '--busy', '')).toEqual(['wait', 'fail', 'skip']);
    expect(offered('ls', 'lo')).toEqual(['locks']);
    expect(offered('queue', 'work', 'q', '--conc')).toEqual(['--concurrency']);
    expect(offered('lock', 'x', '--', 'unam')).toEqual(['uname']);
  });

  it.each(['bash', 'zsh', 'fish'])('has for %s every subcommand and option', (shell) => {
    const text = script(shell);
    for (const { name, options } of COMMANDS) {
      for (const word of name.split(' ')) expect(text).toContain(word);
      for (const option of Object.keys(options)) expect(text).toContain(option);
    }
  });

  it.runIf(has('zsh'))('is read by zsh', () => {
    const { status, stderr } = runShell('zsh', ['-f', '-c', `autoload -Uz compinit; compinit -u -D\n${script('zsh')}`]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  it.runIf(has('fish'))('offers the same in fish', () => {
    const ask = (line: string): string[] => {
      const { stdout } = runShell('fish', ['--no-config', '-c', `${script('fish')}\ncomplete -C '${line}'`]);
      return stdout.split('\n').map((each) => each.split('\t')[0] as string);
    };
    expect(ask('postern lo')).toContain('lock');
    expect(ask('postern queue ')).toContain('work');
    expect(ask('postern lock x --kill')).toContain('--kill-after');
  });
});
