// A job for the crontabs of many machines that is done once a day.
//
//   0 3 * * *  node /opt/nightly.mjs
//
// The lock keeps the machines apart, and a key records that the job is done. The key is written only while the lock is
// held, so a machine that was asleep meanwhile records nothing. If a run dies, the next machine in line repeats it.
import { hostname } from 'node:os';
import { Postern } from 'postern/client';

const day = process.argv[2] ?? new Date().toISOString().slice(0, 10);
const postern = new Postern({ urls: [process.env.POSTERN_URL ?? 'http://127.0.0.1:7070'], label: hostname() });
try {
  await postern.lock('nightly').using({ waitMs: 60_000 }, async (hold) => {
    if ((await postern.config.get(`nightly/${day}`)) !== undefined) return console.log(`${day} is done`);
    await work(hold.signal);
    await postern.config.put(`nightly/${day}`, { by: hostname() }, { ifAbsent: true, guard: hold });
    console.log(`${day} done here`);
  });
} finally {
  await postern.close();
}

async function work(signal) {
  // Pass the signal to what the job does: fetch(url, { signal }), spawn(command, { signal }) …
  signal.throwIfAborted();
  console.log(`working for ${day}`);
}
