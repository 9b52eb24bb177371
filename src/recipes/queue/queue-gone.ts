/** The contents behind a queue's name were deleted; the name may stand for others by now. Handled where the name is looked up. */
export class QueueGoneError extends Error {
  override readonly name = 'QueueGoneError';

  constructor() {
    super('the queue was deleted');
  }
}
