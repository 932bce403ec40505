"""The style and the script of a simulation's page: constants, so that the page needs nothing from anywhere."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --bg: #fbfaf8; --panel: #fff; --ink: #1d2330; --soft: #667085; --line: #e4e2dd;
  --odd: #f4f2ee; --now: #d9480f; --past: rgba(217, 72, 15, .045); --chosen: #fff1c9; --accent: #2b59c3;
  --flag: #b7791f; --c0: #2b59c3; --c1: #0f8a5f; --c2: #b83280; --c3: #8a5a00; --c4: #6b46c1; --c5: #0b7285;
  --c6: #c92a2a; --c7: #5c940d; --c8: #364fc7; --c9: #862e9c; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171d; --panel: #1b1f27; --ink: #e7e9ee; --soft: #98a2b3;
  --line: #2c323d; --odd: #181c23; --now: #ff8f5a; --past: rgba(255, 143, 90, .06); --chosen: #3a3115;
  --accent: #8fb1ff; --flag: #f0c060; --c0: #8fb1ff; --c1: #5ed3a4; --c2: #f48fc4; --c3: #e0b050; --c4: #b79cf5;
  --c5: #66d0e0; --c6: #ff8787; --c7: #a9d65a; --c8: #91a7ff; --c9: #e599f7; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
header { padding: 18px 24px 10px; }
h1 { font-size: 20px; margin: 0 0 2px; }
h2 { font-size: 15px; margin: 0 0 8px; }
h3 { font-size: 12px; margin: 14px 0 4px; color: var(--soft); text-transform: uppercase; letter-spacing: .04em; }
p { margin: 0 0 6px; color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 4px 0 0; margin: 0; list-style: none; }
.legend svg { vertical-align: -4px; margin-right: 5px; }
.controls { display: none; gap: 8px; align-items: center; padding: 8px 24px; position: sticky; top: 0; z-index: 2;
  background: var(--bg); border-bottom: 1px solid var(--line); }
.js .controls { display: flex; }
.controls button { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; padding: 4px 12px; cursor: pointer; }
.controls button:hover { border-color: var(--accent); }
.controls input { flex: 1; accent-color: var(--accent); }
.controls output { min-width: 250px; font-variant-numeric: tabular-nums; }
main { display: grid; grid-template-columns: minmax(0, 1fr) 430px; gap: 18px; padding: 14px 24px; align-items: start; }
.drawing { overflow: auto; max-height: 78vh; background: var(--panel); border: 1px solid var(--line);
  border-radius: 10px; }
.details { background: var(--panel); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.js .details { position: sticky; top: 56px; max-height: 78vh; overflow: auto; }
.js .tick:not(.chosen) { display: none; }
.tick + .tick { margin-top: 20px; }
.tick ul { margin: 0; padding: 0; list-style: none; }
.tick li { padding: 3px 0; overflow-wrap: anywhere; }
.tick li li { padding: 0 0 0 16px; color: var(--soft); }
code { font: 12.5px/1.4 ui-monospace, monospace; }
.when { color: var(--soft); display: inline-block; }
.quiet { color: var(--soft); font-style: italic; }
@media (max-width: 1100px) { main { grid-template-columns: minmax(0, 1fr); } .js .details { position: static; } }
#time-line { width: 100%; min-width: 1000px; height: auto; display: block; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .time, svg .count { font-variant-numeric: tabular-nums; font-size: 12px; }
svg .count, svg .step, svg .axis { fill: var(--soft); font-size: 11px; }
svg .axis { font-style: italic; }
.row { cursor: pointer; }
.row rect { fill: transparent; }
.row.odd rect { fill: var(--odd); }
.row:hover rect { fill: var(--line); }
.row.chosen rect { fill: var(--chosen); }
.grid { stroke: var(--line); stroke-width: 1; pointer-events: none; }
.clock, .links, .axes { pointer-events: none; }
.happened { fill: var(--past); }
.now { fill: none; stroke: var(--now); stroke-width: 1.5; stroke-dasharray: 5 3; }
svg .now-name { fill: var(--now); font-weight: 600; font-size: 11px; }
.link, .revision { fill: none; stroke: var(--soft); stroke-width: 1.2; opacity: .4; }
.revision { stroke-dasharray: 2 3; opacity: .6; }
.link.lit, .revision.lit { opacity: 1; stroke-width: 2.2; stroke: var(--accent); }
.mark { cursor: pointer; outline: none; color: var(--c0); }
.mark > path { fill: currentColor; stroke: var(--panel); stroke-width: 1.5; }
.mark.change > path { fill: var(--panel); stroke: currentColor; stroke-width: 2.5; }
.mark.withdraw > path { fill: var(--panel); stroke: currentColor; stroke-width: 1.5; }
.mark.lit > path, .mark:focus-visible > path { stroke: var(--ink); stroke-width: 2.5; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); } .c7 { color: var(--c7); }
.c8 { color: var(--c8); } .c9 { color: var(--c9); }
.flag { fill: var(--flag); stroke: var(--flag); stroke-width: 1.4; stroke-linejoin: round; }
.later { opacity: .13; }
.events { padding: 4px 24px 40px; }
.scroll { overflow: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
"""

