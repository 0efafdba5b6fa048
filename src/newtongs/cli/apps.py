"""The tree of subcommands; the files beside this one hang theirs into it."""

from typing import ClassVar, Protocol

from tyro.extras import SubcommandApp

app = SubcommandApp()
data = SubcommandApp()
figure = SubcommandApp()
app.command(data, name="data", help="Make a benchmark data set.")
app.command(figure, name="figure", help="Draw a picture.")


class Command(Protocol):
    """A parsed subcommand."""

    resumes: ClassVar[bool]
    """Whether the same command goes on where an interrupted one stopped."""

    def run(self) -> None:
        """Do it."""
