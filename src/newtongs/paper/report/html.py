"""The report as one page with embedded pictures; it loads nothing from elsewhere."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from ...base.errors import argument
from ...base.extras import optional
from ...base.provenance import in_words
from . import claims
from .content import Figure, Section
from .registry import SectionSpec
from .report_run import ReportRun

TITLE = "NewtonGS: every table and figure, ours beside the paper's"
LEAD = (
    "Each figure of ours stands above the paper's, which is small and grey and followed by our "
    "deviation from it; coloured where two random draws would not explain it. The sections follow "
    "the paper's order; every number is in the folder json, every picture in the folder figures. A "
    "click shows a picture at full size."
)
TYPES = {"png": "image/png", "svg": "image/svg+xml", "webp": "image/webp"}
EXACT = "Pictures are embedded as lossless WebP: every pixel has its colour."


@dataclass(frozen=True)
class Entry:
    """A section of the page: finished, failed, or not made yet."""

    spec: SectionSpec
    content: Section | None
    error: str = ""
    note: str = ""


def page(
    entries: Sequence[Entry],
    report: ReportRun,
    ledger: Sequence[claims.Judged],
    evidence: claims.Evidence,
    made: Mapping[str, Any],
) -> str:
    """The whole page as text; ``made`` is its origin, see :mod:`newtongs.base.provenance`."""
    before = claims.parts(ledger, evidence)
    template = Template(files(__package__).joinpath("page.html").read_text())
    return template.substitute(
        title=escape(TITLE),
        lead=escape(LEAD),
        quick=f'<p class="quick">{escape(report.note)}</p>' if report.note else "",
        verdict=claims.verdict(ledger, evidence),
        contents=_contents(entries, before),
        before="\n".join(_part(*part) for part in before),
        sections="\n".join(_section(entry, report) for entry in entries),
        footer=escape(_footer(report, made)),
    )


def _footer(report: ReportRun, made: Mapping[str, Any]) -> str:
    """Where the page comes from, and how exact its pictures are."""
    took = f"; measuring and drawing took {duration(made['seconds'])}" if "seconds" in made else ""
    return f"{in_words(made)}{took}. Made by newtongs reproduce. {EXACT if report.small else ''}"


def duration(seconds: float) -> str:
    """A duration in words."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _part(anchor: str, title: str, where: str, html: str) -> str:
    head = f'<h2>{escape(title)}</h2><p class="where">{escape(where)}</p>'
    return f'<section id="{anchor}">{head}{html}</section>'


def _contents(entries: Sequence[Entry], before: Sequence[claims.Part]) -> str:
    rows = "".join(
        f'<tr><td class="text"><a href="#{anchor}">{escape(title)}</a></td>'
        f'<td class="text">{escape(where)}</td><td class="text">computed with the page</td></tr>'
        for anchor, title, where, _ in before
    ) + "".join(
        f'<tr><td class="text"><a href="#{e.spec.name}">{escape(e.spec.title)}</a></td>'
        f'<td class="text">{escape(e.spec.paper)}</td><td class="text">{_status(e)}</td></tr>'
        for e in entries
    )
    heads = "".join(f'<th class="text">{x}</th>' for x in ("Section", "In the paper", "State"))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _status(entry: Entry) -> str:
    if entry.content is None:
        return "could not be made" if entry.error else "not made yet"
    if not entry.content.tables and not entry.content.figures:
        return "input missing"
    partly = ", an input from outside is missing" if entry.content.missing else ""
    values = [x for table in entry.content.tables for _, x in table.values()]
    compared = sum(x.paper is not None for x in values)
    beside = f"{compared} figures beside the paper's" if compared else "complete"
    return beside + partly


def _section(entry: Entry, report: ReportRun) -> str:
    spec, content = entry.spec, entry.content
    parts = [f"<h2>{escape(spec.title)}</h2>", f'<p class="where">{escape(spec.paper)}</p>']
    if content is None:
        said = entry.error or f"Not made yet: newtongs reproduce --only {spec.name}"
        parts.append(f'<p class="failed">{escape(said)}</p>')
    else:
        parts += [_sentences(content)]
        parts += [f'<p class="missing">{escape(line)}</p>' for line in content.missing]
        parts += [table.html(entry.note) for table in content.tables]
        parts += [_figure(figure, report, entry.note) for figure in content.figures]
    return f'<section id="{spec.name}">' + "\n".join(parts) + "</section>"


def _sentences(content: Section) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in content.sentences)
    return f'<ul class="said">{lines}</ul>' if lines else ""


def _figure(figure: Figure, report: ReportRun, note: str) -> str:
    path = report.figures / f"{figure.name}.{figure.endings[-1]}"
    kind, embedded = path.suffix[1:], path.read_bytes()
    if report.small and kind == "png":
        kind, embedded = "webp", smaller(path, path.stat().st_mtime_ns)
    data = f"data:{TYPES[kind]};base64,{base64.b64encode(embedded).decode()}"
    caption = escape(" ".join(filter(None, [figure.caption, note])))
    picture = f'<img alt="{caption}" src="{data}">'
    switch = '<input type="checkbox" aria-label="full size">'  # a page without scripts
    label = f'<label class="zoom">{switch}{picture}</label>'
    return f"<figure>{label}<figcaption>{caption}</figcaption></figure>"


@cache
def smaller(path: Path, _modified: int) -> bytes:
    """The picture as a lossless WebP, smaller than a .png and exact to the last bit of a colour.

    Kept, since a run writes the page after every section and encoding takes seconds.

    A palette would turn the colours of small objects into those of large ones.
    """
    Image = optional("PIL.Image", f"{argument('small')} needs Pillow", "formats")
    out = io.BytesIO()
    Image.open(path).convert("RGB").save(out, "WEBP", lossless=True, quality=100, method=6)
    return out.getvalue()
