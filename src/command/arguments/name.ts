/** Names as the contract has them. */
import { UsageError } from '../exit.js';

const NAME = /^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,200}$/;

export const NAME_EXPECTED = '1 to 200 of the characters A-Z a-z 0-9 . _ ~ -';

export function isName(text: string): boolean {
  return NAME.test(text);
}

/** @throws UsageError that names the argument */
export function checkName(argument: string, name: string): void {
  if (!isName(name)) throw new UsageError(`${argument} is "${name}"; it must be ${NAME_EXPECTED}`);
}
