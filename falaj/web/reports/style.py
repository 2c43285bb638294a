"""How reports look: on a screen, in the dark, and on paper."""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ink: light-dark(#1b2321, #e6ecea); --soft: light-dark(#56635f, #a3b2ad);
  --ground: light-dark(#ffffff, #131b1c); --line: light-dark(#dce3e0, #2b3839); --good: light-dark(#1d7a4f, #63c795);
  --bad: light-dark(#b3341f, #f08a70); --warn: light-dark(#8a5a00, #e3b35a); --first: light-dark(#1f6f8b, #6fc3dd);
  --second: light-dark(#9aa5a1, #7f8d89); }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
.lead { font-size: 1.15rem; margin: .25rem 0 1rem; } .soft, figcaption, caption { color: var(--soft); }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); } .word { font-weight: 650; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } caption { text-align: start; padding-bottom: .25rem; }
th, td { text-align: start; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { color: var(--soft); font-weight: 550; } tbody th { font-weight: 550; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } figure { margin: 1rem 0 1.5rem; } details { margin-top: .3rem; }
svg { max-width: 100%; height: auto; }
ul { padding-inline-start: 1.2rem; }
.alert { border-inline-start: 3px solid var(--line); padding-inline-start: .8rem; margin: .8rem 0; }
.alert.critical { border-color: var(--bad); } .alert.warning { border-color: var(--warn); } .alert p { margin: .15rem 0; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
.heat-0 { fill: light-dark(#eef1ee, #1b2628); } .heat-1 { fill: light-dark(#dfe8e4, #22332f); }
.heat-2 { fill: light-dark(#cddcd3, #2d4439); } .heat-3 { fill: light-dark(#f3c98b, #7a5520); }
.heat-4 { fill: light-dark(#e59552, #b06a24); } .heat-5 { fill: light-dark(#c8502f, #e5744d); } .heat-dot { fill: var(--ink); }
.spread-grid, .bands-frame line { stroke: var(--line); } .spread-base { stroke: var(--second); }
.spread-before { fill: var(--second); fill-opacity: .5; } .spread-now { fill: var(--first); fill-opacity: .85; }
.series-0 { --first: light-dark(#0b6e75, #63cbc8); } .series-2 { --first: light-dark(#b9520b, #f2a35e); }
.series-3 { --first: light-dark(#4f46a8, #aaa5f2); } .series-4 { --first: light-dark(#ad2f78, #f08cc4); }
.series-5 { --first: light-dark(#3c771f, #9fd37f); } .series-6 { --first: light-dark(#7a5230, #d0a987); }
.series-7 { --first: light-dark(#a8241c, #ff9d92); } .series-8 { --first: light-dark(#6f680a, #d8cf6a); }
.series-9 { --first: light-dark(#55646a, #b4c2c4); } .legend { list-style: none; padding: 0; margin: .2rem 0; }
.legend li, .key { display: inline-block; margin-inline-end: 1.2rem; }
.key { width: .8em; height: .8em; border-radius: 50%; background: var(--first); margin-inline-end: .4em; }
.bands-line { fill: none; stroke: var(--first); stroke-width: 1.6; }
.bands-sure { stroke: var(--first); stroke-width: 5; stroke-opacity: .25; stroke-linecap: round; }
.bands-course circle { fill: var(--first); } .bands-course.faint .bands-line { stroke-dasharray: 4 3; }
@media print { body { max-width: none; padding: 0; } section { break-inside: avoid-page; } }
"""
