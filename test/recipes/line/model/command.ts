/**
 * What all commands have in common: each does something for real, says what the answer must have been, and sees all
 * agree with the model.
 */
import type fc from 'fast-check';
import type { Reply } from '../../../support/http/client.js';
import type { LineModel } from './model.js';
import type { LineScene } from './scene.js';
import { inWords } from './open-requests.js';

export abstract class Command<S extends LineScene = LineScene> implements fc.AsyncCommand<LineModel, S> {
  /** @param scene the one of the sequence that runs now */
  constructor(protected readonly scene: () => S) {}

  check(_model?: Readonly<LineModel>): boolean {
    return this.scene().current;
  }

  run(_model: LineModel, scene: S): Promise<void> {
    scene.commands += 1;
    return scene.whileCurrent(async () => {
      await this.act(scene);
      await scene.agree();
    });
  }

  abstract act(scene: S): Promise<void>;
  abstract toString(): string;
}

export function expectReply(reply: Reply, status: number, members: object = {}): void {
  const body = (reply.body ?? {}) as Record<string, unknown>;
  const wrong = Object.entries(members).some(([name, value]) => body[name] !== value);
  if (reply.status !== status || wrong)
    throw new Error(`expected ${status} ${JSON.stringify(members)}, was answered ${inWords(reply)}`);
}
