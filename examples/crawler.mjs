// A crawler in any number of processes: each page of a site is fetched, and none twice, unless a process dies over it.
//
//   node examples/crawler.mjs http://127.0.0.1:8080/
//
// Pages to fetch are messages of a queue. The address of a page is the messageId, so a page that many others link to is
// pushed once (within five minutes, for as long as marks of messageIds are kept). A process that dies loses its lease,
// and the pages that it had claimed are back in their places. The processes end when no page is left.
import { createHash } from 'node:crypto';
import { Postern } from 'postern/client';

const [start] = process.argv.slice(2);
if (start === undefined) {
  console.error('usage: node examples/crawler.mjs <url>');
  process.exit(64);
}
const { origin } = new URL(start);
const postern = new Postern({
  urls: [process.env.POSTERN_URL ?? 'http://127.0.0.1:7070'],
  label: `crawler ${process.pid}`,
});
const pages = postern.queue(`crawl-${idOf(origin)}`);

await push([start]);
const all = new AbortController();
const watching = setInterval(() => void endIfEmpty(), 250);
for await (const job of pages.jobs({ concurrency: 4, signal: all.signal, onFailure: (error) => console.error(error) }))
  await job.done(fetchPage(String(job.body)));
clearInterval(watching);
await postern.close();

async function fetchPage(url) {
  const response = await fetch(url);
  const text = await response.text();
  const links = [...text.matchAll(/href="([^"]+)"/g)].map(([, link = '']) => new URL(link, url).href);
  await push(links.filter((link) => new URL(link).origin === origin));
  console.log(`${response.status} ${url}`);
}

// Before the page that they were found on is done, so the queue is never empty too early.
async function push(urls) {
  const unique = [...new Set(urls)];
  if (unique.length > 0) await pages.pushAll(unique.map((url) => ({ body: url, messageId: idOf(url) })));
}

// The depth counts pages that somebody works on, too.
async function endIfEmpty() {
  const { depth } = await pages.show();
  if (depth === 0) all.abort();
}

function idOf(url) {
  return createHash('sha256').update(url).digest('hex').slice(0, 32);
}
