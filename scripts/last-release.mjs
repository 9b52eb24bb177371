/** Builds the last release, if that was not done before, and prints the file that starts a replica of it. */
import { provideLastRelease } from './lib/last-release.mjs';

try {
  console.log((await provideLastRelease((line) => console.error(line))).main);
} catch (error) {
  console.error(/** @type {Error} */ (error).message);
  process.exitCode = 1;
}
