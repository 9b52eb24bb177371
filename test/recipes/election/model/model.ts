/**
 * What an election should be: the first in line leads, whether it has been told or not, and says what it wants to be
 * known as.
 */
import { LineModel, type Hold, type Place } from '../../line/model/model.js';

export interface Candidate extends Place {
  /** Null: none. */
  value: unknown;
  acknowledged: boolean;
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
