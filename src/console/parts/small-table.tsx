/** A table of a few rows. */
import type { ComponentChildren, JSX } from 'preact';

export interface SmallTableProps {
  readonly caption: string;
  readonly heads: readonly string[];
  readonly rows: readonly (readonly ComponentChildren[])[];
  /** What each row is about, where rows move and have something that is open, such as a dialog. */
  readonly keys?: readonly string[];
}

export function SmallTable({ caption, heads, rows, keys }: SmallTableProps): JSX.Element {
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table class="small-table">
        <caption>{caption}</caption>
        <thead>
          <tr>
            {heads.map((head) => (
              <th scope="col" key={head}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, index) => (
            <tr key={keys?.[index] ?? index}>
              {cells.map((cell, column) => (
                <td key={column}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
