/** The method of a request as a small sign of its own colour. */
export function methodBadge(method: string): string {
  return `<span class="method ${method.toLowerCase()}">${method}</span>`;
}
