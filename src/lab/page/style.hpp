// SPDX-License-Identifier: Apache-2.0
// How the page looks (html.cpp).
#pragma once

namespace ramp {

inline constexpr const char* kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b1f24; --soft: #5a636e; --line: #dde1e6; --wash: #f5f7f9;
  --accent: #0b63a5; --good: #18794e; --bad: #b3261e; --note: #fff7e0; --note-line: #d9a300;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --ink: #e4e7eb; --soft: #9aa4af; --line: #2e343b; --wash: #1c2026;
    --accent: #6cb6f5; --good: #59c88b; --bad: #ff8a80; --note: #2b2616; --note-line: #b98f1f;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 74rem; background: var(--paper);
  color: var(--ink); font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.015em; }
h2 {
  margin: 3.2rem 0 .8rem; padding-top: .9rem; border-top: 1px solid var(--line);
  font-size: 1.28rem; letter-spacing: -.01em;
}
p { margin: .6rem 0; max-width: 46rem; }
a { color: var(--accent); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
.subtitle, .note, figcaption, footer { color: var(--soft); }
.subtitle { margin: .35rem 0 0; font-size: 1.02rem; }
.note { font-size: .87rem; }
code { font: .92em/1.4 ui-monospace, SFMono-Regular, Menlo, monospace; }
pre code { font-size: 1em; }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.3rem; margin: 1.4rem 0 0; padding: 0; list-style: none; }
nav { font-size: .92rem; }
.warnings {
  margin: 1.5rem 0 0; padding: .7rem 1.1rem; background: var(--note);
  border-left: 3px solid var(--note-line); border-radius: 0 4px 4px 0;
}
.warnings ul { margin: 0; padding-left: 1.1rem; }
.warnings li { margin: .15rem 0; }
.headlines {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(14.5rem, 1fr)); gap: .9rem;
  margin: 1.6rem 0 0;
}
.headlines div { padding: .85rem 1rem; background: var(--wash); border: 1px solid var(--line); border-radius: 6px; }
.headlines dt { color: var(--soft); font-size: .84rem; }
.headlines dd { margin: 0; }
.headlines .value { font-size: 1.5rem; font-weight: 600; line-height: 1.3; letter-spacing: -.015em; }
.headlines .more { color: var(--soft); font-size: .84rem; line-height: 1.4; }
.good .value { color: var(--good); }
.bad .value { color: var(--bad); }
.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .3rem 1.6rem; margin: 1rem 0; }
.facts dt { color: var(--soft); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 1.1rem 0 .4rem; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
caption { padding: 0 0 .45rem; text-align: left; font-weight: 600; font-size: .95rem; }
th, td { padding: .32rem .62rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; }
th { font-weight: 500; }
thead th { white-space: normal; line-height: 1.3; color: var(--soft); border-bottom-color: var(--soft); vertical-align: bottom; }
.left { text-align: left; }
.wrap { min-width: 16rem; white-space: normal; }
.range { color: var(--soft); font-size: .92em; }
tbody tr:hover > * { background: var(--wash); }
td.why { color: var(--soft); text-align: left; font-style: italic; white-space: normal; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1rem 1.6rem; margin: 1.2rem 0; }
figure { margin: 0; min-width: 0; }
figure.wide { grid-column: 1 / -1; }
figure.one { max-width: 36rem; }
svg { display: block; width: 100%; height: auto; }
pre {
  margin: .9rem 0; padding: .8rem 1rem; overflow-x: auto; background: var(--wash);
  border: 1px solid var(--line); border-radius: 6px; font: .84rem/1.6 ui-monospace, SFMono-Regular, Menlo, monospace;
}
footer { margin-top: 3rem; padding-top: .9rem; border-top: 1px solid var(--line); font-size: .87rem; }
@media (max-width: 40rem) {
  body { padding: 1.4rem 1rem 3rem; }
  .facts { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .facts dd { margin-bottom: .6rem; }
}
@media print {
  :root {
    color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --line: #ccc; --wash: #fff;
    --accent: #000; --good: #000; --bad: #000; --note: #fff; --note-line: #888;
  }
  @page { margin: 14mm; }
  body { max-width: none; padding: 0; font-size: 9.5pt; }
  nav { display: none; }
  h2 { break-after: avoid; margin-top: 1.6rem; }
  .scroll { overflow: visible; }
  table { font-size: 7.4pt; }
  th, td { padding: .2rem .4rem; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  figure, tr, .headlines div { break-inside: avoid; }
}
)css";

}  // namespace ramp
