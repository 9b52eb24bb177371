/** Jute: what is written is read again, and what is cut off is refused, wherever the cut is. */
import fc from 'fast-check';
import jute from 'node-zookeeper-client/lib/jute/index.js';
import { describe, expect, it } from 'vitest';
import { ProtocolError, Reader, Writer } from '../../../src/zookeeper/connection/wire.js';

type Value =
  | { type: 'int'; value: number }
  | { type: 'long'; value: number }
  | { type: 'boolean'; value: boolean }
  | { type: 'string'; value: string }
  | { type: 'bytes'; value: Uint8Array }
  | { type: 'strings'; value: string[] };

const text = fc.string({ unit: 'binary', maxLength: 40 });
const anyValue: fc.Arbitrary<Value> = fc.oneof(
  fc.record({ type: fc.constant('int' as const), value: fc.integer() }),
  fc.record({ type: fc.constant('long' as const), value: fc.maxSafeInteger() }),
  fc.record({ type: fc.constant('boolean' as const), value: fc.boolean() }),
  fc.record({ type: fc.constant('string' as const), value: text }),
  fc.record({ type: fc.constant('bytes' as const), value: fc.uint8Array({ maxLength: 600 }) }),
  fc.record({ type: fc.constant('strings' as const), value: fc.array(text, { maxLength: 8 }) }),
);

function write(values: readonly Value[]): Buffer {
  const writer = new Writer(1);
  for (const { type, value } of values) (writer[type] as (value: unknown) => Writer)(value);
  return Buffer.from(writer.finish());
}

function read(buffer: Buffer, values: readonly Value[]): { values: unknown[]; remaining: number } {
  const reader = new Reader(buffer);
  const result = values.map(({ type }) => {
    if (type === 'strings') return reader.vector(() => reader.string());
    return type === 'bytes' ? new Uint8Array(reader.bytes()) : reader[type]();
  });
  return { values: result, remaining: reader.remaining };
}

describe('jute', () => {
  it('reads what was written, to the last byte', () => {
    fc.assert(
      fc.property(fc.array(anyValue), (values) => {
        expect(read(write(values), values)).toEqual({ values: values.map(({ value }) => value), remaining: 0 });
      }),
    );
  });

  it('refuses a record that is cut off anywhere, and never reads past its end', () => {
    fc.assert(
      fc.property(
        fc.array(anyValue, { minLength: 1 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (values, part) => {
          const whole = write(values);
          const cut = whole.subarray(0, Math.floor(whole.length * part));
          expect(() => read(cut, values)).toThrow(ProtocolError);
        },
      ),
    );
  });

  it('reads any bytes as a value or refuses them: nothing else is thrown', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 80 }),
        fc.array(anyValue, { minLength: 1, maxLength: 4 }),
        (bytes, values) => {
          try {
            read(Buffer.from(bytes), values);
          } catch (error) {
            expect(error).toBeInstanceOf(ProtocolError);
          }
        },
      ),
    );
  });

  it('reads a session id as all of its 64 bits', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n }), (id) => {
        const bytes = Buffer.alloc(8);
        bytes.writeBigInt64BE(id);
        expect(new Reader(bytes).bigLong()).toBe(id);
      }),
    );
  });

  it('reads null as empty, and refuses what no server means', () => {
    const int = (value: number): Buffer => Buffer.from(new Writer().int(value).finish());
    expect(new Reader(int(-1)).string()).toBe('');
    expect(new Reader(int(-1)).bytes()).toHaveLength(0);
    expect(new Reader(int(-1)).vector(() => 1)).toEqual([]);
    expect(() => new Reader(int(-2)).string()).toThrow('a length is -2');
    expect(() => new Reader(int(2_000_000_000)).vector(() => 1)).toThrow(ProtocolError);
    expect(() => new Reader(Buffer.alloc(8, 0x7f)).long()).toThrow('beyond 2^53');
  });

  it('writes the same bytes as the library does', () => {
    const password = Buffer.alloc(16, 3);
    const theirs = new jute.Request(
      null,
      new jute.protocol.ConnectRequest(0, Buffer.alloc(8), 4_000, Buffer.alloc(8, 1), password),
    ).toBuffer();
    const ours = new Writer().int(0).int(0).long(0).int(4_000).raw(Buffer.alloc(8, 1)).bytes(password).finishFrame();
    expect(ours.equals(theirs)).toBe(true);
    const auth = new jute.Request(
      new jute.protocol.RequestHeader(-4, 100),
      new jute.protocol.AuthPacket(0, 'digest', Buffer.from('a:b')),
    ).toBuffer();
    expect(
      new Writer().int(0).int(-4).int(100).int(0).string('digest').bytes(Buffer.from('a:b')).finishFrame().equals(auth),
    ).toBe(true);
  });

  it('gives a copy of bytes, so that a small value does not keep a large chunk alive', () => {
    const chunk = write([{ type: 'bytes', value: new Uint8Array([1, 2, 3]) }]);
    const value = new Reader(chunk).bytes();
    chunk.fill(9);
    expect([...value]).toEqual([1, 2, 3]);
  });
});
