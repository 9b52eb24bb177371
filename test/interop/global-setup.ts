/** As for the other tests one ZooKeeper server for the whole run, and the libraries beside it. */
import type { TestProject } from 'vitest/node';
import startZooKeeper from '../support/global-setup.js';
import { provideLibraries, type LibraryName, type Provided } from './libraries.js';

declare module 'vitest' {
  export interface ProvidedContext {
    libraries: Record<LibraryName, Provided>;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [stop, libraries] = await Promise.all([startZooKeeper(project), provideLibraries()]);
  project.provide('libraries', libraries);
  return stop;
}
