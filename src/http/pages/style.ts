/** The style sheet of all pages. It follows the light or dark scheme of the reader and needs no font or image. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --panel: #ffffff; --ink: #1d2125; --soft: #5c6670; --line: #e3e0da; --link: #1a5f8a; --code: #f3f1ec;
  --get: #22663f; --post: #1d5a96; --delete: #a13030; --put: #8a5a00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --panel: #1b1f23; --ink: #e4e6e8; --soft: #9aa4ad; --line: #2d3339; --link: #7fbde6; --code: #23282d;
    --get: #7cc79a; --post: #86b9ee; --delete: #f09a9a; --put: #e2b866;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.6 system-ui, sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover, a:focus-visible { text-decoration: underline; }
code, pre, .path { font-family: ui-monospace, "Cascadia Code", Menlo, Consolas, monospace; font-size: .875em; }
code { background: var(--code); border-radius: 4px; padding: .1em .35em; overflow-wrap: anywhere; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1rem; overflow-x: auto; line-height: 1.5; }
pre code { background: none; padding: 0; font-size: 1em; overflow-wrap: normal; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.02em; }
h2 { font-size: 1.45rem; margin: 3rem 0 1rem; letter-spacing: -.01em; }
h3 { font-size: 1.1rem; margin: 0; }
h4 { font-size: .8rem; margin: 1.4rem 0 .5rem; text-transform: uppercase; letter-spacing: .06em; color: var(--soft); }
.lead { color: var(--soft); font-size: 1.1rem; margin: 0 0 2rem; }
.layout { display: grid; grid-template-columns: 18rem minmax(0, 1fr); max-width: 84rem; margin: 0 auto; }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 2rem 1.25rem; border-right: 1px solid var(--line); font-size: .9rem; }
nav strong { display: block; font-size: 1.15rem; letter-spacing: -.01em; margin-bottom: 1rem; }
nav h4 { margin: 1.5rem 0 .35rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li a { display: flex; gap: .5rem; align-items: baseline; padding: .18rem 0; color: var(--ink); }
main { padding: 2.5rem clamp(1rem, 4vw, 3.5rem) 6rem; max-width: 62rem; }
main.narrow { max-width: 44rem; margin: 0 auto; }
.operation { background: var(--panel); border: 1px solid var(--line); border-radius: 12px; padding: 1.4rem 1.6rem; margin: 0 0 1.5rem; }
.operation > header { display: flex; flex-wrap: wrap; gap: .3rem .8rem; align-items: baseline; }
.operation > header .path { font-size: 1rem; overflow-wrap: anywhere; }
.operation > header h3 { flex-basis: 100%; margin-bottom: .2rem; }
.method { font: 700 .72rem/1 ui-monospace, Menlo, Consolas, monospace; letter-spacing: .03em; min-width: 4.2em; }
.get { color: var(--get); } .post { color: var(--post); } .delete { color: var(--delete); } .put { color: var(--put); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .9rem .5rem 0; border-top: 1px solid var(--line); }
td:first-child code { overflow-wrap: normal; }
th { border-top: 0; font-size: .78rem; color: var(--soft); font-weight: 600; }
td p { margin: 0 0 .3rem; } td p:last-child { margin: 0; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; margin-top: .6rem; }
.note { color: var(--soft); font-size: .88rem; }
.required { color: var(--delete); font-size: .78rem; white-space: nowrap; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; margin: 0 0 2rem; padding: 0; list-style: none; }
.facts li { border: 1px solid var(--line); border-radius: 99px; padding: .15rem .8rem; font-size: .88rem; background: var(--panel); }
@media (max-width: 60rem) {
  .layout { display: block; }
  nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); }
  nav ul { columns: 14rem; }
}
`;
