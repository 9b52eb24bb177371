/** A chart of lines as an SVG file, by hand: axes with their ends, a legend, nothing that moves. */

export interface Series {
  readonly name: string;
  /** x in seconds. */
  readonly points: readonly (readonly [number, number])[];
}

const WIDTH = 760;
const HEIGHT = 240;
const LEFT = 64;
const RIGHT = 12;
const TOP = 34;
const BOTTOM = 42;
const COLOURS = ['#1f6feb', '#d1242f', '#1a7f37', '#9a6700', '#8250df', '#57606a'];
const LINES = 4;

/** @param unit of the y axis */
export function plot(title: string, unit: string, series: readonly Series[]): string {
  const all = series.flatMap(({ points }) => points).filter(([, y]) => Number.isFinite(y));
  const xMax = Math.max(1, ...all.map(([x]) => x));
  const yMax = niceAbove(Math.max(1e-9, ...all.map(([, y]) => y)));
  const x = (value: number): number => LEFT + (value / xMax) * (WIDTH - LEFT - RIGHT);
  const y = (value: number): number => HEIGHT - BOTTOM - (value / yMax) * (HEIGHT - TOP - BOTTOM);
  const grid = Array.from({ length: LINES + 1 }, (_, i) => {
    const value = (yMax / LINES) * i;
    return (
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at(y(value))}" y2="${at(y(value))}" stroke="#d0d7de"/>` +
      `<text x="${LEFT - 6}" y="${at(y(value) + 4)}" text-anchor="end">${label(value)}</text>`
    );
  });
  const minutes = Array.from({ length: LINES + 1 }, (_, i) => {
    const seconds = (xMax / LINES) * i;
    return `<text x="${at(x(seconds))}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${label(seconds / 60)}</text>`;
  });
  const lines = series.map(({ points }, i) => {
    const path = points
      .filter(([, value]) => Number.isFinite(value))
      .map(([s, value]) => `${at(x(s))},${at(y(value))}`);
    return `<polyline fill="none" stroke="${COLOURS[i % COLOURS.length]}" stroke-width="1.5" points="${path.join(' ')}"/>`;
  });
  let legendAt = LEFT;
  const legend = series.map(({ name }, i) => {
    const here = legendAt;
    legendAt += 28 + name.length * 6.5;
    return (
      `<rect x="${here}" y="${HEIGHT - 16}" width="10" height="10" fill="${COLOURS[i % COLOURS.length]}"/>` +
      `<text x="${here + 14}" y="${HEIGHT - 7}">${escape(name)}</text>`
    );
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="11" fill="#24292f" role="img">`,
    `<title>${escape(title)}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    `<text x="${LEFT}" y="18" font-size="13" font-weight="bold">${escape(title)}</text>`,
    `<text x="${WIDTH - RIGHT}" y="18" text-anchor="end">${escape(unit)}, over minutes</text>`,
    ...grid,
    ...minutes,
    ...lines,
    ...legend,
    '</svg>',
    '',
  ].join('\n');
}

function niceAbove(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 2.5, 4, 5, 8, 10].find((step) => step * power >= value * 1.02) ?? 20) * power;
}

function at(value: number): string {
  return value.toFixed(1);
}

function label(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en-US').replaceAll(',', ' ');
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
