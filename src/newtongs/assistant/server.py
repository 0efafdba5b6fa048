"""The tools of a :class:`.desk.Desk` as an MCP server, over standard input and output or loopback.

The protocol is the official SDK's. Its event loop only waits: the work is done on one worker
thread, one call after the other, like the actions of the studio's tabs. All clients of an HTTP
server share its scene, because a request of the protocol's newest revision belongs to no
connection.
"""

import socket
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeAlias

import anyio
import anyio.from_thread
import anyio.to_thread
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field, ValidationError

from .. import __version__
from ..base.errors import InputError, unknown_name
from .desk import LONGEST, Desk, Reply

LOOPBACK = "127.0.0.1"  # the only address that is listened on
LARGEST_REQUEST = 1 << 16  # bytes; a call of any tool takes some hundreds
PATIENCE = 1.0  # seconds between two reports of progress
CLOSING = 2  # seconds that open connections have at the end

INSTRUCTIONS = """
newtongs makes objects in a static 3D capture move with physics. A session: open a scene, look at
the numbered picture, pick a thing by its number, push it (or set a goal), play, then export.

Axes are those of the physics frame: y points up; seen from the usual side x points right and z
towards the camera. The picture of a room may be taken from another side: the axes in its lower left
corner and the numbers on the floor show where x and z point. Lengths are metres: the main object is
taken to be half a metre large. y = 0 is the floor or table top that was found.
Velocities are m/s, spins rad/s about x, y and z. To knock a thing off a table: look, find its
number and the nearest edge, pick it, push it over the edge with 1.5 to 3 m/s (a little upward helps
against friction), play, and check in the frames and numbers that it fell.
""".strip()

_Context: TypeAlias = Context[Any, Any]
Content: TypeAlias = list[str | Image]
Three = Annotated[list[float], Field(min_length=3, max_length=3)]


class _Server(MCPServer[Any]):
    """The SDK's server, whose errors are one line each."""

    async def call_tool(self, name: str, arguments: Any, context: Any = None) -> Any:
        known = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
        if name not in known:
            raise ToolError(str(unknown_name("tool", name, known)))
        for given in arguments:
            if given not in known[name]:  # the SDK would ignore it
                raise ToolError(f"{name}: {unknown_name('argument', given, known[name])}")
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError as error:
            what = type(error.__cause__).__name__
            text = f"{name} failed inside newtongs ({what}); the server's standard error says where"
            raise UnexpectedToolError(text) from error.__cause__
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                raise ToolError(_wrong_arguments(name, cause)) from cause
            raise ToolError(str(cause or error)) from None


def _wrong_arguments(name: str, error: ValidationError) -> str:
    """What is wrong with the arguments of a tool, in one line."""
    wrong = [
        f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}, got {each['input']!r:.60}"
        for each in error.errors()
    ]
    return f"{name}: {'; '.join(wrong)}"


