"""``newtongs mcp``: tools for an assistant."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import tyro

from ..base.errors import InputError
from ..base.process import leave
from .apps import app


@app.command(name="mcp")
@dataclass(frozen=True)
class ServeAssistant:
    """Let an assistant look, pick, push, play and export (a server of the protocol MCP).

    The assistant starts the command and talks to it over standard input and output; docs/mcp.md
    says how to register it. It can read scenes and write animations beneath the given folders only.

    newtongs mcp ~/captures

    newtongs mcp ~/captures --http 8765
    """

    resumes: ClassVar[bool] = False
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")] = ()
    """Folders that the assistant may read scenes from and write to. Default: the working folder."""
    http: int | None = None
    """Serve HTTP on this port of 127.0.0.1 instead of standard input and output; 0 is any free
    port. Only programs on this machine can connect."""
    namer: str | None = None
    """Your own model, by which the assistant can pick things in words: a program with its
    arguments, an address such as http://127.0.0.1:8000/, or an .onnx file (docs/words.md). An
    assistant that sees pictures needs none."""
    max_file: float = 2000.0
    """Largest scene that is opened, in megabytes."""

    def run(self) -> None:
        """Serve until the assistant or Ctrl-C ends it."""
        if self.http is not None and not 0 <= self.http <= 65535:
            raise InputError(f"--http: expected 0 to 65535, got {self.http}")
        from ..assistant.desk import Desk
        from ..assistant.folders import Folders
        from ..pipeline.namers import open_namer

        folders = Folders(self.folders, most=self.max_file)
        try:
            from ..assistant.server import serve_http, serve_stdio
        except ImportError as error:
            raise InputError(
                "the server needs the SDK of MCP; install it with: pip install 'newtongs[mcp]'"
            ) from error
        desk = Desk(folders, None if self.namer is None else open_namer(self.namer))
        if self.http is None:
            signal.signal(signal.SIGINT, leave)  # the protocol's reader waits and cannot be woken
            serve_stdio(desk)
        else:
            serve_http(desk, self.http, lambda url: print(f"newtongs mcp: {url}", flush=True))