SCRIPT: Final = """
(() => {
  const root = document.documentElement;
  root.classList.add('js');
  const all = (what) => Array.from(document.querySelectorAll(what));
  const slider = document.getElementById('slider');
  const told = document.getElementById('chosen');
  const play = document.getElementById('play');
  const sections = all('.tick');
  const timed = all('svg [data-tick]');
  const links = all('.links path');
  let timer = null;
  const choose = (number, scroll) => {
    const last = sections.length - 1;
    const chosen = Math.max(0, Math.min(last, number));
    slider.value = String(chosen);
    sections.forEach((one, at) => one.classList.toggle('chosen', at === chosen));
    for (const one of timed) {
      const at = Number(one.dataset.tick);
      if (one.classList.contains('row')) one.classList.toggle('chosen', at === chosen);
      else one.classList.toggle('later', at > chosen);
    }
    if (sections[chosen]) told.textContent = sections[chosen].dataset.title;
    const row = document.querySelector('.row[data-tick="' + chosen + '"]');
    if (row && scroll) row.scrollIntoView({ block: 'nearest' });
  };
  const now = () => Number(slider.value);
  const stop = () => { clearInterval(timer); timer = null; play.textContent = 'Play'; };
  const light = (name) => {
    const lit = new Set(name ? [name] : []);
    for (const one of links) {
      const on = Boolean(name) && (one.dataset.from === name || one.dataset.to === name);
      one.classList.toggle('lit', on);
      if (on) { lit.add(one.dataset.from); lit.add(one.dataset.to); }
    }
    for (const one of all('.mark')) one.classList.toggle('lit', lit.has(one.id));
  };
  slider.addEventListener('input', () => choose(now(), true));
  document.getElementById('first').addEventListener('click', () => { stop(); choose(0, true); });
  document.getElementById('back').addEventListener('click', () => { stop(); choose(now() - 1, true); });
  document.getElementById('next').addEventListener('click', () => { stop(); choose(now() + 1, true); });
  document.getElementById('last').addEventListener('click', () => { stop(); choose(sections.length, true); });
  play.addEventListener('click', () => {
    if (timer) { stop(); return; }
    if (now() >= sections.length - 1) choose(0, true);
    play.textContent = 'Stop';
    timer = setInterval(() => {
      if (now() >= sections.length - 1) stop(); else choose(now() + 1, true);
    }, 700);
  });
  for (const row of all('.row')) row.addEventListener('click', () => { stop(); choose(Number(row.dataset.tick)); });
  for (const mark of all('.mark')) {
    mark.addEventListener('mouseenter', () => light(mark.id));
    mark.addEventListener('mouseleave', () => light(null));
    mark.addEventListener('focus', () => light(mark.id));
    mark.addEventListener('blur', () => light(null));
    mark.addEventListener('click', () => { stop(); choose(Number(mark.dataset.tick)); });
  }
  choose(sections.length - 1, false);
})();
"""
