"""The tree of subcommands, to which the files beside this one add theirs."""

import inspect
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import tyro

from ..base.errors import InputError

if TYPE_CHECKING:
    from tyro.extras import SubcommandApp

ORDER = (
    "animate", "studio", "mcp", "inspect", "convert", "collider", "replay", "continue", "gallery",
    "factory", "data", "evaluate", "train", "train-context", "reproduce", "figure", "ablations",
    "generate", "l4gm",
)  # fmt: skip
FIRST_STEPS = """
First steps:
  newtongs animate bowling --out demo --loose --velocity 6 0 0.15
  newtongs inspect scene.ply
  newtongs animate scene.ply --out moving --velocity 1.5 3 0 --spin 0 0 -4
"""
WIDEST = 100  # characters per line of help


class Command(Protocol):
    """A parsed subcommand."""

    resumes: ClassVar[bool]
    """Whether the same command resumes where an interrupted one stopped."""

    def run(self) -> None:
        """Run the command."""


Kind = TypeVar("Kind", bound=type)


class App:
    """Commands by name, or groups of them.

    tyro builds a parser only for the command that is named: each takes some time, and help and
    misspelt words should be answered at once.
    """

    def __init__(self, name: str, summary: str, epilogue: str = "") -> None:
        self.name, self.summary, self.epilogue = name, summary, epilogue
        self.members: dict[str, type[Command] | App] = {}

    def command(self, *, name: str) -> Callable[[Kind], Kind]:
        """Decorator for a dataclass whose fields are the flags."""

        def add(kind: Kind) -> Kind:
            self.members[name] = kind
            return kind

        return add

    def group(self, name: str, summary: str) -> "App":
        """A group of commands of two words, of which ``name`` is the first."""
        inner = App(f"{self.name} {name}", summary)
        self.members[name] = inner
        return inner

    def parse(self, words: Sequence[str]) -> Command:
        """The command that the words name; raises SystemExit after help."""
        if not words:
            raise InputError(f"expected one of {{{', '.join(self.names)}}}; {self.see}")
        first, *rest = words
        if first in ("-h", "--help"):
            print(self.page())
            raise SystemExit(0)
        if first.startswith("--tyro-"):  # shell completion needs the flags of all commands
            return self.whole().cli(prog=self.name, args=words, description=self.summary)
        if first not in self.members:
            raise InputError(self.unknown(first))
        found = self.members[first]
        if isinstance(found, App):
            return found.parse(rest)
        given = {"default": preset_defaults(found, rest)} if hasattr(found, "presets") else {}
        return tyro.cli(found, prog=f"{self.name} {first}", args=rest, **given)

    @property
    def names(self) -> list[str]:
        """Names of the members, most used first."""
        return sorted(self.members, key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER))

    @property
    def see(self) -> str:
        """Where to read more."""
        return f"see {self.name} --help"

    def unknown(self, word: str) -> str:
        """An error for a word that names no member."""
        near = get_close_matches(word, self.names, n=1)
        known = f"available subcommands: {', '.join(self.names)}"
        hint = f"did you mean {near[0]}?" if near else known
        return f"unknown command {word}; {hint}; {self.see}"

    def page(self) -> str:
        """The help page: each member in one sentence."""
        width = min(WIDEST, shutil.get_terminal_size().columns)
        lines = [line for name in self.names for line in self.entry(name, width)]
        more = f"{self.name} COMMAND --help shows the flags of a command, with examples."
        head = f"usage: {self.name} COMMAND ...\n\n{self.summary}\n\nCommands:"
        return "\n".join([head, *lines, self.epilogue, *textwrap.wrap(more, width)])

    def entry(self, name: str, width: int) -> Iterable[str]:
        """A member's name with its summary beside it."""
        column = max(map(len, self.names)) + 4
        hanging = " " * column
        return textwrap.wrap(
            f"  {name:{column - 2}}{summary(self.members[name])}",
            max(width, column + 20), subsequent_indent=hanging, break_long_words=False,
        )  # fmt: skip

    def whole(self) -> "SubcommandApp":
        """The whole tree as tyro represents it."""
        from tyro.extras import SubcommandApp

        made = SubcommandApp()
        for name, member in self.members.items():
            if isinstance(member, App):
                made.command(member.whole(), name=name, help=member.summary)
            else:
                made.command(name=name)(member)
        return made


def preset_defaults(kind: Any, words: Sequence[str]) -> Any:
    """The command with the defaults of the preset that the words name.

    Only the defaults change, so a flag that is given wins over the preset, whatever its value.
    """
    name = kind.preset
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--preset":
            name = following
        elif word.startswith("--preset="):
            name = word.removeprefix("--preset=")
    required = {
        f.name: tyro.MISSING
        for f in fields(kind)
        if f.default is MISSING and f.default_factory is MISSING
    }
    if name not in kind.presets:  # the plain defaults, or a name that tyro will refuse
        return kind(**required)
    return kind(**required, preset=name, **kind.presets[name])


def summary(member: "type[Command] | App") -> str:
    """What a command does, in one sentence."""
    if isinstance(member, App):
        return member.summary
    return " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())


app = App("newtongs", "Make Gaussian-splatting objects move.", FIRST_STEPS)
data = app.group("data", "Make a benchmark data set, or write a built-in scene to a file.")
figure = app.group("figure", "Draw a figure of the data sets or the paper.")
