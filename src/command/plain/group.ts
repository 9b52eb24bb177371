/** `postern group post`, `messages`. */
import type { GivenFor } from '../arguments/command.js';
import { checkName } from '../arguments/name.js';
import type * as descriptions from '../commands/group.js';
import { EXIT } from '../exit.js';
import { jsonText, visible } from '../output.js';
import { bodyOf } from './body.js';
import { readInput, withClient } from './client.js';

export async function post(given: GivenFor<typeof descriptions.post>): Promise<number> {
  const [name = '', text] = given.arguments;
  checkName('NAME', name);
  const { as, 'request-id': requestId } = given.values;
  const body = bodyOf(text ?? readInput().toString(), as);
  const options = requestId === undefined ? {} : { requestId };
  const number = await withClient(given, (postern) => postern.group(name).post(body, options));
  given.output.result({ number }, () => String(number));
  return EXIT.ok;
}

export async function messages(given: GivenFor<typeof descriptions.messages>): Promise<number> {
  const [name = ''] = given.arguments;
  checkName('NAME', name);
  const { after, max = Infinity } = given.values;
  const options = after === undefined ? {} : { after };
  return withClient(given, async (postern) => {
    let printed = 0;
    for await (const message of postern.group(name).messages(options)) {
      const { number, body, missed } = message;
      if (missed && !given.output.json)
        given.output.tell('missed', `messages before ${number} were dropped before they were read`, { name, number });
      given.output.result(message, () => visible(`${number}  ${jsonText(body)}`));
      printed += 1;
      if (printed >= max) break;
    }
    return EXIT.ok;
  });
}
