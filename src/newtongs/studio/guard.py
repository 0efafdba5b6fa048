"""Who may speak to the studio: pages of its own address, and with a token where it is not local.

viser has no door of its own: every page that a browser shows may open a socket to a local port.
The guard stands before viser's web server and its socket alike. It is put there while viser starts;
if that fails, the studio does not start.
"""

import hmac
import http
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..errors import InputError

VISER = (1, 1)  # the guard and the uploads stand on its inner parts, which other versions change
LOCAL = ("127.0.0.1", "localhost", "::1")
COOKIE = "newtongs_studio"
MEGABYTE = 10**6
# Of one file each; formats that hold arrays of Python are left to files from the own disk.
ENDINGS = (".compressed.ply", ".ply", ".spz", ".sog", ".splat", ".ksplat", ".glb", ".json")


def known_viser() -> Any:
    """The module viser, in a version that can be guarded."""
    try:
        import viser
    except ImportError as error:
        raise InputError(
            "the studio needs viser; install it with: pip install 'newtongs[studio]'"
        ) from error
    found = tuple(int(n) for n in re.findall(r"\d+", viser.__version__)[:2])
    if found != VISER:
        raise InputError(
            f"the studio needs viser 1.1.x, found {viser.__version__}: its guard stands on inner "
            "parts of viser; install it with: pip install 'newtongs[studio]'"
        )
    return viser


@dataclass
class Guard:
    """Decides on requests."""

    host: str
    """The address that is listened on."""
    token: str | None = None
    """What a page must bring; None where only this machine can come."""
    installed: bool = field(default=False)

    @classmethod
    def of(cls, host: str) -> "Guard":
        """A fresh token where others can reach the port."""
        return cls(host, None if host in LOCAL else secrets.token_urlsafe(24))

    def refusal(self, path: str, headers: Any) -> str | None:
        """Why a request is not answered; None if it may pass.

        A local studio answers only to local names: a foreign name that leads here is an attack by
        its name server. A socket must come from a page that came from here.
        """
        host = headers.get("Host", "")
        if self.token is None and _name(host) not in LOCAL:
            return "unknown host"
        origin = headers.get("Origin")
        socket = headers.get("Upgrade", "").lower() == "websocket"
        if origin is not None and urlsplit(origin).netloc != host:
            return "foreign origin"
        if socket and origin is None:
            return "a socket needs an origin"
        if self.token is not None and not self._knows(path, headers):
            return "wrong or missing token; open the address that the studio printed"
        return None

    def _knows(self, path: str, headers: Any) -> bool:
        """Whether the request brings the token, in its address or as a cookie."""
        given = parse_qs(urlsplit(path).query).get("token", [""])[0]
        return self._is_token(given) or any(
            self._is_token(value.strip())
            for pair in headers.get("Cookie", "").split(";")
            for name, _, value in [pair.partition("=")]
            if name.strip() == COOKIE
        )

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    @contextmanager
    def before_viser(self) -> Iterator[None]:
        """While a viser server is made: its requests pass here first."""
        from websockets.asyncio import server

        plain = server.serve

        def serve(*args: Any, process_request: Any, **options: Any) -> Any:
            self.installed = True
            return plain(*args, process_request=self._wrapped(process_request), **options)

        server.serve = serve  # type: ignore[misc,assignment]
        try:
            yield
        finally:
            server.serve = plain  # type: ignore[misc]

    def _wrapped(self, answer: Any) -> Any:
        def process(connection: Any, request: Any) -> Any:
            why = self.refusal(request.path, request.headers)
            if why is not None:
                return connection.respond(http.HTTPStatus.FORBIDDEN, f"newtongs studio: {why}\n")
            response = answer(connection, request)
            if response is not None and self.token is not None:
                cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                response.headers["Set-Cookie"] = cookie
            return response

        return process


def _name(host: str) -> str:
    """A Host header without its port."""
    return (urlsplit(f"//{host}").hostname or "").lower()


class Uploads:
    """Files from the browser: in a private folder that goes with the studio, none too large."""

    def __init__(self, most: float) -> None:
        """``most`` is the size of the largest file, in megabytes."""
        if not most > 0:
            raise InputError(f"--max-upload: expected megabytes above 0, got {most:g}")
        self.most = int(most * MEGABYTE)
        self._folder = tempfile.TemporaryDirectory(prefix="newtongs-studio-")
        self._count = 0

    @property
    def folder(self) -> Path:
        """Where they are; nobody else can read it."""
        return Path(self._folder.name)

    def store(self, name: str, content: bytes) -> Path:
        """Write a file under a number; of the name it had only the ending is kept."""
        if len(content) > self.most:
            raise InputError(self.too_large(len(content)))
        bare = name.replace("\\", "/").rsplit("/", 1)[-1].lower()
        ending = next((e for e in ENDINGS if bare.endswith(e)), None)
        if ending is None:
            raise InputError(
                f"no splat file by its name: {bare[:60]!r}; expected {', '.join(ENDINGS)}"
            )
        self._count += 1
        path = self.folder / f"upload_{self._count}{ending}"
        path.write_bytes(content)
        return path

    def too_large(self, size: int) -> str:
        """One line."""
        most = self.most / MEGABYTE
        return (
            f"the file has {size / MEGABYTE:,.0f} MB, up to {most:,.0f} MB are taken; "
            "open it from the disk: newtongs studio FILE, or raise --max-upload"
        )

    def watch(self, gui: Any, refuse: Any) -> None:
        """Drop transfers that announce too much, or bring more than they announced.

        viser itself would hold any number of bytes; ``refuse`` is called with the line to show.
        """
        from viser import _messages

        held = gui._current_file_upload_states

        def at_start(client: int, message: Any) -> None:
            if sum(state["total_bytes"] for state in held.values()) > self.most:
                held.pop(message.transfer_uuid, None)
                refuse(self.too_large(message.size_bytes))

        def at_part(client: int, message: Any) -> None:
            state = held.get(message.transfer_uuid)
            if state is not None and state["transferred_bytes"] > state["total_bytes"]:
                held.pop(message.transfer_uuid, None)
                refuse("an upload was longer than it said; it was dropped")

        gui._websock_interface.register_handler(_messages.FileTransferStartUpload, at_start)
        gui._websock_interface.register_handler(_messages.FileTransferPart, at_part)

    def close(self) -> None:
        """Remove the folder and all in it."""
        self._folder.cleanup()
