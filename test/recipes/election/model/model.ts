/**
 * What an election should be: the first in line leads, whether it has been told or not, and says what it wants to be
 * known as.
 */
import { PASSED_MAX } from '../../../../src/recipes/election/preference.js';
import { LineModel, type Hold, type Place } from '../../line/model/model.js';

export interface Candidate extends Place {
  /** Null: none. */
  value: unknown;
  acknowledged: boolean;
  preference: number;
  /** How often it has made way while its campaign waited. */
  passed: number;
  /** As it was shown or answered first; it stays so. */
  candidateId?: string;
  /** Since somebody saw it lead. */
  fencingToken?: number;
}

export class ElectionModel extends LineModel<Candidate> {
  get leader(): Candidate | undefined {
    return this.places[0];
  }

  /**
   * Who makes way for one that comes now: the last of the line, up to the first that is preferred as much, or has made
   * way often enough, or leads.
   * @param told how often a lease was told that it lost a candidacy
   */
  makingWay(preference: number, told: (client: number) => number): Candidate[] {
    const stays = ({ client, passed, ...other }: Candidate): boolean =>
      other.preference >= preference || passed + told(client) >= PASSED_MAX;
    return this.places.slice(Math.max(1, this.places.findLastIndex(stays) + 1));
  }

  /**
   * A candidate campaigns, not for the first time. Once it was told that it leads it changes its value by proclaiming.
   */
  campaignAgain(candidate: Candidate, value: unknown): void {
    if (candidate.hold === undefined && value !== undefined) candidate.value = value;
  }

  /** @throws when it was known as somebody else */
  isKnownAs(candidate: Candidate, candidateId: string): void {
    candidate.candidateId ??= candidateId;
    if (candidate.candidateId !== candidateId)
      throw new Error(`candidate ${candidate.candidateId} is called ${candidateId} now`);
  }

  /**
   * Somebody saw it lead.
   * @throws when its fencing token is another one than before, or not above those of all leaders before it
   */
  leads(candidate: Candidate, fencingToken: number): void {
    if (candidate.fencingToken === undefined) super.fence(candidate, fencingToken);
    else if (candidate.fencingToken !== fencingToken)
      throw new Error(`the leader's fencing token was ${candidate.fencingToken} and is ${fencingToken}`);
    candidate.fencingToken = fencingToken;
  }

  override granted(candidate: Candidate, hold: Hold): void {
    super.granted(candidate, hold);
    this.isKnownAs(candidate, hold.holdId);
  }

  protected override fence(candidate: Candidate, fencingToken: number): void {
    this.leads(candidate, fencingToken);
  }
}
