/** Terraform's backend `http`: the real program keeps its state and its lock here. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeApiKeys } from '../support/http/api-keys.js';
import { startPair } from '../support/start-gateway.js';
import { soonSo } from './peer.js';
import { programOf, SCENE_MS } from './scene.js';

const STATE = 'interop';
const LOCK = `terraform.${STATE}`;

interface Ran {
  code: number | null;
  output: string;
}

/** A configuration without a provider: `terraform_data` is built in. It waits in its first apply for a file to go. */
function configuration(address: string, gate: string): string {
  return `terraform {
  backend "http" {
    address        = "${address}"
    lock_address   = "${address}/lock"
    lock_method    = "POST"
    unlock_address = "${address}/unlock"
    unlock_method  = "POST"
    username       = "terraform"
  }
}
variable "value" {
  type = string
}
resource "terraform_data" "thing" {
  input = var.value
  provisioner "local-exec" {
    command = "while [ -e '${gate}' ]; do sleep 0.1; done"
  }
}
output "value" {
  value = terraform_data.thing.output
}
`;
}

class Workspace implements AsyncDisposable {
  private constructor(
    readonly directory: string,
    readonly key: string,
  ) {}

  static async make(url: string, key: string, gate: string): Promise<Workspace> {
    const directory = await mkdtemp(join(tmpdir(), 'postern-terraform-'));
    await writeFile(join(directory, 'main.tf'), configuration(`${url}/v1/terraform/${STATE}`, gate));
    return new Workspace(directory, key);
  }

  async run(...args: string[]): Promise<Ran> {
    const { command } = programOf('terraform');
    const env = {
      ...process.env,
      TF_HTTP_PASSWORD: this.key,
      TF_CLI_CONFIG_FILE: '/dev/null', // nothing of this machine's own
      TF_IN_AUTOMATION: '1',
      CHECKPOINT_DISABLE: '1',
    };
    const child = spawn(command, [...args, '-no-color'], { cwd: this.directory, env });
    process.once('exit', () => child.kill('SIGKILL'));
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, output };
  }

  apply(value: string): Promise<Ran> {
    return this.run('apply', '-auto-approve', '-input=false', `-var=value=${value}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}

test(
  'two runs of one state exclude one another, and the state goes from one to the next',
  { timeout: 3 * SCENE_MS },
  async () => {
    await using keys = await makeApiKeys({ terraform: { default: ['read', 'use'] } });
    await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using client = keys.as('terraform', pair.a.url);
    const gate = join(await mkdtemp(join(tmpdir(), 'postern-gate-')), 'gate');
    await writeFile(gate, '');
    await using ours = await Workspace.make(pair.a.url, client.key, gate);
    await using theirs = await Workspace.make(pair.b.url, client.key, '/nowhere');
    for (const workspace of [ours, theirs])
      expect(await workspace.run('init', '-input=false')).toMatchObject({ code: 0 });

    const applying = ours.apply('one');
    const holders = async (): Promise<{ reservation?: { reason: string } }[]> =>
      ((await client.showLock(LOCK)) as { holders: { reservation?: { reason: string } }[] }).holders;
    await soonSo('the first run has the lock', async () => (await holders()).length === 1);
    expect(await holders()).toMatchObject([{ reservation: { reason: 'Terraform OperationTypeApply' } }]);
    const refused = await theirs.apply('two');
    expect(refused.code).toBe(1);
    expect(refused.output).toContain('already locked');
    const { ID } = (await client.call('POST', `/v1/terraform/${STATE}/lock`, { body: { ID: 'who' } })).body as {
      ID: string;
    };
    expect(refused.output).toContain(`ID=${ID}`);
    await rm(gate);
    expect(await applying).toMatchObject({ code: 0 });
    expect(await holders()).toEqual([]);

    expect((await theirs.run('output', '-raw', 'value')).output).toBe('one');
    expect(await theirs.apply('two')).toMatchObject({ code: 0 });
    expect((await ours.run('output', '-raw', 'value')).output).toBe('two');

    // As after a run that was killed.
    await client.expect(200, 'POST', `/v1/terraform/${STATE}/lock`, { body: { ID: 'killed', Who: 'nobody' } });
    expect((await ours.apply('three')).output).toContain('ID=killed');
    expect(await ours.run('force-unlock', '-force', 'killed')).toMatchObject({ code: 0 });
    expect(await holders()).toEqual([]);
  },
);
