/** Looks at claims that cross with what else becomes of their messages. */
import { expect, test } from 'vitest';
import { ClaimWatch } from '../../../src/recipes/queue/claim/watch.js';
import { claimPath, type Entry } from '../../../src/recipes/queue/claim/entry.js';
import { SegmentView } from '../../../src/recipes/queue/claim/segment-view.js';
import { messageName } from '../../../src/recipes/queue/paths.js';
import { eventually } from '../../support/eventually.js';
import { answeringBehind, Gate, intercepted } from '../../support/gate.js';
import { freshRoot, sharedZooKeeper } from '../../support/start-zookeeper.js';
import { controlIn } from '../../support/zookeeper/sessions.js';

test('a claim that is listed anew while it is looked at leaves no watch behind', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  const gate = new Gate();
  const watches = answeringBehind(gate, control.watches, 'getData');
  const claims = new ClaimWatch({
    control: intercepted(control, { watches }),
    now: () => Date.now(),
    onEnded: () => undefined,
    onExpired: () => undefined,
  });
  const path = `/${messageName({ sequence: 1, group: undefined })}`;
  await control.create(path);
  await control.create(claimPath(path));
  const listAndClaim = (): { segment: SegmentView; entry: Entry } => {
    const segment = new SegmentView(0, 0, '');
    segment.list([{ sequence: 1, group: undefined }]);
    const entry = segment.entries[0] as Entry;
    claims.add(Object.assign(entry, { state: 'claimed' as const, claimedAt: 0 }));
    return { segment, entry };
  };
  gate.shut();
  const { segment } = listAndClaim();
  await gate.reached;
  segment.drop(); // another replica has had the turn: everything is listed anew
  gate.open();
  await new Promise(setImmediate);
  const { entry } = listAndClaim();
  await eventually('it is watched', () => entry.watch !== undefined);
  claims.close();
  expect(control.watches.size).toBe(0);
});
