/** The terminal while it shows frames: its second screen, keys without Enter. However that ends, it is as before. */
import type { Output } from '../output.js';

const CSI = '\u001b[';
/** The second screen, no cursor, no line breaks of its own. */
const ENTER = `${CSI}?1049h${CSI}?25l${CSI}?7l`;
const LEAVE = `${CSI}?7h${CSI}?25h${CSI}?1049l`;
const [HOME, REST_OF_LINE, REST_OF_SCREEN] = [`${CSI}H`, `${CSI}K`, `${CSI}J`];
const CTRL_C = '\u0003';
/** Of a terminal that does not say. */
const [ROWS, COLUMNS] = [24, 80];

export class Screen implements Disposable {
  readonly #output: Output;
  readonly #leave = (): void => this[Symbol.dispose]();
  readonly #keyed: (chunk: Buffer) => void;
  #left = false;

  /** @param onKey told every key; Ctrl-C as "q" */
  constructor(output: Output, onKey: (key: string) => void) {
    this.#output = output;
    this.#keyed = (chunk) => {
      for (const key of chunk.toString()) onKey(key === CTRL_C ? 'q' : key);
    };
    process.once('exit', this.#leave);
    if (process.stdin.isTTY) {
      process.stdin.setRawMode(true);
      process.stdin.on('data', this.#keyed);
    }
    output.raw(ENTER);
  }

  get rows(): number {
    return process.stdout.rows || ROWS;
  }

  get columns(): number {
    return process.stdout.columns || COLUMNS;
  }

  show(lines: readonly string[]): void {
    const fitting = lines.slice(0, this.rows);
    this.#output.raw(`${HOME}${fitting.map((line) => `${line}${REST_OF_LINE}`).join('\r\n')}${REST_OF_SCREEN}`);
  }

  [Symbol.dispose](): void {
    if (this.#left) return;
    this.#left = true;
    process.off('exit', this.#leave);
    if (process.stdin.isTTY) {
      process.stdin.off('data', this.#keyed);
      process.stdin.setRawMode(false);
      process.stdin.pause();
    }
    try {
      this.#output.raw(LEAVE);
    } catch {
      // There is no terminal any more.
    }
  }
}
