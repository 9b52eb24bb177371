#!/usr/bin/env node
/** Where the process begins. */
import './signals.js';

await import('./run.js');
