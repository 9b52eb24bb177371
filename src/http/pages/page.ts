/**
 * The shell of every HTML page: nothing from elsewhere, nothing inline, and a policy that allows no more than the style
 * sheet and, where there is one, the script of this replica. A script makes elements and texts, and never markup
 * (`require-trusted-types-for`).
 */
import type { Source } from './asset.js';

export interface PageOptions {
  readonly title: string;
  /** Between `<body>` and `</body>`. */
  readonly body: string;
  /** The path of its style sheet. */
  readonly style: string;
  /** The path of its script, if it has one; it is run when the page has been read. */
  readonly script?: string;
}

const ALWAYS = ["default-src 'none'", "style-src 'self'"];
/** A script may also send requests to the replica that it comes from. */
const WITH_SCRIPT = ["script-src 'self'", "connect-src 'self'", "require-trusted-types-for 'script'"];
const NEVER = ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"];

export function page({ title, body, style, script }: PageOptions): Source {
  const policy = [...ALWAYS, ...(script === undefined ? [] : WITH_SCRIPT), ...NEVER].join('; ');
  const tag = script === undefined ? '' : `\n<script src="${script}" defer></script>`;
  return {
    status: 200,
    contentType: 'text/html; charset=utf-8',
    headers: { 'Content-Security-Policy': policy, 'Referrer-Policy': 'no-referrer' },
    body: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<link rel="stylesheet" href="${style}">${tag}
</head>
<body>
${body}
</body>
</html>
`,
  };
}

export function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
