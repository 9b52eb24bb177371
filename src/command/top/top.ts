/** `postern top`: frame after frame, in a terminal or as lines. */
import { isatty } from 'node:tty';
import { Postern } from '../../client/index.js';
import { pause } from '../../client/lease/clock.js';
import type { GivenFor } from '../arguments/command.js';
import { ORDERS, type Order, type top as description } from '../commands/top.js';
import { environment } from '../environment.js';
import { EXIT, UsageError } from '../exit.js';
import { clientOptions } from '../gateway.js';
import { diesOf, Interrupted, Interrupts } from '../process/interrupts.js';
import { frameOf, linesOf, type Frame } from './frame.js';
import { Replicas, type Counts } from './replicas.js';
import { Screen } from './screen.js';
import { Survey } from './survey.js';

type GivenTop = GivenFor<typeof description>;

const INTERVAL_MIN_MS = 500;
const LIMIT = 20;
/** Lines above the rows. */
const HEAD_LINES = 5;
const STDOUT = 1;

export async function top(given: GivenTop): Promise<number> {
  const { interval, once } = given.values;
  if (interval < INTERVAL_MIN_MS)
    throw new UsageError(`--interval is ${interval}ms; ${INTERVAL_MIN_MS}ms is the least`);
  const options = clientOptions(given.values, environment);
  await using replicas = new Replicas(options);
  await using postern = new Postern(options);
  const survey = new Survey(postern);
  const frames = new Frames(given, replicas, survey);
  // Who cannot be asked, or may not ask, is told so before the screen changes.
  await frames.next(LIMIT);
  if (once) {
    await survey.once();
    frames.print(await frames.next(given.values.limit ?? LIMIT));
    return EXIT.ok;
  }
  using interrupts = new Interrupts();
  const ending = new AbortController();
  void survey.keep(interval, ending.signal);
  try {
    const inTerminal = isatty(STDOUT) && !given.output.json;
    await (inTerminal ? showOnScreen : printLines)(given, frames, interrupts.signal);
    const { reason } = interrupts.signal as { reason: unknown };
    return reason instanceof Interrupted ? diesOf(reason.signal) : EXIT.ok;
  } finally {
    ending.abort();
  }
}

/** One after the other, because each counts from the one before. */
class Frames {
  order: Order;
  readonly #given: GivenTop;
  readonly #replicas: Replicas;
  readonly #survey: Survey;
  #before: Counts | undefined;
  #first = true;

  constructor(given: GivenTop, replicas: Replicas, survey: Survey) {
    this.order = given.values.sort;
    this.#given = given;
    this.#replicas = replicas;
    this.#survey = survey;
  }

  /** @throws what the last of the replicas failed with, if none answers the first time */
  async next(limit: number): Promise<Frame> {
    const looked = await this.#replicas.look(this.#first ? this.#given.values.timeout : 0);
    const [silent] = looked.filter((each) => 'error' in each);
    if (this.#first && silent && looked.every((each) => 'error' in each)) throw silent.error;
    this.#first = false;
    const { counts, ...frame } = frameOf(looked, this.#survey, { order: this.order, limit, before: this.#before });
    this.#before = counts;
    return frame;
  }

  print(frame: Frame): void {
    this.#given.output.result(frame, () => linesOf(frame, this.order).join('\n'));
  }
}

async function printLines({ values, output }: GivenTop, frames: Frames, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    frames.print(await frames.next(values.limit ?? LIMIT));
    if (!output.json) output.raw('\n');
    await pause(values.interval, signal);
  }
}

async function showOnScreen({ values, output }: GivenTop, frames: Frames, signal: AbortSignal): Promise<void> {
  const quit = new AbortController();
  const over = AbortSignal.any([signal, quit.signal]);
  let turn = new AbortController();
  using screen = new Screen(output, (key) => {
    if (key === 'q') quit.abort();
    if (key !== 's') return;
    frames.order = ORDERS[(ORDERS.indexOf(frames.order) + 1) % ORDERS.length] as Order;
    turn.abort();
  });
  const redraw = (): void => turn.abort();
  process.stdout.on('resize', redraw);
  while (!over.aborted) {
    const room = Math.max(1, screen.rows - HEAD_LINES);
    screen.show(linesOf(await frames.next(Math.min(values.limit ?? room, room)), frames.order, screen.columns));
    turn = new AbortController();
    await pause(values.interval, AbortSignal.any([over, turn.signal]));
  }
  process.stdout.off('resize', redraw);
}
