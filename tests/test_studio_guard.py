"""Who may speak to the studio, and what may be sent to it."""

import asyncio
import contextlib
import re
import socket
import stat
import time
import urllib.error
import urllib.request
from importlib.resources import files

import pytest

pytest.importorskip("viser", reason="needs viser: pip install 'newtongs[studio]'")

import websockets
from viser import __version__ as viser_version

from newtongs.base.errors import InputError
from newtongs.base.locks import SCRATCH
from newtongs.studio.guard import COOKIE, Guard, Uploads, known_viser


@pytest.fixture(scope="module")
def studio():
    from newtongs.studio.server import Studio

    made = Studio(port=0, max_upload=1.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def open_to_all():
    from newtongs.studio.server import Studio

    made = Studio(host="0.0.0.0", port=0)
    yield made
    made.close()


def get(studio, path="/", **headers):
    """Status and body of a request."""
    address = f"http://127.0.0.1:{studio.server.get_port()}{path}"
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


def connect(studio, origin, **headers):
    """Whether a socket is let in."""

    async def attempt():
        port = studio.server.get_port()
        options = {"origin": origin, "additional_headers": headers or None}
        protocol = [websockets.Subprotocol(f"viser-v{viser_version}")]
        async with websockets.connect(
            f"ws://127.0.0.1:{port}", subprotocols=protocol, **options
        ) as connection:
            await asyncio.wait_for(connection.recv(), 20)

    try:
        asyncio.run(attempt())
    except websockets.exceptions.InvalidStatus as error:
        return error.response.status_code
    return 101


def own(studio):
    return f"http://127.0.0.1:{studio.server.get_port()}"


def test_the_page_is_served_to_this_machine_only(studio):
    assert studio.server.get_host() == "127.0.0.1"
    assert get(studio)[0] == 200
    assert get(studio, Host="evil.example")[0] == 403
    assert "token" not in studio.url


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..\\..\\x"])
def test_no_path_leads_out(studio, path):
    assert get(studio, path)[0] in (400, 404)


def test_a_foreign_page_gets_no_socket(studio):
    assert connect(studio, own(studio)) == 101
    assert connect(studio, "http://evil.example") == 403
    assert connect(studio, "null") == 403
    assert connect(studio, None) == 403


def test_another_host_needs_the_token(open_to_all):
    token = open_to_all.guard.token
    assert token in open_to_all.url
    assert get(open_to_all)[0] == 403
    assert get(open_to_all, "/?token=wrong")[0] == 403
    status, _, headers = get(open_to_all, f"/?token={token}")
    assert status == 200
    assert f"{COOKIE}={token}" in headers["Set-Cookie"]
    assert "HttpOnly" in headers["Set-Cookie"]
    assert get(open_to_all, Cookie=f"a=b; {COOKIE}={token}")[0] == 200
    assert connect(open_to_all, own(open_to_all)) == 403
    assert connect(open_to_all, own(open_to_all), Cookie=f"{COOKIE}={token}x") == 403
    assert connect(open_to_all, own(open_to_all), Cookie=f"{COOKIE}={token}") == 101
    assert connect(open_to_all, "http://evil.example", Cookie=f"{COOKIE}={token}") == 403


def test_tokens_differ():
    assert Guard.of("0.0.0.0").token != Guard.of("0.0.0.0").token
    assert Guard.of("127.0.0.1").token is None


def test_fifty_connections_that_are_dropped_leave_it_alive(studio):
    port = studio.server.get_port()
    for k in range(50):
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), 10)) as s:
            s.sendall([b"", b"GET / HT", b"\x00\xff" * 40, b"GET / HTTP/1.1\r\n\r\n"][k % 4])
    assert get(studio)[0] == 200


