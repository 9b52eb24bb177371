/** The console without a mouse. */
import { expect, it } from 'vitest';
import { startReplica } from '../support/start-gateway.js';
import { eventually } from '../support/eventually.js';
import { Console, useBrowser } from './browser.js';
import { setScene } from './scene.js';

useBrowser();

const PRESSES_MAX = 40;

/** Presses Tab until what has the focus reads like this. */
async function tabTo(tab: Console, text: string): Promise<void> {
  const { page } = tab;
  for (let presses = 0; presses < PRESSES_MAX; presses += 1) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(() => {
      const { activeElement: element } = document;
      return element?.getAttribute('aria-label') ?? element?.textContent ?? '';
    });
    if (focused.startsWith(text)) return;
  }
  throw new Error(`${PRESSES_MAX} presses of Tab do not lead to "${text}"`);
}

const focusedText = (tab: Console): Promise<string | null | undefined> =>
  tab.page.evaluate(() => document.activeElement?.textContent);

it('is used with the keyboard alone, from the first key to a revoked hold', async () => {
  await using replica = await startReplica();
  const scene = await setScene(replica);
  try {
    await using tab = await Console.open(replica.url);
    await tab.untilLive();
    await tabTo(tab, 'Skip to the content');
    await tab.page.keyboard.press('Enter');
    expect(await tab.page.evaluate(() => document.activeElement?.id)).toBe('main');
    await tab.page.reload();
    await tab.untilLive();
    await tabTo(tab, 'Lines');
    await tab.page.keyboard.press('Enter');
    await eventually('the heading of the view has the focus', async () => (await focusedText(tab)) === 'Lines');
    await tab.page.locator('.list').getByText('backup').first().waitFor();
    await tabTo(tab, 'backup');
    await tab.page.keyboard.press('Enter');
    await eventually('the heading of the lock has the focus', async () => (await focusedText(tab)) === 'backup');
    await tabTo(tab, 'Revoke…');
    await tab.page.keyboard.press('Enter');
    await eventually('what does no harm has the focus', async () => (await focusedText(tab)) === 'Cancel');
    await tab.page.keyboard.press('Escape');
    await eventually('the button has the focus again', async () => (await focusedText(tab)) === 'Revoke…');
    await tab.page.keyboard.press('Enter');
    await eventually('it asks again', async () => (await focusedText(tab)) === 'Cancel');
    await tabTo(tab, 'Revoke');
    await tab.page.keyboard.press('Enter');
    await eventually('the holder is told', async () => {
      const { body } = await replica.heartbeat(scene.nightly);
      return (body as { revocations: unknown[] }).revocations.length === 1;
    });
  } finally {
    await scene.end();
  }
});
