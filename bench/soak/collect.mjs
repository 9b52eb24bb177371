// Loaded into a replica before it starts: at SIGUSR2 it collects its garbage, so that what is left is what is held.
process.on('SIGUSR2', () => globalThis.gc?.());
