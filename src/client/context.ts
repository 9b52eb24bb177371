/** What everything that a client offers stands on. */
import type { Gateways } from './gateways/gateways.js';
import type { LeaseKeeper } from './lease/keeper.js';
import type { Settings } from './options.js';
import type { Rounds } from './gateways/rounds.js';

export interface Context {
  readonly gateways: Gateways;
  readonly keeper: LeaseKeeper;
  readonly settings: Settings;
  readonly rounds: Rounds;
}
