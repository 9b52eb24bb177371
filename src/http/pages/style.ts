/** The style sheet of all pages. It follows the light or dark scheme of the reader and needs no font or image. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --panel: #ffffff; --ink: #1d2125; --soft: #56606a; --line: #e3e0da; --link: #1a5f8a; --code: #f3f1ec;
  --get: #22663f; --post: #1d5a96; --delete: #a13030; --put: #7d5200;
  --mono: ui-monospace, "Cascadia Code", "DejaVu Sans Mono", Menlo, Consolas, monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --panel: #1b1f23; --ink: #e4e6e8; --soft: #9aa4ad; --line: #2d3339; --link: #7fbde6; --code: #23282d;
    --get: #7cc79a; --post: #86b9ee; --delete: #f09a9a; --put: #e2b866;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.6 system-ui, sans-serif; overflow-wrap: break-word; }
a { color: var(--link); text-decoration: underline; text-decoration-thickness: 1px; text-underline-offset: .2em; }
a:hover { text-decoration-thickness: 2px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 3px; }
main:focus { outline: none; }
code, pre, kbd, textarea, .path { font-family: var(--mono); font-size: .875em; }
code { background: var(--code); border-radius: 4px; padding: .1em .35em; overflow-wrap: anywhere; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; margin: .8rem 0; line-height: 1.5; color: var(--ink); white-space: pre-wrap; overflow-wrap: anywhere; }
pre code { background: none; padding: 0; font-size: 1em; }
kbd { border: 1px solid var(--line); border-radius: 4px; padding: 0 .4em; background: var(--panel); }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .75rem; letter-spacing: -.02em; }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 3rem 0 1rem; letter-spacing: -.01em; }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.skip { position: absolute; left: -99rem; top: .5rem; z-index: 1; background: var(--panel); padding: .5rem 1rem; border: 1px solid var(--line); border-radius: 6px; }
.skip:focus { left: .5rem; }

.layout { display: grid; grid-template: auto 1fr / 18.5rem minmax(0, 1fr); max-width: 84rem; margin: 0 auto; }
.side-head { grid-area: 1 / 1; padding: 1.75rem 1.25rem .5rem; border-right: 1px solid var(--line); }
.brand { font-size: 1.2rem; font-weight: 700; letter-spacing: -.01em; color: var(--ink); text-decoration: none; margin-right: .4rem; }
nav { grid-area: 2 / 1; border-right: 1px solid var(--line); font-size: .9rem; }
#filter-box, #navigation { padding: 0 1.25rem; }
#filter-box { position: sticky; top: 0; background: var(--paper); padding-top: .75rem; padding-bottom: .5rem; }
#filter-box label { display: flex; justify-content: space-between; color: var(--soft); font-size: .85rem; margin-bottom: .25rem; }
#filter-status { margin: .25rem 0 0; min-height: 1.4em; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav .general { padding-bottom: .75rem; margin-bottom: .75rem; border-bottom: 1px solid var(--line); }
nav li > a { display: block; padding: .18rem 0; color: var(--ink); text-decoration: none; }
nav li > a:hover { color: var(--link); text-decoration: underline; }
nav [aria-current] { font-weight: 650; color: var(--link); }
nav .tags ul { display: none; margin: .15rem 0 .6rem; padding-left: .75rem; border-left: 2px solid var(--line); }
nav .tags [aria-current] + ul, nav.filtering .tags ul { display: block; }
nav .tags ul a { display: grid; grid-template-columns: 3.6em 1fr; gap: .35rem; align-items: baseline; line-height: 1.35; padding: .22rem 0; }
nav small { display: none; color: var(--soft); font: .76rem/1.3 var(--mono); overflow-wrap: anywhere; }
nav.filtering small { display: block; }
@media (min-width: 60.01rem) {
  .layout { min-height: 100vh; }
  nav { position: sticky; top: 0; max-height: 100vh; overflow-y: auto; }
  #navigation { padding-bottom: 2rem; }
}
main { grid-area: 1 / 2 / 3 / 2; padding: 2.5rem clamp(1rem, 4vw, 3.5rem) 6rem; max-width: 62rem; min-width: 0; }
main.narrow { max-width: 44rem; margin: 0 auto; }
main.narrow h2 { font-size: 1.1rem; margin: 1.8rem 0 .4rem; }
main.narrow h2 + p { margin-top: 0; }
.lead { color: var(--soft); font-size: 1.05rem; margin: 0 0 2rem; max-width: 46rem; }
.lead h2 { color: var(--ink); margin-top: 2rem; }
.columns { columns: 13rem; list-style: none; padding: 0; font-size: .9rem; }

.operation { background: var(--panel); border: 1px solid var(--line); border-radius: 12px; padding: 1.3rem 1.6rem; margin: 0 0 1.5rem; }
.operation > header h2, .operation > h2, .operation > h3 { font-size: 1.15rem; margin: 0; }
.operation :is(h2, h3) > a { color: inherit; text-decoration: none; }
.operation :is(h2, h3) > a:hover { text-decoration: underline; }
.operation > h3:not(:first-child) { font-size: .95rem; margin: 1.5rem 0 .3rem; }
.operation:target { border-color: var(--link); }
.request { display: flex; gap: .6rem; align-items: baseline; margin: .15rem 0 .8rem; }
.path { background: none; padding: 0; font-size: .95rem; color: var(--soft); }
.method { font: 700 .72rem/1 var(--mono); letter-spacing: .03em; }
.get { color: var(--get); } .post { color: var(--post); } .delete { color: var(--delete); } .put { color: var(--put); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .9rem .5rem 0; border-top: 1px solid var(--line); }
td:first-child code, td:first-child .method { overflow-wrap: normal; white-space: nowrap; }
td:first-child code { white-space: normal; }
th { border-top: 0; font-size: .8rem; color: var(--soft); font-weight: 600; padding-bottom: .25rem; }
td p { margin: 0 0 .3rem; } td p:last-child { margin: 0; }
.operations-table table { table-layout: fixed; }
.operations-table th:nth-child(1) { width: 4.8rem; } .operations-table th:nth-child(3) { width: 50%; }
.operations-table td code { background: none; padding: 0; color: var(--soft); }
summary { cursor: pointer; color: var(--soft); font-size: .92rem; margin-top: .6rem; }
.note { color: var(--soft); font-size: .88rem; }
.caption { font-size: .92rem; color: var(--soft); margin: 1.2rem 0 -.4rem; }
.required { color: var(--delete); font-size: .8rem; white-space: nowrap; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; margin: 0 0 2rem; padding: 0; list-style: none; }
.facts li { border: 1px solid var(--line); border-radius: 99px; padding: .15rem .8rem; font-size: .88rem; background: var(--panel); }

button, input, textarea { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--soft); border-radius: 6px; }
button { font-size: .85rem; padding: .25rem .8rem; cursor: pointer; }
button:hover { border-color: var(--link); color: var(--link); }
button.main { background: var(--link); border-color: var(--link); color: var(--paper); }
button.main:hover { filter: brightness(1.1); color: var(--paper); }
input, textarea { width: 100%; padding: .35rem .6rem; color: var(--ink); }
textarea { display: block; min-height: 6rem; font: .85rem/1.5 var(--mono); resize: vertical; }
.actions { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: -.2rem 0 .8rem; }
.fields { display: grid; gap: .6rem; margin: 0 0 .8rem; }
.fields label { font-size: .85rem; color: var(--soft); }
.fields input { font: .85rem/1.5 var(--mono); }
.result { border-left: 3px solid var(--line); padding-left: 1rem; margin: 0 0 1rem; }
.result.good { border-color: var(--get); } .result.bad { border-color: var(--delete); }
.result p { margin: 0 0 .3rem; }
.result pre { margin: .4rem 0; max-height: 26rem; overflow-y: auto; }
.result dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0 .8rem; margin: .3rem 0; font-size: .85rem; color: var(--soft); }
.result dd { margin: 0; overflow-wrap: anywhere; font-family: var(--mono); }
.session { background: var(--panel); border: 1px solid var(--line); border-radius: 12px; padding: .9rem 1.6rem; margin: 0 0 1.5rem; font-size: .92rem; }
.session p { margin: 0 0 .6rem; }
.session .actions { margin: 0; }
.session .fields { margin: .8rem 0 0; max-width: 30rem; }

@media (max-width: 60rem) {
  .layout { display: block; }
  .side-head { border-right: 0; padding: 1rem 1rem .25rem; display: flex; align-items: baseline; }
  #menu { margin-left: auto; }
  nav { border-right: 0; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
  #filter-box, #navigation { padding-left: 1rem; padding-right: 1rem; }
  nav .tags ul a { padding: .35rem 0; }
  main { padding-top: 1.5rem; }
}
@media (max-width: 60rem) and (scripting: enabled) {
  nav:not(.open):not(.filtering) #navigation { display: none; }
}
@media (max-width: 40rem) {
  .operation { padding: 1.1rem 1rem; border-radius: 8px; }
  .session { padding: .9rem 1rem; }
  h1 { font-size: 1.7rem; }
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  table, tbody, tr, td { display: block; overflow-wrap: anywhere; }
  tr { border-top: 1px solid var(--line); padding: .5rem 0; }
  td { border: 0; padding: .1rem 0; }
  .result dl { grid-template-columns: minmax(0, 1fr); }
  .result dt { margin-top: .3rem; }
}
`;
