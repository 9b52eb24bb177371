/**
 * What README.md and the pages in docs/ tell people to type does what it says. All blocks marked `sh` of a page are run
 * in their order in one shell, as somebody would paste them, at a gateway in front of a ZooKeeper with the settings
 * that it comes with.
 */
import { expect, test } from 'vitest';
import { pages, run, type Page } from './support/snippets.js';
import { startReplica } from './support/start-gateway.js';
import { startZooKeeper } from './support/start-zookeeper.js';
import { scaled } from './support/timing.js';

/**
 * Blocks that cannot run here, by the page and their first line, and why. One that is run after all, or is gone, fails
 * the test.
 */
const NOT_RUN: Record<string, Record<string, string>> = {
  'README.md': {
    'npm start': 'it runs until it is stopped; the gateway of this test stands for it',
  },
  'docs/deploying.md': {
    'docker build -t postern .': 'needs Docker; scripts/check-packaging.mjs performs the image',
    'digest() { docker buildx imagetools inspect "$1" --format \'{{.Manifest.Digest}}\'; }':
      'needs buildx and a registry; it publishes an image',
    'helm install postern helm/postern --set image.repository=registry.example.org/postern \\':
      'needs a cluster; scripts/check-packaging.mjs runs what the chart gives it',
    'npm install --prefix /opt/tracing @opentelemetry/sdk-node @opentelemetry/exporter-trace-otlp-proto':
      'fetches packages and writes outside of the repository; test/frame/tracing.test.ts loads an SDK',
  },
  'docs/performance.md': {
    'npm run bench                                          # everything, three rounds': 'takes hours',
  },
  'docs/runbook.md': {
    'postern export --namespace shop > shop.jsonl.new && mv shop.jsonl.new "shop-$(date +%F).jsonl"':
      'needs the command; test/command/backup.test.ts exports, loses the ensemble and imports',
  },
  'docs/sidecar.md': {
    'postern sidecar --url http://postern:7070 --health http://127.0.0.1:8080/healthz --elect writer --value "$POD_IP:8080" --group web':
      'it runs until it is stopped, beside a program; test/command/sidecar starts it beside one',
  },
  'docs/torture.md': {
    'npm run torture -- --minutes 30 --seed 7                      # the whole of it; the seed is printed when none is given':
      'takes minutes, and half an hour for a report',
  },
};

/** Of what is run: what somebody sees who pastes it, in this order. */
const SHOWN: Record<string, readonly RegExp[]> = {
  'README.md': [
    /backing up under fencing token \d+/,
    /backing up\n"[^"]+"\n/,
    /"name":"backup","held":true/,
    /"holders":\[\{/,
    /"lost":\[\]/,
  ],
  'docs/curl.md': [
    /"name":"report","held":true/,
    /reported/,
    /"key":"app\/primary"/,
    /HTTP\/1.1 304/,
    /"key":"app\/port".*"value":5432/,
    /"status":20[01]/,
    /"claimId":/,
    /"claimId":"[^"]*","status":200/,
    /"state":"committed"/,
    /"state":"committed"/,
  ],
  'docs/fleetlock.md': [/^200$/m, /"owner":"node-1"/, /409\nnode-2 waits/, /^200\n200\n200$/m],
  'docs/terraform.md': [/^200$/m, /"Who":"ann@laptop"/, /run-2 waits/, /^200\n200\n\{"version": 4/m],
  'docs/runbook.md': [
    /what the page says:/,
    // All of it that was there, and the bound.
    /"config":\{(?=[^}]*"order":"priority")(?=[^}]*"maxDepth":100000)(?=[^}]*"maxDeliveries":1)[^}]*"deadLetterQueue":"orders.dead"/,
    /"items":\[[^\]]*"orders.dead"/,
    /4711.*"deadLetter"/,
    /"redriven":1/,
  ],
};

/** What has happened by the time that a page is needed. */
const BEFORE: Record<string, string> = {
  'docs/runbook.md': `
url=http://127.0.0.1:7070
TOKEN=$(curl -s -X POST $url/v1/leases -d '{"ttlMs": 30000}' | sed -n 's/.*"leaseToken":"\\([^"]*\\)".*/\\1/p')
curl -s -X PUT $url/v1/queues/orders -d '{"order": "priority", "maxDepth": 7, "maxDeliveries": 1, "deadLetterQueue": "orders.dead"}'
curl -s -X POST $url/v1/queues/orders/messages -d '{"messages": [{"body": 4711}]}'
claim=$(curl -s -X POST $url/v1/queues/orders/claim -H "Lease-Token: $TOKEN" -d '{}' | sed -n 's/.*"claimId":"\\([^"]*\\)".*/\\1/p')
curl -s -X POST $url/v1/queues/orders/nack -H "Lease-Token: $TOKEN" -d '{"claimIds": ["'$claim'"], "reason": "broken"}'
echo; echo "what the page says:"`,
};

const firstLine = (block: string): string => block.slice(0, block.indexOf('\n'));
const whyNot = ({ name }: Page, block: string): string | undefined => NOT_RUN[name]?.[firstLine(block)];

test('every reason for not running a block belongs to a block that is there', async () => {
  const all = await pages();
  const listed = Object.entries(NOT_RUN).flatMap(([name, reasons]) =>
    Object.keys(reasons).map((line) => `${name}: ${line}`),
  );
  const there = all.flatMap((page) => page.blocks.map((block) => `${page.name}: ${firstLine(block)}`));
  expect(listed.filter((line) => !there.includes(line))).toEqual([]);
});

test(
  'every other block does what its page says',
  async () => {
    // As an ensemble comes: sessions of 4 to 40 s, 60 connections.
    await using zookeeper = await startZooKeeper({
      tickTime: 2_000,
      config: { maxClientCnxns: '60', maxSessionTimeout: '40000' },
    });
    await using replica = await startReplica({ zookeeper: zookeeper.connectString });
    for (const page of await pages()) {
      const blocks = page.blocks.filter((block) => whyNot(page, block) === undefined);
      if (blocks.length === 0) continue;
      const { code, output } = await run([BEFORE[page.name] ?? '', ...blocks], replica.url);
      expect(code, `${page.name}: ${output}`).toBe(0);
      let at = 0;
      for (const shown of SHOWN[page.name] ?? []) {
        const found = shown.exec(output.slice(at));
        expect(
          found,
          `${page.name} shows ${String(shown)} after ${output.slice(0, at)}, but ${output.slice(at)}`,
        ).not.toBe(null);
        at += (found?.index ?? 0) + (found?.[0].length ?? 0);
      }
    }
  },
  scaled(120_000),
);