def test_fifty_sockets_that_are_dropped_leave_it_alive(studio):
    """Some in the middle of what they are sent, some after sending rubbish."""

    async def attack(k):
        protocol = [websockets.Subprotocol(f"viser-v{viser_version}")]
        connection = await websockets.connect(
            own(studio).replace("http", "ws"), subprotocols=protocol, origin=own(studio)
        )
        if k % 3 == 0:
            await connection.recv()
        elif k % 3 == 1:
            await connection.send([b"\x00", b"\xff" * 1000, b"\x81\xa4type"][k % 2])
        connection.transport.abort()

    async def all_of_them():
        await asyncio.gather(*(attack(k) for k in range(50)))

    asyncio.run(all_of_them())
    assert get(studio)[0] == 200
    assert connect(studio, own(studio)) == 101
    end = time.monotonic() + 20
    while studio.server.get_clients() and time.monotonic() < end:
        time.sleep(0.05)
    assert not studio.server.get_clients()


@pytest.mark.parametrize("version", ["1.0.29", "1.2.0", "2.1.1", "0.2.23"])
def test_another_viser_is_refused(monkeypatch, version):
    import viser

    monkeypatch.setattr(viser, "__version__", version)
    with pytest.raises(InputError, match=r"needs viser 1\.1\.x, found"):
        known_viser()


def test_uploads_are_private_numbered_and_gone_afterwards():
    uploads = Uploads(1.0)
    folder = uploads.folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.name.startswith(SCRATCH)  # of a studio that was killed, the next command removes
    names = ["a.ply", "../../b.ply", "..\\c.PLY", "/etc/d.compressed.ply"]
    stored = [uploads.store(name, b"x") for name in names]
    assert [p.name for p in stored] == [
        "upload_1.ply", "upload_2.ply", "upload_3.ply", "upload_4.compressed.ply",
    ]  # fmt: skip
    assert all(p.parent == folder for p in stored)
    uploads.close()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["x.pt", "x.exe", "", ".", "..", "ply", "a.ply\0.exe"])
def test_other_files_are_refused(name):
    uploads = Uploads(1.0)
    with pytest.raises(InputError, match="is not a splat file"):
        uploads.store(name, b"x")
    uploads.close()


def test_large_files_are_refused():
    uploads = Uploads(0.001)
    with pytest.raises(InputError, match="up to 0 MB"):
        uploads.store("a.ply", b"x" * 1001)
    uploads.close()
    with pytest.raises(InputError, match="max_upload"):
        Uploads(0)


def test_a_transfer_that_announces_or_brings_too_much_is_dropped(studio):
    """As viser's own handlers run, before anything is assembled."""
    from viser import _messages

    gui, uuid = studio.server.gui, studio.page.panel.upload._impl.uuid
    held = gui._current_file_upload_states

    def send(message):
        for handle in gui._websock_interface._incoming_handlers[type(message)]:
            handle(0, message)

    def start(name, size, parts):
        send(
            _messages.FileTransferStartUpload(
                source_component_uuid=uuid,
                transfer_uuid=name,
                filename="a.ply",
                mime_type="",
                part_count=parts,
                size_bytes=size,
            )
        )

    start("large", 2_000_000, 2)
    assert "large" not in held
    assert "up to 1 MB" in studio.page.panel.message.content
    start("liar", 10, 1)
    assert "liar" in held
    send(
        _messages.FileTransferPart(
            source_component_uuid=uuid, transfer_uuid="liar", part_index=0, content=b"x" * 100
        )
    )
    assert "liar" not in held

    for name, size, parts in (("below", -1, 1), ("none", 5, -1), ("parts", 100, 10**6)):
        start(name, size, parts)
        assert name not in held
    for k in range(20):
        start(f"many_{k}", 10, 1)
    assert len([name for name in held if name.startswith("many_")]) <= 8
    for name in [*held]:
        held.pop(name)


def test_a_negative_size_leaves_no_room_for_a_large_one(studio):
    """Sizes are added up: one below zero would let any other pass."""
    from viser import _messages

    gui = studio.server.gui
    gui._current_file_upload_states["old"] = {"total_bytes": 0, "transferred_bytes": 0}
    for name, size in (("below", -(10**12)), ("large", 2_000_000)):
        message = _messages.FileTransferStartUpload(
            source_component_uuid=studio.page.panel.upload._impl.uuid, transfer_uuid=name,
            filename="a.ply", mime_type="", part_count=1, size_bytes=size,
        )  # fmt: skip
        for handle in gui._websock_interface._incoming_handlers[type(message)]:
            handle(0, message)
        assert name not in gui._current_file_upload_states
    gui._current_file_upload_states.clear()


