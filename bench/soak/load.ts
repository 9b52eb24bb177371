/**
 * The load of a soak: a process that does the work it is ordered to, tells of it when asked, and gives everything back
 * at the end.
 */
import { Contenders } from './contenders.js';
import { SoakLeases } from './leases.js';
import { Messages } from './messages.js';
import { Recipes } from './recipes.js';
import { Tally } from './tally.js';
import type { Order, Steady, Work } from './work.js';

const CONSUMERS = 16;

const tally = new Tally();
const leases = new SoakLeases(tally);
const contenders = new Contenders(tally);
const messages = new Messages(tally);
const recipes = new Recipes(tally);

async function start({ ports, leases: count, locks, contenders: perLock, messages: perSecond }: Work): Promise<void> {
  await leases.create(ports, count);
  messages.start(ports, leases.all.slice(0, CONSUMERS), perSecond);
  contenders.start(leases.all.slice(CONSUMERS, CONSUMERS + locks * perLock), perLock);
  await recipes.start(ports);
  process.send?.({ steady: true } satisfies Steady);
}

async function stop(): Promise<void> {
  await Promise.all([messages.stop(), contenders.stop(), recipes.stop()]);
  await leases.end();
}

process.on('message', (order: Order) => {
  if (order === 'tell') process.send?.(tally.told());
  else if (order === 'stop') void stop().then(() => process.send?.(tally.told(), () => process.exit(0)));
  else
    start(order.start).catch((error: Error) => {
      console.error(error);
      process.exit(1);
    });
});
