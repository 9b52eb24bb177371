/** Cutting the stream into frames: the same frames however the network cut it, at a cost that is linear. */
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { FrameReader } from '../../../src/zookeeper/connection/frames.js';
import { ProtocolError } from '../../../src/zookeeper/connection/wire.js';
import { frame } from '../../support/zookeeper/fake-server.js';

afterEach(() => {
  vi.restoreAllMocks();
});

/** The stream in pieces of these sizes, over and over. */
function pieces(stream: Buffer, sizes: readonly number[]): Buffer[] {
  const result: Buffer[] = [];
  for (let offset = 0, i = 0; offset < stream.length; i += 1) {
    const size = sizes[i % sizes.length] as number;
    result.push(stream.subarray(offset, offset + size));
    offset += size;
  }
  return result;
}

describe('the frame reader', () => {
  const bodies = fc.array(fc.uint8Array({ maxLength: 50 }), { maxLength: 20 });
  const sizes = fc.array(fc.integer({ min: 1, max: 70 }), { minLength: 1, maxLength: 5 });

  it('gives the same frames however the stream is cut', () => {
    fc.assert(
      fc.property(bodies, sizes, (all, cut) => {
        const reader = new FrameReader();
        const stream = Buffer.concat(all.map((body) => frame(Buffer.from(body))));
        const read = pieces(stream, cut).flatMap((piece) => reader.push(piece).map((each) => new Uint8Array(each)));
        expect(read).toEqual(all);
      }),
    );
  });

  it('forgets what was left when it is reset (defect 1)', () => {
    const reader = new FrameReader();
    expect(reader.push(frame(Buffer.alloc(100)).subarray(0, 50))).toEqual([]);
    reader.reset();
    expect(reader.push(frame(Buffer.from('new'))).map(String)).toEqual(['new']);
  });

  it.each([-1, -2_147_483_648, 64 * 1024 * 1024 + 1, 2 ** 31 - 1])(
    'refuses a frame of %i bytes as soon as it is announced (defect 9)',
    (length) => {
      const reader = new FrameReader();
      const announced = Buffer.alloc(4);
      announced.writeInt32BE(length);
      expect(() => reader.push(announced)).toThrow(ProtocolError);
      expect(reader.push(frame(Buffer.from('next'))).map(String)).toEqual(['next']);
    },
  );

  it('copies no byte more than twice, be it one large frame in many chunks or many frames in one (defect 22)', () => {
    let copied = 0;
    const concat = Buffer.concat.bind(Buffer);
    vi.spyOn(Buffer, 'concat').mockImplementation((list, length) => {
      const result = concat(list, length);
      copied += result.length;
      return result;
    });
    const large = frame(Buffer.alloc(4 * 1024 * 1024, 1));
    const small = concat(Array.from({ length: 30_000 }, () => frame(Buffer.alloc(20))));
    for (const stream of [large, small]) {
      copied = 0;
      const reader = new FrameReader();
      let frames = 0;
      for (const piece of pieces(stream, [65_536])) frames += reader.push(piece).length;
      expect(frames).toBe(stream === large ? 1 : 30_000);
      expect(copied).toBeLessThanOrEqual(stream.length * 2);
    }
  });
});