class _Calls:
    """Runs the desk's methods one after the other on a worker thread."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self._one = desk, anyio.CapacityLimiter(1)

    async def __call__(self, ctx: _Context, do: Callable[..., Reply], **given: Any) -> Content:
        work = partial(self._work, ctx, partial(do, **given))
        return await anyio.to_thread.run_sync(work, limiter=self._one)

    def _work(self, ctx: _Context, do: Callable[[], Reply]) -> Content:
        """Call, and add the warnings to the reply."""
        self.desk.progress = _Reporter(ctx)
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always", UserWarning)
            try:
                reply = do()
            except (InputError, OSError, MemoryError) as error:
                raise ToolError(_one_line(error)) from error
        mine = [each.message for each in doubts if issubclass(each.category, UserWarning)]
        reply = [*reply, *(f"warning: {message}" for message in mine)]
        return [Image(data=x, format="png") if isinstance(x, bytes) else x for x in reply]


class _Reporter:
    """Reports progress to the client of a call, now and then."""

    def __init__(self, ctx: _Context) -> None:
        self.ctx, self.count, self.last = ctx, 0, time.monotonic()

    def __call__(self, what: str, done: int, of: int) -> None:
        if time.monotonic() - self.last < PATIENCE:
            return
        self.count, self.last = self.count + 1, time.monotonic()
        report = partial(self.ctx.report_progress, self.count, None, f"{what}: {done} of {of}")
        anyio.from_thread.run(report)


def _one_line(error: Exception) -> str:
    """An error that a user can understand, as one line."""
    if isinstance(error, MemoryError):
        return "not enough memory; use a smaller scene"
    if isinstance(error, OSError):
        return f"cannot read or write {error.filename or ''}: {error.strerror or error}"
    return " ".join(str(error).split())


def make_server(desk: Desk) -> MCPServer[Any]:
    """An MCP server with the tools of a desk."""
    server = _Server(
        "newtongs", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    call = _Calls(desk)
    tool = server.tool(structured_output=False)

    @tool
    async def open(
        ctx: _Context,
        scene: Annotated[
            str, Field(description="File beneath the allowed folders, or a built-in scene's name.")
        ] = "",
        up: Annotated[
            Three | None, Field(description="Up in the file's axes, if it is found wrongly.")
        ] = None,
        floor: Annotated[
            float | None, Field(description="Height of the floor along up, in the file's units.")
        ] = None,
    ) -> Content:
        """Open a scene; it replaces the one that is open. Without a name, list what can be opened.

        Up and floor are estimated; the reply says if they are not sure. Give them only then.
        """
        return await call(ctx, desk.open, scene=scene, up=up, floor=floor)

    @tool
    async def look(ctx: _Context) -> Content:
        """The open scene with the numbers of its things, a close-up of each, and a list of them.

        The list has each thing's number, selector, centre (x, y up, z, in metres), size, what it
        stands on and its mean colour. The ruler on the floor shows x in red and z in blue, and the
        axes in the corner where they point. A thing that is hidden in the first picture has its
        number in the second.
        """
        return await call(ctx, desk.look)

    @tool
    async def pick(
        ctx: _Context,
        thing: Annotated[
            str | int,
            Field(
                description="A number from look, or a selector: cluster:3, id:2, cluster:3+4 "
                "(several as one), auto, all, and in the file's axes box:x0,y0,z0,x1,y1,z1 or "
                "sphere:x,y,z,r."
            ),
        ],
    ) -> Content:
        """Pick a thing to move: it is cut out of the scene. Returns its object number, from 0.

        The first picked object gets a toss as its push, further ones start at rest. Picking a thing
        again returns its number. drop undoes a wrong pick.
        """
        return await call(ctx, desk.pick, thing=str(thing))

    @tool
    async def drop(
        ctx: _Context,
        object: Annotated[int, Field(description="Number of a picked object.")],
    ) -> Content:
        """Make a picked object part of the scene again. Later objects then have lower numbers."""
        return await call(ctx, desk.drop, object=object)

    @tool
    async def push(
        ctx: _Context,
        object: Annotated[int, Field(description="Number of a picked object.")] = 0,
        velocity: Annotated[
            Three | None,
            Field(description="Initial velocity x, y (up), z along the axes that look shows, m/s."),
        ] = None,
        spin: Annotated[
            Three | None, Field(description="Initial spin about the axes x, y and z, rad/s.")
        ] = None,
        mass: Annotated[float | None, Field(description="Mass; default 1.")] = None,
        restitution: Annotated[
            float | None, Field(description="Bounciness from 0 to 1; default 0.3.")
        ] = None,
        friction: Annotated[
            float | None, Field(description="0.1 is ice, 0.5 (default) wood, 1 rubber.")
        ] = None,
    ) -> Content:
        """Set how a picked object starts: velocity and spin, and its material.

        Velocity and spin belong together: if only one is given, the other becomes zero. A push of
        2 m/s slides a thing about half a metre; 4 m/s upward throws it 0.8 m high.
        """
        return await call(
            ctx, desk.push, object=object, velocity=velocity, spin=spin, mass=mass,
            restitution=restitution, friction=friction,
        )  # fmt: skip

    @tool
    async def goal(
        ctx: _Context,
        goal: Annotated[
            str,
            Field(description='"land at X Z" or "displace DX DY DZ", metres in the physics frame.'),
        ],
        object: Annotated[int, Field(description="Number of a picked object.")] = 0,
        seconds: Annotated[
            float, Field(description="When the goal is to be reached, in seconds.")
        ] = 2.0,
    ) -> Content:
        """Search for the push that brings an object to a place, and set it (10 to 60 seconds).

        The reply says by how much the best push misses. X and Z are those of look's ruler.
        """
        return await call(ctx, desk.goal, goal=goal, object=object, seconds=seconds)

    @tool
    async def play(
        ctx: _Context,
        seconds: Annotated[
            float | None,
            Field(
                description=f"Length, up to {LONGEST:g}. Default: until everything rests, 2 to 6; "
                "after goal the goal's."
            ),
        ] = None,
        loose: Annotated[
            bool | None,
            Field(description="Whether all other things can be knocked over too; slower."),
        ] = None,
    ) -> Content:
        """Simulate the picked objects. Returns a sheet of frames, and where each object ends.

        Frames run row by row; the text has their times. A height below 0 means that the object fell
        off what it stood on.
        """
        return await call(ctx, desk.play, seconds=seconds, loose=loose)

    @tool
    async def export(
        ctx: _Context,
        formats: Annotated[
            list[str],
            Field(
                description="mp4, gif, png (sheet), html (page that plays), glb, usd, json, ply."
            ),
        ] = ["mp4", "html"],  # noqa: B006  (never changed; the schema shows it)
        folder: Annotated[
            str, Field(description="Folder to write to, beneath the allowed folders.")
        ] = "animation",
    ) -> Content:
        """Write the animation to files. Files that this server has not written are kept."""
        return await call(ctx, desk.export, formats=formats, folder=folder)

    return server


# --- transports -----------------------------------------------------------------------------------


def serve_stdio(desk: Desk) -> None:
    """Serve the parent process; whatever is printed meanwhile goes to standard error."""
    make_server(desk).run("stdio")


def serve_http(desk: Desk, port: int, ready: Callable[[str], None]) -> None:
    """Serve this machine on a port, 0 for any; ``ready`` is called with the address.

    Any page in a browser can send requests to a local port. So requests for another host name, as
    of DNS rebinding, and requests of pages from elsewhere are refused.
    """
    bound = _bound(port)
    port = bound.getsockname()[1]
    names = [f"{host}:{port}" for host in (LOOPBACK, "localhost")]
    own = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=names,
        allowed_origins=[f"http://{name}" for name in names],
    )
    app = make_server(desk).streamable_http_app(
        host=LOOPBACK, transport_security=own, max_request_body_size=LARGEST_REQUEST
    )
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=CLOSING
    )
    ready(f"http://{LOOPBACK}:{port}/mcp")
    anyio.run(partial(uvicorn.Server(config).serve, sockets=[bound]))


def _bound(port: int) -> socket.socket:
    """A socket that listens on this machine's own address."""
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise InputError(
            f"--http: cannot listen on port {port} ({error.strerror}); name another one, or 0"
        ) from error
