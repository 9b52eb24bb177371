/** The view of a queue's next messages that is given up while something of it is still to be watched. */
import { expect, test } from 'vitest';
import { Head } from '../../../src/recipes/queue/claim/head.js';
import { Queues } from '../../../src/recipes/queue/queues.js';
import { answeringBehind, Gate, intercepted } from '../../support/gate.js';
import { eventually } from '../../support/eventually.js';
import { STANDING_WATCHES, startReplica } from '../../support/start-gateway.js';
import { within } from '../../support/zookeeper/sessions.js';

test.for([['the directory of a priority', 2] as const, ['the last segment', 3] as const])(
  'what is closed while %s is on its way to be watched leaves no watch behind',
  async ([, nth]) => {
    await using replica = await startReplica();
    const { context } = replica.gateway;
    const { control, layout } = context;
    await eventually('the replica watches what it always does', async () => {
      return (await control.exists(layout.pendingRevocations)) && control.watches.size === STANDING_WATCHES;
    });
    const queues = new Queues(context, 1_024);
    const queue = await queues.openOrCreate('default', 'work', within());
    const before = context.control.watches.size;
    const gate = new Gate();
    const watches = answeringBehind(gate, context.control.watches, 'getChildren');
    const head = new Head(intercepted(queue, { control: intercepted(context.control, { watches }) }), () => undefined);
    gate.shut();
    const next = head.next({ messages: 1, bytes: 1 }, within());
    for (let i = 1; i < nth; i += 1) {
      await gate.reached;
      gate.open();
      gate.shut();
    }
    await gate.reached;
    head.close();
    gate.open();
    await next;
    head.close();
    expect(context.control.watches.size).toBe(before);
    queues.close();
  },
);
