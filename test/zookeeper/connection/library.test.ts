/**
 * What we stand on. The repairs fit node-zookeeper-client 1.1.3 and nothing else: another version or another set of
 * methods fails here, and docs/zookeeper-client.md says what to look at again.
 */
import { readFileSync } from 'node:fs';
import ConnectionManager from 'node-zookeeper-client/lib/ConnectionManager.js';
import jute from 'node-zookeeper-client/lib/jute/index.js';
import { describe, expect, it } from 'vitest';
import { Connection } from '../../../src/zookeeper/connection/connection.js';

describe('node-zookeeper-client', () => {
  it('is exactly the version whose defects are repaired', () => {
    const read = (path: string): { version?: string; dependencies?: Record<string, string> } =>
      JSON.parse(readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')) as never;
    expect(read('node_modules/node-zookeeper-client/package.json').version).toBe('1.1.3');
    expect(read('package.json').dependencies?.['node-zookeeper-client']).toBe('1.1.3');
  });

  it('has exactly the methods that were looked at', () => {
    const methods = Object.keys(ConnectionManager.prototype).sort();
    expect(methods).toEqual([
      'addAuthInfo',
      'cleanupPendingQueue',
      'close',
      'connect',
      'findNextServer',
      'getSessionId',
      'getSessionPassword',
      'getSessionTimeout',
      'onPacketQueueReadable',
      'onSocketClosed',
      'onSocketConnectTimeout',
      'onSocketConnected',
      'onSocketData',
      'onSocketDrain',
      'onSocketError',
      'onSocketTimeout',
      'queue',
      'registerChildWatcher',
      'registerDataWatcher',
      'registerExistenceWatcher',
      'setState',
      'updateTimeout',
    ]);
  });

  it('has the states and numbers that are used', () => {
    expect(ConnectionManager.STATES).toEqual({
      DISCONNECTED: 0,
      CONNECTING: 1,
      CONNECTED: 2,
      CONNECTED_READ_ONLY: 3,
      CLOSING: -1,
      CLOSED: -2,
      SESSION_EXPIRED: -3,
      AUTHENTICATION_FAILED: -4,
    });
    expect([jute.PROTOCOL_VERSION, jute.XID_NOTIFICATION, jute.XID_PING, jute.XID_AUTHENTICATION]).toEqual([
      0, -1, -2, -4,
    ]);
  });

  it('is not reached by the ways that lose requests or block: its queue, its close, its handling of a closed socket', () => {
    const own = new Set(Object.getOwnPropertyNames(Connection.prototype));
    for (const method of [
      'queue',
      'close',
      'connect',
      'findNextServer',
      'onSocketClosed',
      'onSocketConnected',
      'onSocketData',
      'onSocketError',
    ]) {
      expect(own.has(method), method).toBe(true);
    }
  });
});
