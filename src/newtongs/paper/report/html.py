"""The report as one page with embedded pictures; it loads nothing from elsewhere."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from ... import __version__
from ...base.errors import argument
from ...base.extras import optional
from .content import Figure, Section
from .registry import SectionSpec
from .report_run import ReportRun

TITLE = "NewtonGS: every table and figure, ours beside the paper's"
LEAD = (
    "Each figure of ours stands above the paper's, which is small and grey and followed by our "
    "deviation from it; coloured where two random draws would not explain it. The sections follow "
    "the paper's order; every number is in the folder json, every picture in the folder figures."
)
TYPES = {"png": "image/png", "svg": "image/svg+xml"}


@dataclass(frozen=True)
class Entry:
    """A section of the page: finished, failed, or not made yet."""

    spec: SectionSpec
    content: Section | None
    error: str = ""
    note: str = ""


def page(entries: Sequence[Entry], report: ReportRun) -> str:
    """The whole page as text."""
    template = Template(files(__package__).joinpath("page.html").read_text())
    return template.substitute(
        title=escape(TITLE),
        lead=escape(LEAD),
        quick=f'<p class="quick">{escape(report.note)}</p>' if report.note else "",
        contents=_contents(entries),
        sections="\n".join(_section(entry, report) for entry in entries),
        footer=f"newtongs {escape(__version__)}, newtongs reproduce",
    )


def _contents(entries: Sequence[Entry]) -> str:
    rows = "".join(
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
    embedded = _few_colors(path) if report.small and path.suffix == ".png" else path.read_bytes()
    data = base64.b64encode(embedded).decode()
    caption = escape(" ".join(filter(None, [figure.caption, note])))
    return (
        f'<figure><img alt="{caption}" src="data:{TYPES[figure.endings[-1]]};base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _few_colors(path: Path) -> bytes:
    """The picture as a .png with a palette of 256 colours, about a third of its size."""
    Image = optional("PIL.Image", f"{argument('small')} needs Pillow", "formats")
    out = io.BytesIO()
    Image.open(path).convert("RGB").quantize(256).save(out, "PNG", optimize=True)
    return out.getvalue()
