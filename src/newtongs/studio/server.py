"""A running studio: viser's server behind the guard, with the page."""

import io
import socket
import threading
from contextlib import redirect_stdout
from typing import Any

from ..base.errors import InputError, argument
from .cache import warm
from .guard import Guard, Uploads, known_viser
from .page import Page
from .player import LAST
from .session import Session


class Studio:
    """A running studio; close it when done."""

    def __init__(
        self,
        session: Session | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        max_upload: float = 500.0,
    ) -> None:
        """Start the server, with a token if ``host`` is not local; ``max_upload`` in megabytes."""
        viser = known_viser()
        require_own_address(host)
        self._warming = threading.Thread(target=warm, daemon=True, name="newtongs warm")
        self._warming.start()
        self.uploads, self.guard = Uploads(max_upload), Guard.of(host)
        try:
            self.server = self._served(viser, host, port)
            self.page = Page(self.server, session, self.uploads)
        except BaseException:
            self.uploads.close()
            raise

    def _served(self, viser: Any, host: str, port: int) -> Any:
        # Viser prints an address without the token.
        with self.guard.before_viser(), redirect_stdout(io.StringIO()):
            server = viser.ViserServer(host=host, port=port, label="newtongs", verbose=False)
        if not self.guard.installed:
            server.stop()
            raise InputError(f"viser {viser.__version__} cannot be guarded; install viser 1.1.1")
        self._without_tunnel(server)
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        return server

    @staticmethod
    def _without_tunnel(server: Any) -> None:
        """Leave unanswered the message by which any page would open the studio to the internet."""
        from viser import _messages

        server._websock_server.unregister_handler(_messages.ShareUrlRequest)

    @property
    def url(self) -> str:
        """The address to open, with the token if there is one."""
        host = "localhost" if self.guard.host in ("0.0.0.0", "::") else self.guard.host
        query = "" if self.guard.token is None else f"/?token={self.guard.token}"
        return f"http://{host}:{self.server.get_port()}{query}"

    def close(self) -> None:
        """Stop the server and delete uploaded files."""
        self.page.close()
        self.server.stop()
        self.uploads.close()
        self._warming.join(LAST)


def require_own_address(host: str) -> None:
    """Check that a server can listen on ``host``; viser's would wait for ever if it cannot."""
    try:
        family, kind, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as listening:
            listening.bind(address)
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"{argument('host')}: expected an address of this machine, such as 127.0.0.1 or "
            f"0.0.0.0, got {host!r}"
        ) from error
