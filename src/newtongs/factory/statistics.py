"""A page that summarises a data set: counts, distributions, failures, a contact sheet."""

import base64
import html
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.files import write_atomically
from .sample import HARDLY_SEEN, IN_SOMETHING
from .shards import PARTS, Shard
from .spec import Spec

# Nothing is fetched and nothing runs: names of scenes and films are text, and stay it.
POLICY = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
)
PNG = b"\x89PNG\r\n\x1a\n"  # the first bytes of one
BINS = 24
STRIPS = 12  # shards whose films are shown
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2733; background: #f6f7f9; margin: 0; }
main { max-width: 1120px; margin: 0 auto; padding: 24px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 28px 0 8px; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 10px; }
.card, .plot { background: #fff; border: 1px solid #e1e5ea; border-radius: 8px; }
.card, .plot { padding: 10px 14px; } .card b { display: block; font-size: 21px; }
.card span, .plot .x { color: #5b6875; font-size: 13px; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(320px, 1fr)); gap: 12px; }
.plot h3 { font-size: 14px; margin: 0 0 6px; } svg { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; width: 100%; }
td { padding: 2px 6px 2px 0; vertical-align: middle; }
td.n { text-align: right; width: 5em; font-variant-numeric: tabular-nums; }
td.b { width: 45%; } td.b div { background: #3b7dd8; height: 11px; border-radius: 2px; }
.strips { background: #fff; border: 1px solid #e1e5ea; border-radius: 8px; padding: 10px; }
.strips img { width: 100%; display: block; image-rendering: auto; margin-bottom: 3px; }
"""


def write_statistics(
    out: Path,
    spec: Spec,
    rows: Sequence[dict[str, Any]],
    shards: Sequence[Shard],
    refused: dict[str, str],
) -> Path:
    """Write ``statistics.html``, a page that loads nothing from outside."""
    page = document(spec, rows, refused, strips(out, shards))
    path = out / "statistics.html"
    write_atomically(path, lambda f: f.write(page.encode()), what="page")
    return path


def document(
    spec: Spec, rows: Sequence[dict[str, Any]], refused: dict[str, str], pictures: Sequence[bytes]
) -> str:
    """The page as HTML."""
    made = [row for row in rows if row["made"]]
    parts = [
        f"<h1>{escaped(spec.name)}</h1><p>{escaped(sentence(spec))}</p>",
        f'<div class="cards">{"".join(cards(spec, rows, made))}</div>',
        f'<h2>Distributions</h2><div class="plots">{"".join(plots(made))}</div>',
        f'<h2>Kinds</h2><div class="plots">{"".join(tables(made))}</div>',
        f'<h2>Failures by reason</h2><div class="plots">{failures(rows, refused)}</div>',
        '<h2>Films, at half time</h2><div class="strips">',
        *strip_images(pictures),
        "</div>",
    ]
    head = (
        f'<meta charset="utf-8">{POLICY}<title>{escaped(spec.name)}</title><style>{STYLE}</style>'
    )
    body = f"<body><main>{''.join(parts)}</main></body>"
    return f'<!doctype html><html lang="en"><head>{head}</head>{body}</html>\n'


def strip_images(pictures: Sequence[bytes]) -> list[str]:
    """Strips of PNG at one scale: a shard with fewer films gives a shorter strip."""
    widths = [int.from_bytes(data[16:20], "big") for data in pictures]  # in the header, always
    return [
        f'<img alt="films of a shard" style="width:{100 * w / max(widths):.4g}%" src="{png(data)}">'
        for w, data in zip(widths, pictures, strict=True)
    ]


def escaped(x: object) -> str:
    """Text escaped for HTML."""
    return html.escape(str(x))


def sentence(spec: Spec) -> str:
    """The data set in one line."""
    width, height = spec.size
    return (
        f"{spec.frames} frames at {spec.fps:g} a second, {width} x {height} pixels, "
        f"{spec.cameras.count} views each; seed {spec.seed}, spec {spec.digest}."
    )


def cards(spec: Spec, rows: Sequence[dict[str, Any]], made: Sequence[dict[str, Any]]) -> list[str]:
    """The headline numbers."""
    attempts = sum(len(row["failures"]) for row in rows) + len(made)
    size = sum(row["bytes"] for row in made)
    shown = {
        "films": f"{len(made):,}", "given up": f"{len(rows) - len(made):,}",
        "attempts": f"{attempts:,}", "scenes": f"{len({row['scene'] for row in made})}",
        "hours of film": f"{len(made) * spec.cameras.count * spec.seconds / 3600:.2f}",
        "gigabytes": f"{size / 1e9:.2f}",
        "megabytes a film": f"{size / 1e6 / max(len(made), 1):.2f}",
        "contacts": f"{sum(row['contacts'] for row in made):,}",
    }  # fmt: skip
    return [f'<div class="card"><b>{v}</b><span>{k}</span></div>' for k, v in shown.items()]


PLOTS = {
    "top_speed": ("Fastest object", "metres a second"),
    "contacts": ("Contacts", "pairs and frames a film"),
    "contacts_among_objects": ("Contacts among objects", "pairs and frames a film"),
    "impulse": ("Impulse of all contacts", "newton seconds a film"),
    "least_seen": ("Seen in the worse view", "part of the frames"),
    "covered": ("Covered by objects", "part of the picture"),
    "bytes": ("Size", "bytes a film"),
    "attempt": ("Attempts before", "a film"),
}


def plots(made: Sequence[dict[str, Any]]) -> list[str]:
    """A histogram of each number."""
    return [
        f'<div class="plot"><h3>{title}</h3>{histogram([row[name] for row in made])}'
        f'<div class="x">{unit}; {spread([row[name] for row in made])}</div></div>'
        for name, (title, unit) in PLOTS.items()
    ]


def spread(values: Sequence[float]) -> str:
    """Median and percentiles as text."""
    if not values:
        return "no films"
    low, middle, high = np.percentile(values, [5, 50, 95])
    return f"5 % {low:.3g}, median {middle:.3g}, 95 % {high:.3g}"


def histogram(values: Sequence[float]) -> str:
    """A bar chart as SVG, with the ends of the axis and the highest count."""
    if not values:
        return "<svg viewBox='0 0 320 120'></svg>"
    x = np.asarray(values, float)
    whole = bool((x == x.round()).all()) and np.ptp(x) < BINS
    edges = np.arange(x.min() - 0.5, x.max() + 1) if whole else np.histogram_bin_edges(x, BINS)
    counts, edges = np.histogram(x, edges)
    step = 300 / len(counts)
    bars = "".join(
        f'<rect x="{10 + i * step:.1f}" y="{98 - 84 * n / counts.max():.1f}" '
        f'width="{max(step - 1.5, 1):.1f}" height="{84 * n / counts.max():.1f}" fill="#3b7dd8"/>'
        for i, n in enumerate(counts)
    )
    ends = (x.min(), x.max()) if whole else (edges[0], edges[-1])
    label = 'font-size="11" fill="#5b6875"'
    return (
        f'<svg viewBox="0 0 320 118"><line x1="10" x2="310" y1="98.5" y2="98.5" stroke="#b8c1cb"/>'
        f'{bars}<text x="10" y="112" {label}>{ends[0]:.3g}</text>'
        f'<text x="310" y="112" text-anchor="end" {label}>{ends[1]:.3g}</text>'
        f'<text x="310" y="10" text-anchor="end" {label}>highest {counts.max()}</text></svg>'
    )


def tables(made: Sequence[dict[str, Any]]) -> list[str]:
    """Tables of films by scene, split, dynamics, motion, cameras and objects."""
    named: dict[str, Callable[[dict[str, Any]], str]] = {
        "Scene": lambda r: f"{r['scene']} ({r['split']})",
        "Split": lambda r: r["split"],
        "Dynamics": lambda r: r["dynamics"],
        "Motion": lambda r: r["motion"],
        "Cameras": lambda r: r["views"],
        "Objects": lambda r: f"{r['pushed']} pushed of {r['objects']}",
    }
    counted = {title: Counter(map(of, made)) for title, of in named.items()}
    return [counts(title, found) for title, found in counted.items() if [*found] != [""]]


def counts(title: str, found: "Counter[str]") -> str:
    """A table with bars, most frequent first."""
    most = max(found.values(), default=1)
    lines = "".join(
        f'<tr><td>{escaped(name or "none")}</td><td class="b">'
        f'<div style="width:{100 * n / most:.1f}%"></div></td><td class="n">{n:,}</td></tr>'
        for name, n in sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    )
    return f'<div class="plot"><h3>{title}</h3><table>{lines}</table></div>'


def failures(rows: Sequence[dict[str, Any]], refused: dict[str, str]) -> str:
    """Tables of failed attempts by reason and scene, and scenes that were left out."""
    all_of = [failure for row in rows for failure in row["failures"]]
    if not all_of and not refused:
        return '<div class="plot">Every first attempt gave a film.</div>'
    out = counts("Reason", Counter(f["reason"] for f in all_of))
    for reason in sorted({f["reason"] for f in all_of}):
        its = Counter(f["scene"] for f in all_of if f["reason"] == reason)
        out += counts(escaped(reason.capitalize()), its)
    refusals = Counter(f["line"] for f in all_of if f["reason"] not in (HARDLY_SEEN, IN_SOMETHING))
    out += counts("Words", refusals) if refusals else ""
    lines = "".join(f"<li>{escaped(s)}: {escaped(line)}</li>" for s, line in refused.items())
    return out + (f'<div class="plot"><h3>Scenes left out</h3><ul>{lines}</ul></div>' * bool(lines))


def strips(out: Path, shards: Sequence[Shard]) -> list[bytes]:
    """Pictures of some shards, evenly spread over all."""
    at = np.linspace(0, len(shards) - 1, min(STRIPS, len(shards))).round().astype(int)
    paths = [out / PARTS / f"{shards[i].name}.png" for i in at]
    found = [path.read_bytes() for path in paths if path.is_file()]
    return [data for data in found if data[:8] == PNG and int.from_bytes(data[16:20], "big")]


def png(data: bytes) -> str:
    """A picture as a data URL."""
    return "data:image/png;base64," + base64.b64encode(data).decode()
