"""``newtongs reproduce``: every table and figure of the paper, ours beside the paper's."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..base.errors import InputError
from .apps import app
from .console import check_folder, print_table, progress_bar


@app.command(name="reproduce")
@dataclass(frozen=True)
class Reproduce:
    """Make the report: every table and figure of the paper, ours beside the paper's.

    Writes OUT/index.html (one page, no network needed; on top what became of the paper's claims),
    OUT/figures (png and svg) and OUT/json (every number). The command first estimates how long it
    will take. The same command resumes an interrupted run; a section is made again when its inputs
    have changed. A section that needs a file from elsewhere says which one and where to put it.

    newtongs reproduce --quick

    newtongs reproduce --only table1 response
    """

    resumes: ClassVar[bool] = True
    out: Path = Path("report")
    """Folder to write to."""
    only: tuple[str, ...] = ()
    """Sections to make, by name: table1, table2, response, ... Default: all. --list names them."""
    quick: bool = False
    """Use small data: minutes on two cores. Every caption says so."""
    data: Path | None = None
    """Folder of the State-32 splits val_id and val_ood; missing ones are made there (1.5 GB, 0.1 GB
    with --quick). Default: a folder in OUT."""
    results: Path | None = None
    """Folder of training records. Default: those that come with the package."""
    l4gm: Path | None = None
    """Folder of L4GM's dumps, for its row in Table 2."""
    videos: Path | None = None
    """Folder of public video clips, <Motion>/<Method>.mp4, for Table 3 and the strips; a copy of
    NewtonGen's repository will do."""
    first_frame: Path | None = None
    """Folder that `newtongs figure first-frame` wrote for your LGM file. Default: a built-in scene
    in its place."""
    device: str = "cpu"
    """Where to predict: cpu or cuda."""
    small: bool = False
    """Embed the pictures as lossless WebP: the same colours, a smaller page."""
    fresh: bool = False
    """Make all sections again, including finished ones."""
    show: bool = False
    """Also print the tables. `--only table1 --show` prints Table 1 with the mean and the standard
    deviation over the three runs."""
    list: bool = False
    """List the sections and stop."""

    @property
    def locks_out(self) -> bool:
        """Whether the command writes anything."""
        return not self.list

    def run(self) -> None:
        """Make the report and print its path."""
        from ..paper.report import reproduce, specs

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
        """Print the tables that the report holds."""
        from ..paper.report.registry import chosen
        from ..paper.report.run import kept_tables

        for spec in chosen(self.only):
            for table in kept_tables(self.out, spec.name):
                print_table(table)

    def check(self) -> None:
        """Check the arguments before the work starts."""
        from ..base.state import checked_device
        from ..paper.report.registry import chosen

        chosen(self.only)
        check_folder(self.out)
        checked_device(self.device)
        for name in ("results", "l4gm", "videos", "first_frame"):
            path = getattr(self, name)
            if path is not None and not path.is_dir():
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option}: no folder {path}; name one, or leave the option out")


def say(line: str) -> None:
    """Print at once, also to a log file."""
    print(line, flush=True)