def test_uploads_are_limited_together():
    uploads = Uploads(0.001)
    for _ in range(4):
        uploads.store("a.ply", b"x" * 1000)
    with pytest.raises(InputError, match="keeps uploads of up to 0 MB together"):
        uploads.store("a.ply", b"x")
    uploads.close()


def test_no_message_opens_a_tunnel(studio):
    from viser import _messages

    assert _messages.ShareUrlRequest not in studio.server._websock_server._incoming_handlers


def raw(studio, *headers):
    """Status of a request with these header lines."""
    lines = [b"GET / HTTP/1.1", *headers, b"", b""]
    with contextlib.closing(
        socket.create_connection(("127.0.0.1", studio.server.get_port()), 20)
    ) as s:
        s.sendall(b"\r\n".join(lines))
        return int(s.recv(100).split()[1])


@pytest.mark.parametrize(
    "headers",
    [
        [b"Host: ["],
        [b"Host: localhost", b"Host: localhost"],
        [b"Host: localhost\xff"],
        [b"Host: localhost;evil"],
        [b"Host: localhost", b"Origin: http://["],
        [b"Host: localhost", b"Cookie: newtongs_studio=\xff\xfe"],
    ],
)
def test_malformed_headers_are_refused(studio, open_to_all, headers):
    assert raw(open_to_all, *headers) == 403
    assert raw(studio, *headers) in (403, 200 if b"Cookie" in headers[-1] else 403)


def test_every_page_has_a_policy(studio):
    """That of the studio loads nothing from elsewhere; those of files load and run nothing."""
    from export_samples import park

    from newtongs.exports.html import html_page
    from newtongs.factory.spec import load_spec
    from newtongs.factory.statistics import document

    served = get(studio)[2]["Content-Security-Policy"]
    port = studio.server.get_port()
    assert served.startswith("default-src 'self' ")
    assert f"ws://127.0.0.1:{port}" in served
    assert "http" not in served
    name = "Content-Security-Policy"
    statistics = document(load_spec("small")[0], [], {}, [])
    for page in (
        statistics,
        files("newtongs.paper.report").joinpath("page.html").read_text(),
        html_page(park(2)).decode(),
    ):
        head = page[: page.index("<style>")]
        assert "default-src 'none'" in head[head.index(name) :]
    assert "script-src" not in statistics


HOSTILE = "a`b```c<img src=x onerror=alert(1)>{alert(1)}\n```\n<b>.ply"


def test_a_name_is_no_markup(studio):
    """Viser compiles markdown with HTML and JavaScript in it."""
    from newtongs import ObjectSpec
    from newtongs.studio import Recipe, Session

    page = studio.page
    session = Session(Recipe("sunny_park", (ObjectSpec("id:0", velocity=(1, 0, 0)),)))
    page.open(session, HOSTILE)
    page.export_panel.on_lines(None)
    summary, code = page.panel.summary, page.panel.command.content
    page.session, page.shown = None, ""
    assert type(summary).__name__ == "GuiHtmlHandle"
    assert "<img" not in summary.content
    assert "&lt;img" in summary.content
    found = re.fullmatch(r"(`+)bash\n(.*)\n\1\n\n(`+)python\n(.*)\n\3", code, re.S)
    assert found[1] not in found[2]
    assert found[3] not in found[4]


def test_a_hostile_file_is_a_red_line_and_the_page_lives(studio):
    class Event:
        client = object()

    page, head = studio.page, b"ply\nformat binary_little_endian 1.0\n"
    for content in (
        b"",
        head + b"element vertex 99999999\n",
        b"\xff" * 999,
    ):
        page.panel.upload._impl.value = type(page.panel.upload.value)("x.ply", content)
        page.guarded(page.opening.on_upload)(Event())
        assert "#d33" in page.panel.message.content
        assert "Error:" not in page.panel.message.content  # one of our lines, not a class
    assert page.session is None


def test_what_is_said_is_no_markup(studio):
    studio.page.fail("<script>alert(1)</script>")
    assert "<script>" not in studio.page.panel.message.content
