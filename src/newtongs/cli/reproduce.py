"""``newtongs reproduce``: every table and figure of the paper, ours beside its."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..errors import InputError
from .apps import app
from .console import check_folder, progress_bar

WIDTH = 160  # of Table 1 with its spreads; a narrower terminal wraps lines


@app.command(name="reproduce")
@dataclass(frozen=True)
class Reproduce:
    """Make the report: every table and figure of the paper, ours beside the paper's.

    Writes OUT/index.html, one page that needs no network, beside it OUT/figures (png and svg) and
    OUT/json (every number). It begins with saying how long it will take. An interrupted run goes on
    where it stopped; a section is made anew when what it reads has changed. A section that lacks an
    input from outside says what to put where.

    newtongs reproduce --quick

    newtongs reproduce --only table1 response
    """

    resumes: ClassVar[bool] = True
    out: Path = Path("report")
    """Folder to write to."""
    only: tuple[str, ...] = ()
    """Sections to make, by name: table1, table2, response, ... Default: all. --list names them."""
    quick: bool = False
    """Small data: minutes on two cores. Every caption says so."""
    data: Path | None = None
    """Folder of the State-32 splits val_id and val_ood; made there if they are not (1.5 GB, 0.1 GB
    with --quick). Default: a folder in OUT."""
    results: Path | None = None
    """Folder of training records. Default: results, here or in the checkout."""
    l4gm: Path | None = None
    """Folder of L4GM's dumps, for its row in Table 2."""
    videos: Path | None = None
    """Folder of public video clips, <Motion>/<Method>.mp4, for Table 3 and the strips."""
    first_frame: Path | None = None
    """Folder that `newtongs figure first-frame` wrote for an LGM file of yours. Default: a scene
    made by code in its place."""
    device: str = "cpu"
    """Where to predict: cpu or cuda."""
    small: bool = False
    """Embed the pictures with 256 colours: the page is less than half as large."""
    fresh: bool = False
    """Make the sections anew, also those that are there."""
    show: bool = False
    """Also print the tables. `--only table1 --show` prints Table 1 with the mean and the standard
    deviation over the three runs."""
    list: bool = False
    """Only name the sections."""

    def run(self) -> None:
        """Make the report, and say where it is."""
        from ..report import reproduce, specs

        if self.list:
            for spec in specs().values():
                print(f"{spec.name:16} {spec.paper}: {spec.title}")
            return
        self.check()
        with progress_bar("steps") as advance:
            page = reproduce(
                self.out, only=self.only, fresh=self.fresh, say=say, quick=self.quick,
                data=self.data, results=self.results, l4gm=self.l4gm, videos=self.videos,
                first_frame=self.first_frame, device=self.device, small=self.small,
                progress=advance,
            )  # fmt: skip
        if self.show:
            self.print_tables()
        print(f"report: {page}")

    def print_tables(self) -> None:
        """What the report keeps, on the terminal."""
        from rich.console import Console

        from ..report.registry import chosen
        from ..report.terminal import kept_tables

        console = Console(width=max(WIDTH, Console().width))
        for spec in chosen(self.only):
            for table in kept_tables(self.out, spec.name):
                console.print(table)

    def check(self) -> None:
        """Refuse what cannot work before any work."""
        from ..report.registry import chosen
        from ..state import checked_device

        chosen(self.only)
        check_folder(self.out)
        checked_device(self.device)
        for name in ("results", "l4gm", "videos", "first_frame"):
            path = getattr(self, name)
            if path is not None and not path.is_dir():
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option}: no folder {path}; name one, or leave the option out")


def say(line: str) -> None:
    """Tell now, also into a log."""
    print(line, flush=True)
