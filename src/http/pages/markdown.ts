/**
 * The subset of Markdown that the contract's descriptions use: paragraphs, headings, lists, tables, fenced code, and
 * inline code, strong and emphasis. Everything is escaped first, so that no text can become other markup.
 */
import { escapeHtml } from './page.js';

export function markdown(text: string): string {
  return blocksOf(text).map(renderBlock).join('\n');
}

/** One line of text, as in a table or a heading. */
export function inline(text: string): string {
  return escapeHtml(text.trim())
    .split(/(`[^`]+`)/)
    .map((part) => (part.startsWith('`') ? `<code>${part.slice(1, -1)}</code>` : emphasise(part)))
    .join('');
}

function emphasise(text: string): string {
  return text.replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>').replace(/\*([^*]+)\*/g, '<em>$1</em>');
}

/** Empty lines separate blocks, except within fences. */
function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  for (const part of text.trim().split(/(^```[^]*?^```$)/m)) {
    if (part.startsWith('```')) blocks.push(part);
    else blocks.push(...part.split(/\n\s*\n/).filter((block) => block.trim() !== ''));
  }
  return blocks;
}

function renderBlock(block: string): string {
  const lines = block.replace(/^\n+|\n+$/g, '').split('\n');
  const first = lines[0] ?? '';
  if (first.startsWith('```')) return `<pre><code>${escapeHtml(lines.slice(1, -1).join('\n'))}</code></pre>`;
  if (first.startsWith('|')) return renderTable(lines);
  if (first.startsWith('- '))
    return `<ul>${listItems(lines)
      .map((item) => `<li>${inline(item)}</li>`)
      .join('')}</ul>`;
  const [, marks = '', heading] = /^(#+) (.*)/.exec(first) ?? [];
  if (heading !== undefined) return `<h${marks.length}>${inline(heading)}</h${marks.length}>`;
  return `<p>${inline(lines.join(' '))}</p>`;
}

/** A line that does not begin with a dash continues the item before it. */
function listItems(lines: readonly string[]): string[] {
  const items: string[] = [];
  for (const line of lines) {
    if (line.startsWith('- ')) items.push(line.slice(2));
    else items.push(`${items.pop() ?? ''} ${line.trim()}`);
  }
  return items;
}

function renderTable(lines: readonly string[]): string {
  const [head = [], , ...rows] = lines.map((line) => line.split('|').slice(1, -1));
  const row = (cells: readonly string[]): string =>
    `<tr>${cells.map((cell) => `<td>${inline(cell)}</td>`).join('')}</tr>`;
  const names = head.map((cell) => `<th scope="col">${inline(cell)}</th>`).join('');
  return `<table><thead><tr>${names}</tr></thead><tbody>${rows.map(row).join('')}</tbody></table>`;
}
