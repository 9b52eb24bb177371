/**
 * A replica whose housekeeping comes so often that a soak sees what it leaves behind. It runs the sources: of the
 * built gateway nobody can reach the timing.
 */
import { HOUSEKEEPING_TIMING } from '../../src/recipes/housekeeping/housekeeping.js';

// What nobody uses is kept for minutes, not an hour and a day: so as much is tidied away as comes, from early on.
Object.assign(HOUSEKEEPING_TIMING, { idleMs: 300_000, tombstoneMs: 300_000 });

// It collects its garbage when told to, so that what is left is what is held.
process.on('SIGUSR2', () => globalThis.gc?.());

await import('../../src/main.js');
