/**
 * `postern sidecar`: carries the lease of the program beside it, and answers for it on loopback.
 *
 * Guarantee: while another one may lead, `/leader` is answered with 503. That is judged whenever somebody asks, by the
 * health of the program and by the clock, and the lease is ended only after it has turned.
 * Not guaranteed: that whoever has asked acts in time on the answer, or that a program that hangs writes nothing more.
 * Let what it writes to compare the fencing token.
 */
import { setMaxListeners } from 'node:events';
import { Postern } from '../../client/index.js';
import type { GivenFor } from '../arguments/command.js';
import type { sidecar as description } from '../commands/sidecar.js';
import { EXIT, UsageError } from '../exit.js';
import type { Output } from '../output.js';
import { Health } from './health.js';
import { LeaderFile } from './leader-file.js';
import { persist } from '../persist.js';
import { render } from './render.js';
import { routesForAll, routesForProgram } from './routes.js';
import { listen, type Handle, type Listening } from './server.js';
import { settingsOf, type Address } from './settings.js';
import { Sidecar } from './state.js';
import { Tenure } from './tenure.js';

const ENDING = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** It is told to end. */
class Told extends Error {}

/** What all of its loops share. */
interface Running {
  readonly state: Sidecar;
  readonly output: Output;
  readonly file: LeaderFile;
  /** For what needs no lease. */
  readonly watching: Postern;
  /** Aborts when it ends: told to, or refused what it needs. */
  readonly over: AbortController;
}

export async function sidecar(given: GivenFor<typeof description>): Promise<number> {
  const settings = settingsOf(given);
  const { output } = given;
  const state = new Sidecar(settings, new Health(settings.health));
  const file = new LeaderFile(settings.file, state.leadership(), output);
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  const told = (signal: NodeJS.Signals): void => {
    // A second one, whichever, ends it as it ends any program.
    for (const each of ENDING) process.off(each, told);
    state.stopping = true;
    over.abort(new Told(`the sidecar has got ${signal}`));
  };
  for (const signal of ENDING) process.on(signal, told);
  const listening = await listenAll(state, output);
  const running = { state, output, file, over, watching: new Postern(settings.client) };
  const loops = [serve(running), look(running), ...renderAll(running)];
  await Promise.all(loops.map((loop) => loop.catch((error: unknown) => over.abort(error))));
  await running.watching.close();
  for (const each of listening) each.close();
  if (over.signal.reason instanceof Told) return EXIT.ok;
  throw over.signal.reason;
}

/** One tenure after the other, each for as long as the program is well. */
async function serve({ state, output, file, over }: Running): Promise<void> {
  const { health, settings } = state;
  const listener = {
    leads: () => file.update(state.leadership()),
    ended: (fencingToken: number) => {
      state.ended(fencingToken);
      file.update(state.leadership());
    },
  };
  for await (const well of health.spells(over.signal)) {
    output.tell('well', `the program is well: ${health.describe().lastCheck}`);
    const tenure = new Tenure({ settings, well, output, listener });
    state.tenure = tenure;
    await tenure.run().catch((error: unknown) => over.abort(error));
    state.tenure = undefined;
  }
}

/** Who leads, also while the program does not stand. */
async function look({ state, output, file, over, watching }: Running): Promise<void> {
  const { election } = state.settings;
  if (election === undefined) return;
  const { signal } = over;
  const pending = `the election "${election}" has not been seen yet`;
  state.pending.add(pending);
  await persist({ what: `watching the election "${election}"`, over: signal, output }, async () => {
    for await (const { leader } of watching.election(election).observe({ signal })) {
      state.sees(leader);
      state.pending.delete(pending);
      file.update(state.leadership());
    }
  });
}

function renderAll({ state, output, over, watching }: Running): Promise<void>[] {
  const { settings, pending } = state;
  return settings.renderings.map((rendering) => {
    const what = `the key "${rendering.key}" has not been rendered yet`;
    pending.add(what);
    const rendered = (): void => void pending.delete(what);
    return render(rendering, { postern: watching, settings, over: over.signal, output, rendered });
  });
}

async function listenAll(state: Sidecar, output: Output): Promise<Listening[]> {
  const { listen: own, listenProbes } = state.settings;
  const listening = [await listenAt('--listen', own, true, routesForProgram(state))];
  if (listenProbes !== undefined)
    listening.push(await listenAt('--listen-probes', listenProbes, false, routesForAll(state)));
  const [url, probesUrl] = listening.map((each) => each.url);
  const probes = probesUrl === undefined ? '' : `, and for probes at ${probesUrl}`;
  output.tell('listening', `answers the program at ${url}${probes}`, { url, ...(probesUrl && { probesUrl }) });
  return listening;
}

async function listenAt(flag: string, address: Address, onlyLoopback: boolean, handle: Handle): Promise<Listening> {
  try {
    return await listen(address, onlyLoopback, handle);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(`${flag} is "${address.host}:${address.port}", where it cannot listen (${code})`);
  }
}
