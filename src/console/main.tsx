/** The console: a page about one gateway, which is a user of its public API and of nothing else. */
import { render } from 'preact';
import { App } from './app.js';
import { beginLive } from './state/live.js';
import { beginPlace } from './state/place.js';
import { beginHistory } from './state/overview.js';
import './style/app.css';

beginPlace();
beginLive();
beginHistory();
render(<App />, document.getElementById('app') as HTMLElement);
