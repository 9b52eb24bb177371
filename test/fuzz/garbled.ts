/** Bytes of a request with something done to them that has no regard for what they mean. */
import type { Chance } from './chance.js';

export function garbled(bytes: Buffer, chance: Chance): Buffer {
  let made = bytes;
  for (let left = chance.integer(1, 4); left > 0; left -= 1) made = once(made, chance);
  return made;
}

function once(bytes: Buffer, chance: Chance): Buffer {
  const at = chance.integer(0, bytes.length);
  const length = chance.integer(1, chance.pick([1, 4, 64]));
  const before = bytes.subarray(0, at);
  const after = bytes.subarray(at);
  switch (chance.integer(0, 5)) {
    case 0: // some bytes are others
      return Buffer.concat([before, noise(length, chance), after.subarray(length)]);
    case 1: // some are missing
      return Buffer.concat([before, after.subarray(length)]);
    case 2: // some are there twice
      return Buffer.concat([before, after.subarray(0, length), after]);
    case 3: // there are more
      return Buffer.concat([before, noise(length, chance), after]);
    case 4: // it ends early
      return before;
    default: // a line end where there was none
      return Buffer.concat([before, Buffer.from(chance.pick(['\r\n', '\n', '\r', '\r\n\r\n', '\0'])), after]);
  }
}

function noise(length: number, chance: Chance): Buffer {
  return Buffer.from(Array.from({ length }, () => chance.integer(0, 255)));
}
