/** A small plot of the last minutes. Its numbers stand beside it as text: it is for the shape. */
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import type { Columns } from '../state/history.js';

export interface PlotProps {
  readonly columns: Columns;
  readonly names: readonly [string, string];
  readonly label: string;
}

const HEIGHT_PX = 160;
const SECONDS = 300;

export function Plot({ columns, names, label }: PlotProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(element.clientWidth, names), columns, element);
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    resized.observe(element);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', draw);
    return () => {
      resized.disconnect();
      dark.removeEventListener('change', draw);
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(columns), [columns]);
  return <div class="plot" ref={box} role="img" aria-label={label} />;
}

function optionsOf(width: number, [first, second]: readonly [string, string]): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = { stroke: colour('--soft'), font: '11px system-ui', grid: { stroke: colour('--line'), width: 1 } };
  const series = (label: string, name: string): uPlot.Series => ({
    label,
    stroke: colour(name),
    width: 1.5,
    points: { show: false },
  });
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: (_plot, _min, max) => [max - SECONDS, max] },
      y: { range: (_plot, _min, max) => [0, Math.max(4, Math.ceil(max * 1.1))] },
    },
    axes: [
      { ...axis, ticks: { show: false }, size: 24, space: 90, values: (_plot, times) => times.map(timeOf) },
      { ...axis, ticks: { show: false }, size: 36, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000] },
    ],
    series: [{}, series(first, '--plot-held'), series(second, '--plot-waiting')],
  };
}

function timeOf(seconds: number): string {
  return new Date(seconds * 1_000).toLocaleTimeString('en-GB');
}
