/** The file of ensembles: what it may say, and what is refused by name. */
import { describe, expect, it } from 'vitest';
import { EnsembleMap, parseFile, parseStored } from '../../src/wiring/ensembles/map.js';

const west = { zookeeper: 'zk-west:2181' };
const fileOf = (file: object): string => JSON.stringify({ version: 1, ensembles: { west }, namespaces: {}, ...file });

describe('the file of ensembles', () => {
  it('says where each namespace lies, and that all others lie on default', () => {
    const { map, entries } = parseFile(
      fileOf({ namespaces: { orders: 'west', old: { ensemble: 'default', closed: true }, same: 'default' } }),
    );
    expect(map.placeOf('orders')).toEqual({ ensemble: 'west', closed: false });
    expect(map.placeOf('old')).toEqual({ ensemble: 'default', closed: true });
    expect(map.placeOf('any')).toEqual({ ensemble: 'default', closed: false });
    expect(map.named).toEqual(['old', 'orders']);
    expect(entries.get('west')).toEqual({ zookeeper: 'zk-west:2181', fencingFloor: 0 });
  });

  it.each([
    [{ version: 0 }, 'version: must be an integer from 1'],
    [{ version: 1.5 }, 'version: must be an integer from 1'],
    [{ ensembles: { default: west } }, 'ensembles.default: this is the ensemble of POSTERN_ZOOKEEPER'],
    [{ ensembles: { west: { zookeeper: 'a b' } } }, 'ensembles.west.zookeeper: must be host:port'],
    [{ ensembles: { west: { zookeeper: '127.0.0.1:99999' } } }, 'ensembles.west.zookeeper: must be host:port'],
    [{ ensembles: { west: { ...west, fencingFloor: -1 } } }, 'ensembles.west.fencingFloor: must be an integer from 0'],
    [{ namespaces: { orders: 'north' } }, 'namespaces.orders: there is no ensemble "north" in the file'],
    [{ namespaces: { orders: 1 } }, 'namespaces.orders: must be the name of an ensemble'],
    [{ namespaces: { 'a/b': 'west' } }, 'namespaces.a/b'],
    [{ more: 1 }, 'the file: Unrecognized key'],
    [
      { ensembles: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`e${i}`, west])) },
      'ensembles: there are 17, of at most 16',
    ],
    [
      { namespaces: Object.fromEntries(Array.from({ length: 2_001 }, (_, i) => [`n${i}`, 'west'])) },
      'namespaces: there are 2001, of at most 2000',
    ],
  ])('is refused with %j', (bad, why) => {
    expect(() => parseFile(fileOf(bad))).toThrow(why);
  });

  it('is stored with the name of the ensemble, in one spelling', () => {
    const one = new EnsembleMap(3, { b: 'west', a: { ensemble: 'west', closed: true }, c: 'default' });
    const other = new EnsembleMap(3, { a: { ensemble: 'west', closed: true }, b: { ensemble: 'west' } });
    expect(one.isSameAs(other)).toBe(true);
    expect(one.isSameAs(new EnsembleMap(3, { b: 'west' }))).toBe(false);
    const id = '0123456789abcdef'.repeat(2);
    const { map, ensemble, ids } = parseStored(one.encode('west', { west: id }));
    expect(ensemble).toBe('west');
    expect(ids).toEqual({ west: id });
    expect(map.isSameAs(one)).toBe(true);
    expect(() => parseStored(Buffer.from('{}'))).toThrow('version');
    expect(() => parseStored(one.encode('west', { west: 'x' }))).toThrow('ids.west: must be 32 hexadecimal digits');
  });
});
