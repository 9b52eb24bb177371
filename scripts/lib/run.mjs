/** Runs a program to its end, bounded in time, without a shell. Never rejects: what happened is in the result. */
import { spawn } from 'node:child_process';

const OUTPUT_KEPT_CHARS = 64_000; // the end of the output, where programs say what went wrong

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ timeoutMs: number, cwd?: string, env?: NodeJS.ProcessEnv }} options
 * @returns {Promise<{ code: number | null, output: string, problem?: string }>} `problem` is one line, absent when the
 *   exit code is 0
 */
export function run(command, args, { timeoutMs, cwd, env }) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env: env ?? process.env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    let timedOut = false;
    const keep = (chunk) => {
      output = (output + chunk.toString()).slice(-OUTPUT_KEPT_CHARS);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    child.on('error', (error) => {
      clearTimeout(timer);
      const missing = /** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT';
      resolve({ code: null, output, problem: missing ? `no \`${command}\` on the PATH` : error.message });
    });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      if (code === 0) return resolve({ code, output });
      const how = timedOut
        ? `no end after ${timeoutMs / 1000} s`
        : code === null
          ? `ended by ${signal}`
          : `exit code ${code}`;
      resolve({ code, output, problem: [`\`${command}\`: ${how}`, firstError(output)].filter(Boolean).join(': ') });
    });
  });
}

/** The line that most likely names the cause, in the output of mvn, apt-get, tar or java. */
function firstError(output) {
  const lines = output.split('\n').map((line) => line.trim());
  const line = lines.find((text) => /^(\[ERROR\]|E:|tar:|Error)/.test(text)) ?? lines.filter(Boolean).at(-1) ?? '';
  return line.replace(/^\[ERROR\] /, '').slice(0, 300);
}
