/**
 * The contents behind a queue's name were deleted; by now the name may stand for others. Handled where the name is
 * looked up.
 */
export class QueueGoneError extends Error {
  override readonly name = 'QueueGoneError';

  constructor() {
    super('the queue was deleted');
  }
}
