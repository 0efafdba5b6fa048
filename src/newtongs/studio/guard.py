"""Access control of the studio: only its own pages may connect, with a token if it is not local.

Viser has no access control, and any page in a browser may open a socket to a local port. The guard
stands in front of viser's web server and its socket. It is installed while viser starts; if that
fails, the studio does not start.
"""

import hmac
import http
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..base.errors import InputError, argument
from ..base.extras import optional
from ..base.locks import scratch

VISER = (1, 1)  # guard and uploads depend on internals of this version
LOCAL = ("127.0.0.1", "localhost", "::1")
COOKIE = "newtongs_studio"
# The page may run what it was served with (viser compiles its own code), and load nothing else.
POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; connect-src 'self' data: blob: {sockets}"
)
HOST = re.compile(r"[\w.-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?")
MEGABYTE = 10**6
TOGETHER = 4  # times the limit of one file: what all uploads of a studio may take
MOST_TRANSFERS = 8  # at a time
LEAST_PART = 1 << 16  # bytes; viser's pages send half a megabyte at a time
# Formats of a single file; LGM tensors (.npy, .pt) are accepted only from the command line.
ENDINGS = (".compressed.ply", ".ply", ".spz", ".sog", ".splat", ".ksplat", ".glb", ".json")


def known_viser() -> Any:
    """Import viser, in a version that the guard supports."""
    viser = optional("viser", "the studio needs viser", "studio")
    found = tuple(int(n) for n in re.findall(r"\d+", viser.__version__)[:2])
    if found != VISER:
        raise InputError(
            f"the studio needs viser 1.1.x, found {viser.__version__}: its guard depends on "
            "internals of viser; install it with: pip install 'newtongs[studio]'"
        )
    return viser


@dataclass
class Guard:
    """Decides which requests are answered."""

    host: str
    """The address that the studio listens on."""
    token: str | None = None
    """The token that a page must present; None if only this machine can connect."""
    installed: bool = field(default=False)

    @classmethod
    def of(cls, host: str) -> "Guard":
        """A guard for a host, with a new token if other machines can reach it."""
        return cls(host, None if host in LOCAL else secrets.token_urlsafe(24))

    def refusal(self, path: str, headers: Any) -> str | None:
        """The reason to refuse a request; None to answer it.

        A local studio answers only to local host names: a foreign name that resolves to it is a DNS
        rebinding attack. A socket must come from a page that the studio served.
        """
        try:
            return self._refusal(path, headers)
        except (ValueError, LookupError):  # no address, no text, or a header given twice
            return "malformed headers"

    def _refusal(self, path: str, headers: Any) -> str | None:
        host = headers.get("Host", "")
        if not HOST.fullmatch(host):
            return "malformed headers"
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
        """Whether the request has the token, in its address or as a cookie."""
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
        """While a viser server starts: install the guard in front of it."""
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
            reason = self.refusal(request.path, request.headers)
            if reason is not None:
                return connection.respond(http.HTTPStatus.FORBIDDEN, f"newtongs studio: {reason}\n")
            response = answer(connection, request)
            if response is not None:
                host = request.headers["Host"]
                policy = POLICY.format(sockets=f"ws://{host} wss://{host}")
                response.headers["Content-Security-Policy"] = policy
            if response is not None and self.token is not None:
                cookie = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                response.headers["Set-Cookie"] = cookie
            return response

        return process


def _name(host: str) -> str:
    """A Host header without its port."""
    return (urlsplit(f"//{host}").hostname or "").lower()


def _is_transfer(message: Any) -> bool:
    """Whether an announcement has a size, and no more parts than that many bytes come in."""
    size, parts = message.size_bytes, message.part_count
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (size, parts))
    return whole and size >= 0 and 0 <= parts <= 1 + size // LEAST_PART


class Uploads:
    """Uploaded files, of limited size, in a private folder that is deleted with the studio."""

    def __init__(self, most: float) -> None:
        """``most`` is the size limit of a file, in megabytes."""
        if not most > 0:
            raise InputError(f"{argument('max_upload')}: expected megabytes above 0, got {most:g}")
        self.most = int(most * MEGABYTE)
        self._open = ExitStack()
        self.folder: Path = self._open.enter_context(scratch())
        """No other user can read it; what a killed studio left is removed by the next command."""
        self._count = self._stored = 0

    def store(self, name: str, content: bytes) -> Path:
        """Write a file under a number; only the extension of its name is kept."""
        if len(content) > self.most:
            raise InputError(self.too_large(len(content)))
        if self._stored + len(content) > TOGETHER * self.most:
            raise InputError(self.too_many())
        bare = name.replace("\\", "/").rsplit("/", 1)[-1].lower()
        ending = next((e for e in ENDINGS if bare.endswith(e)), None)
        if ending is None:
            raise InputError(
                f"{bare[:60]!r} is not a splat file: expected a name ending in {', '.join(ENDINGS)}"
            )
        self._count += 1
        path = self.folder / f"upload_{self._count}{ending}"
        path.write_bytes(content)
        self._stored += len(content)
        return path

    def too_large(self, size: int) -> str:
        """The error line for a file of ``size`` bytes."""
        most = self.most / MEGABYTE
        return (
            f"expected a file of up to {most:,.0f} MB, got {size / MEGABYTE:,.0f} MB; "
            "open it with: newtongs studio FILE, or raise --max-upload"
        )

    def too_many(self) -> str:
        """The error line where all files together are too large."""
        most = TOGETHER * self.most / MEGABYTE
        return (
            f"the studio keeps uploads of up to {most:,.0f} MB together; start it again, or raise "
            "--max-upload"
        )

    def watch(self, gui: Any, refuse: Any) -> None:
        """Drop transfers that announce too much, or send more than they announced.

        Viser itself would accept any number of bytes. ``refuse`` is called with the error line.
        """
        from viser import _messages

        held = gui._current_file_upload_states

        def at_start(client: int, message: Any) -> None:
            waiting = sum(state["total_bytes"] for state in list(held.values()))
            said = None
            if not _is_transfer(message) or len(held) > MOST_TRANSFERS:
                said = "an upload that is none was dropped; try again"
            elif waiting > self.most:
                said = self.too_large(message.size_bytes)
            elif self._stored + waiting > TOGETHER * self.most:
                said = self.too_many()
            if said is not None:
                held.pop(message.transfer_uuid, None)
                refuse(said)

        def at_part(client: int, message: Any) -> None:
            state = held.get(message.transfer_uuid)
            if state is not None and state["transferred_bytes"] > state["total_bytes"]:
                held.pop(message.transfer_uuid, None)
                refuse("an upload was longer than announced and was dropped; try again")

        gui._websock_interface.register_handler(_messages.FileTransferStartUpload, at_start)
        gui._websock_interface.register_handler(_messages.FileTransferPart, at_part)

    def close(self) -> None:
        """Delete the folder with all files."""
        self._open.close()
