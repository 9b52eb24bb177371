// A job for the crontabs of many machines that is done once a day.
//
//   0 3 * * *  node /opt/nightly.mjs
//
// Of all machines that ask for this day, one does the work; the others wait, and the next one does it if that fails or
// its machine dies. The signal aborts before another machine may begin, and a day that is done is not done again.
import { hostname } from 'node:os';
import { Postern } from 'postern/client';

const occurrence = process.argv[2] ?? new Date().toISOString().slice(0, 10);
const postern = new Postern({ urls: [process.env.POSTERN_URL ?? 'http://127.0.0.1:7070'], label: hostname() });
try {
  const told = await postern.run('nightly').once({ occurrence, waitMs: 60_000 }, ({ signal }) => work(signal));
  if (told.started) console.log(`${occurrence} done here`);
  else console.log(`${occurrence} is ${told.state} at ${told.by.label}`);
} finally {
  await postern.close();
}

async function work(signal) {
  // Pass the signal to what the job does: fetch(url, { signal }), spawn(command, { signal }) …
  signal.throwIfAborted();
  console.log(`working for ${occurrence}`);
}
