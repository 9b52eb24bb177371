/** Subcommands about the command itself and its way to a gateway. */
import { command } from '../arguments/command.js';
import { duration, text } from '../arguments/option.js';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;

export const doctor = command({
  name: 'doctor',
  summary: 'Try each step up to a lock, and say what is wrong',
  description: `Tries, for every address: its name, a connection to each of its addresses, TLS, whether a gateway answers and is ready, and \
the credential. Then it takes a lease, sends a heartbeat, takes a lock and gives all of it back. A step that needs another one which failed is not tried. \
The exit code is that of the first failure.`,
  arguments: [],
  options: {
    lock: text('NAME', 'The lock to try. Default: postern-doctor.'),
    ttl: duration('The TTL of the lease to try.', '10s', 1),
  },
  examples: ['postern doctor', 'postern doctor --url https://a:7070,https://b:7070 --json'],
  exits: { 75: 'ZooKeeper did not serve the gateway, or somebody else has the lock' },
});

export const completion = command({
  name: 'completion',
  summary: 'Print a script that completes the command in a shell',
  description: 'Prints the script for a shell, to be read when that starts.',
  arguments: [{ name: 'SHELL', sentence: `one of ${SHELLS.join(', ')}`, choices: SHELLS }],
  options: {},
  examples: [
    'source <(postern completion bash)                        # in ~/.bashrc',
    'postern completion zsh > "${fpath[1]}/_postern"',
    'postern completion fish > ~/.config/fish/completions/postern.fish',
  ],
});
