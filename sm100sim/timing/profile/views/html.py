"""A profile as one page for any browser: a timeline to zoom into, and the tables of the text."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..kernel_profile import KernelProfile
from ..text import profile_text
from .picture import colours_of, name_of
from .tracks import Track

SCRIPT: Final = """
const rows = DATA.tracks, canvas = document.getElementById("timeline"), H = 20, LEFT = 190;
const tip = document.getElementById("tip"), draw = canvas.getContext("2d");
let from = 0, to = DATA.cycles;
for (const row of rows) {
  let at = 0;
  row.start = row.start.map(d => at += d);
}
function first(row, t) {
  let lo = 0, hi = row.start.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (row.start[mid] + row.length[mid] <= t) lo = mid + 1; else hi = mid;
  }
  return lo;
}
function paint() {
  const width = canvas.width = canvas.clientWidth, scale = (width - LEFT) / (to - from);
  canvas.height = rows.length * H + 24;
  draw.font = "11px sans-serif";
  rows.forEach((row, y) => {
    draw.fillStyle = "#444";
    draw.fillText(row.name, 4, y * H + 14, LEFT - 8);
    for (let k = first(row, from); k < row.start.length && row.start[k] < to; k++) {
      const a = Math.max(row.start[k], from), b = Math.min(row.start[k] + row.length[k], to);
      draw.fillStyle = DATA.colours[row.labels[row.label[k]]];
      draw.fillRect(LEFT + (a - from) * scale, y * H + 2, Math.max((b - a) * scale, 0.3), H - 4);
    }
  });
  draw.fillStyle = "#444";
  for (let k = 0; k <= 8; k++) {
    const t = from + (to - from) * k / 8;
    draw.fillText(Math.round(t).toLocaleString(), LEFT + (t - from) * scale - (k ? 30 : 0),
                  rows.length * H + 16);
  }
}
const time = e => from + (e.offsetX - LEFT) / (canvas.width - LEFT) * (to - from);
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const t = time(e), by = Math.exp(e.deltaY / 400);
  from = Math.max(0, t - (t - from) * by);
  to = Math.min(DATA.cycles, t + (to - t) * by);
  paint();
}, {passive: false});
let held = null;
canvas.addEventListener("mousedown", e => { held = e.offsetX; });
window.addEventListener("mouseup", () => { held = null; });
canvas.addEventListener("mousemove", e => {
  if (held !== null) {
    const span = to - from;
    from -= (e.offsetX - held) / (canvas.width - LEFT) * span;
    from = Math.max(0, Math.min(from, DATA.cycles - span));
    to = from + span;
    held = e.offsetX;
    paint();
  }
  const row = rows[Math.floor(e.offsetY / H)], t = time(e);
  const k = row ? first(row, t) : 0;
  const hit = row && t >= from && k < row.start.length && row.start[k] <= t;
  tip.textContent = hit ? row.name + ": " + row.labels[row.label[k]] + ", cycles " +
    row.start[k].toLocaleString() + " to " + (row.start[k] + row.length[k]).toLocaleString() : " ";
});
window.addEventListener("resize", paint);
paint();
"""

STYLE: Final = """
body { font: 14px sans-serif; margin: 1.5em; color: #222; background: #fff }
canvas { width: 100%; cursor: grab } pre { font-size: 12px; overflow-x: auto }
.key { display: inline-block; margin-right: 1em } .key i { display: inline-block; width: 1em;
height: 1em; margin-right: .3em; vertical-align: -.15em }
"""


def page(found: KernelProfile, tracks: Sequence[Track]) -> str:
    """Return the page; it needs nothing from elsewhere."""
    colours = colours_of(tracks)
    data = {
        "cycles": found.cycles,
        "colours": colours,
        "tracks": [_track(track) for track in tracks],
    }
    met = {label for track in tracks for label in track.labels if track.cycles(label)}
    keys = "".join(
        f'<span class="key"><i style="background: {colour}"></i>{html.escape(label)}</span>'
        for label, colour in colours.items()
        if label in met
    )
    title = html.escape(f"{found.kernel} on {found.chip}")
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style><h1>{title}</h1><p>{html.escape(name_of(found))}. The wheel zooms, "
        f'dragging moves.</p><p>{keys}</p><canvas id="timeline"></canvas><p id="tip">&nbsp;</p>'
        f"<pre>{html.escape(profile_text(found))}</pre>"
        f"<script>const DATA = {text};{SCRIPT}</script></html>\n"
    )


def _track(track: Track) -> dict[str, Any]:
    """A track with the starts as differences, which are short."""
    length = track.shown_end - track.start
    return {
        "name": track.name,
        "labels": track.labels,
        "start": _short(np.diff(track.start, prepend=0)),
        "length": _short(length),
        "label": track.label.tolist(),
    }


def _short(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    """Numbers to a tenth, whole ones without a fraction."""
    return [int(v) if v == int(v) else v for v in np.round(values, 1).tolist()]
