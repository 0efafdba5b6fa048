"""The studio in a browser, with viser: what happens when something is clicked, pulled or pressed.

All tabs see the same scene. What they do is done one after the other, under one lock; an error is
a red line in the page.
"""

import html
import io
import tempfile
import threading
import traceback
import zipfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace as changed
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import torch

from ..errors import InputError
from ..scene.cameras import Camera
from ..state import State
from ..templates import SCENES
from .guard import Guard, Uploads
from .panel import FREE, NONE, Panel, make_panel
from .player import Player
from .recipe import Recipe
from .session import Session, camera_in_scene
from .view import ARROW, View

HEIGHT = 540  # pixels of an exported picture; its width follows the page
QUIET = 0.25  # seconds after the last pull until the exact path is computed
RED, GREY = "#d33", "#777"

Callback: TypeAlias = Callable[[Any], None]


class Page:
    """One studio: a session, a viser server, and what connects them."""

    def __init__(self, server: Any, session: Session | None, uploads: Uploads) -> None:
        self.server, self.session, self.uploads = server, session, uploads
        self.lock = threading.RLock()
        self.shown = "" if session is None else session.recipe.scene
        self.selected: int | None = None
        self.clock = 0.0
        self.view = View(server, self.on_arrow)
        self.panel: Panel = make_panel(server.gui, session.recipe if session else None)
        self.player = Player(self.on_play, self.on_step)
        self._pulled = threading.Event()
        self._connect()
        threading.Thread(target=self._follow_arrow, daemon=True).start()
        uploads.watch(server.gui, self.fail)
        if session is not None:
            self.open(session, self.shown)
        else:
            self.say("choose a scene, or open a file")

    # --- words ------------------------------------------------------------------------------------

    def say(self, words: str) -> None:
        """A quiet line."""
        self._line(words, GREY)

    def fail(self, words: str) -> None:
        """A red line."""
        self._line(words, RED)

    def _line(self, words: str, color: str) -> None:
        style = f"color:{color};padding:0.4em 1em;font-size:0.85em"
        self.panel.said.content = f'<div style="{style}">{html.escape(words)}</div>'

    def guarded(self, do: Callback) -> Callback:
        """A callback for viser: one at a time; what goes wrong is told in the page."""

        @wraps(do)
        def run(event: Any) -> None:
            if event is not None and event.client is None:  # the page's own doing, no person's
                return
            with self.lock:
                try:
                    do(event)
                except InputError as error:
                    self.fail(str(error))
                except Exception as error:
                    traceback.print_exc()
                    self.fail(f"{type(error).__name__}: {error}")

        return run

    def _connect(self) -> None:
        p, on = self.panel, self.guarded
        for control, do in (
            (p.scene, self.on_scene), (p.objects, self.on_select), (p.loose, self.on_options),
            (p.dynamics, self.on_options), (p.seconds, self.on_options), (p.floor, self.on_shown),
            (p.solids, self.on_shown), (p.frame, self.on_frame),
            *((c, self.on_push) for c in (p.velocity, p.spin, p.mass, p.restitution, p.friction)),
            (p.motion, self.on_motion),
        ):  # fmt: skip
            control.on_update(on(do))
        p.upload.on_upload(on(self.on_upload))
        for button, do in (
            (p.add, self.on_add), (p.remove, self.on_remove), (p.undo, self.on_undo),
            (p.play, self.on_play_button), (p.live, self.on_live), (p.keep, self.on_keep),
            (p.reset, self.on_reset), (p.project, self.on_project), (p.lines, self.on_lines),
            (p.rectangle, self.on_rectangle),
        ):  # fmt: skip
            button.on_click(on(do))
        p.export.on_click(self.on_export)
        self.server.scene.on_click()(on(self.on_click))
        self.server.scene.on_click(modifier="shift")(on(self.on_click))
        self.server.on_client_disconnect(self.on_leave)

    @property
    def open_session(self) -> Session:
        """The session, if there is one."""
        if self.session is None:
            raise InputError("no scene is open; choose one, or open a file")
        return self.session

    # --- open -------------------------------------------------------------------------------------

    def open(self, session: Session, shown: str) -> None:
        """Show a session."""
        self.session, self.shown = session, shown
        self.stop()
        self.view.show(session)
        self.view.look(session)
        self.refresh(0 if session.recipe.pushes else None)
        doubt = f"; {session.floor.doubt}" if session.floor.doubt else ""
        self.say(f"{len(session.scene):,} Gaussians; {session.floor.description}{doubt}")

    def on_scene(self, event: Any) -> None:
        """One of ours was chosen."""
        name = self.panel.scene.value
        if name in SCENES and name != self.shown:
            self.say(f"opening {name} ...")
            self.open(Session(name), name)

    def on_upload(self, event: Any) -> None:
        """A file has come."""
        file = self.panel.upload.value
        name = Path(file.name.replace("\\", "/")).name
        path = self.uploads.store(file.name, file.content)
        self.say(f"reading {name} ...")
        self.open(Session(str(path)), name)

    # --- pick -------------------------------------------------------------------------------------

    def on_click(self, event: Any) -> None:
        """Pick what is under the pointer, or kick it while it is live."""
        session = self.open_session
        ray = event.ray_origin, event.ray_direction
        if self.player.mode == "live":
            index = session.kick(*ray, self.panel.strength.value)
            self.say(f"kicked object {index} at {session.time:.2f} s")
            return
        self.stop()
        self.say("looking what is there ...")
        self.add(session.point(*ray))

    def on_add(self, event: Any) -> None:
        """Pick by a word."""
        self.add(self.panel.word.value.strip() or "auto")

    def add(self, word: str) -> None:
        """Pick an object, or select it where it is picked already."""
        session = self.open_session
        before = len(session.recipe.pushes)
        self.stop()
        self.say(f"taking {word} out of the scene ...")
        index = session.pick(word)
        if len(session.recipe.pushes) > before:
            self.view.show(session)
        self.refresh(index)
        count = int((session.ready.stage.scene.ids == index).sum())
        self.say(f"object {index}: {session.ready.stage.names[index]}; {count:,} Gaussians move")

    def on_rectangle(self, event: Any) -> None:
        """Wait for one rectangle."""
        _ = self.open_session
        self.say("draw a rectangle around objects")
        scene = self.server.scene

        def drawn(rectangle: Any) -> None:
            scene.remove_rect_select_callback(handler)
            camera = self.camera(rectangle.client)
            size = torch.tensor([camera.width, camera.height])
            low, high = (
                (torch.tensor(x) * size).tolist()
                for x in (rectangle.screen_min, rectangle.screen_max)
            )
            for word in self.open_session.within(camera, low, high):
                self.add(word)

        handler = self.guarded(drawn)
        scene.on_rect_select()(handler)

    def on_select(self, event: Any) -> None:
        """Another object was selected."""
        number = self.panel.objects.value
        self.refresh(None if number == NONE else int(number.split(":")[0]))

    def on_remove(self, event: Any) -> None:
        """The selected object is scenery again."""
        if self.selected is None:
            raise InputError("no object is selected; click one first")
        self.stop()
        self.open_session.drop(self.selected)
        self.reshow()

    def on_undo(self, event: Any) -> None:
        """Back by one step."""
        self.stop()
        self.open_session.undo()
        self.reshow()

    def reshow(self) -> None:
        """After objects have come or gone."""
        session = self.open_session
        self.view.show(session)
        self.refresh(0 if session.recipe.pushes else None)
        self.say(f"{len(session.recipe.pushes)} objects picked")

    # --- push -------------------------------------------------------------------------------------

    def on_push(self, event: Any) -> None:
        """A number of the push was changed."""
        p, session, index = self.panel, self.open_session, self.require_selected()
        fields = {"mass": p.mass.value, "restitution": p.restitution.value}
        fields |= {"friction": p.friction.value}
        if session.recipe.pushes[index].motion is None:
            fields |= {"velocity": tuple(p.velocity.value), "spin": tuple(p.spin.value)}
        self.changed(lambda: session.push(index, **fields))

    def on_motion(self, event: Any) -> None:
        """A named motion, or none."""
        session, index = self.open_session, self.require_selected()
        name = self.panel.motion.value
        free = {"velocity": (0.0, 0.0, 0.0), "motion": None}
        fields = free if name == FREE else {"motion": name}
        self.changed(lambda: session.push(index, **fields), anew=True)

    def on_options(self, event: Any) -> None:
        """What concerns all objects."""
        p, session = self.panel, self.open_session
        anew = p.loose.value != session.recipe.loose or "paper" in (
            p.dynamics.value, session.recipe.dynamics,
        )  # fmt: skip
        fields = {"loose": p.loose.value, "dynamics": p.dynamics.value, "seconds": p.seconds.value}
        self.changed(lambda: session.choose(**fields), anew=anew)

    def changed(self, change: Callable[[], None], *, anew: bool = False) -> None:
        """Change the recipe, and go back if it cannot be staged."""
        session = self.open_session
        before = session.recipe
        self.stop()
        change()
        if session.recipe == before:
            self.refresh(self.selected)
            return
        try:
            if session.recipe.pushes:
                session.states()
        except InputError:
            session.undo()
            self.refresh(self.selected)
            raise
        if anew:
            self.view.show(session)
        self.refresh(self.selected)

    def require_selected(self) -> int:
        """The object that the controls are about."""
        if self.selected is None:
            raise InputError("no object is selected; click one first")
        return self.selected

    def on_arrow(self, event: Any) -> None:
        """The arrow's handle was moved: drawn by a thread, which takes the newest place."""
        self.view.held = event.phase != "end"
        self._pulled.set()

    def _follow_arrow(self) -> None:
        """A rough path while it is pulled, the exact one when it is let go or held still."""
        while True:
            self._pulled.wait()
            self._pulled.clear()
            self.guarded(lambda _: self.pull())(None)
            if not self.view.held or not self._pulled.wait(QUIET):
                self.guarded(lambda _: self.let_go())(None)

    def pulled(self) -> tuple[int, Any, Any]:
        """The object, where it is, and the velocity that the arrow shows."""
        index = self.require_selected()
        at = State(self.open_session.ready.bodies[index].z0).p.double()
        tip = torch.as_tensor(self.view.gizmo.position, dtype=torch.float64)
        return index, at, (tip - at) / ARROW

    def pull(self) -> None:
        """A rough path at once."""
        index, at, velocity = self.pulled()
        self.view.draw_arrow(at, at + ARROW * velocity)
        self.view.path(self.open_session.coarse(index, velocity), exact=False)

    def let_go(self) -> None:
        """The velocity is chosen, and the exact path drawn."""
        index, _, velocity = self.pulled()
        wanted = tuple(round(v, 3) + 0.0 for v in velocity.tolist())
        self.changed(lambda: self.open_session.push(index, velocity=wanted))

    # --- what the page shows ----------------------------------------------------------------------

    def refresh(self, selected: int | None) -> None:
        """Controls, arrow, path and tint as the recipe has them; frame 0."""
        session = self.open_session
        pushes, self.selected, self.clock = session.recipe.pushes, selected, 0.0
        self._set_controls(session)
        if not pushes:
            self.view.arrow(None)
            self.view.path(None)
            return
        states = session.states()
        self.view.pose(states[0], start=True)
        self.view.tint(selected)
        self._show_push(session, states)
        self.on_shown(None)

    def _set_controls(self, session: Session) -> None:
        p, recipe, index = self.panel, session.recipe, self.selected
        names = [f"{i}: {push.select}" for i, push in enumerate(recipe.pushes)]
        p.objects.options = (NONE, *names)
        p.objects.value = NONE if index is None else names[index]
        p.counted.content = f"**{Path(self.shown).name}** · {len(names)} objects picked"
        p.loose.value, p.dynamics.value = recipe.loose, recipe.dynamics
        p.seconds.value = min(max(recipe.seconds, 0.5), 20.0)
        p.frame.max = max(int(recipe.seconds * recipe.fps + 1e-6), 1)
        p.frame.value = 0
        p.command.content = ""
        if index is None:
            return
        push = recipe.pushes[index]
        p.velocity.value, p.spin.value = push.velocity or (0, 0, 0), push.spin or (0, 0, 0)
        p.mass.value, p.friction.value = push.mass, push.friction
        p.restitution.value = 0.6 if push.restitution is None else push.restitution
        p.motion.value = push.motion or FREE

    def _show_push(self, session: Session, states: Any) -> None:
        """Arrow and path of the selected object."""
        if self.selected is None:
            self.view.arrow(None)
            self.view.path(None)
            return
        way, push = State(states[:, self.selected]).p.double(), session.recipe.pushes[self.selected]
        self.view.arrow(None if push.motion else way[0], push.velocity or (0.0, 0.0, 0.0))
        self.view.path(way)

    def on_shown(self, event: Any) -> None:
        """What is drawn besides."""
        session, p = self.open_session, self.panel
        self.view.nodes["floor"].visible = p.floor.value
        wanted = p.solids.value and session.recipe.pushes
        self.view.solids(session.ready.around.surroundings.solids if wanted else None)

    # --- play -------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Whatever moves."""
        self.player.set("still")
        self.panel.play.label, self.panel.live.label = "Play", "Live"

    def on_play_button(self, event: Any) -> None:
        """Play or pause."""
        if self.player.mode == "play":
            self.stop()
            self.say(f"paused at frame {int(self.panel.frame.value)} of {self.panel.frame.max}")
            return
        self.stop()
        session = self.open_session
        session.states()
        if self.panel.frame.value >= self.panel.frame.max:
            self.clock = 0.0
        self.hide_aids()
        self.panel.play.label = "Pause"
        self.player.set("play")

    def hide_aids(self) -> None:
        """What is not there in truth: tint and arrow."""
        self.view.tint(None)
        self.view.arrow(None)

    def on_play(self, gone: float) -> None:
        """A tick of the clock."""
        with self.lock:
            if self.player.mode != "play" or self.session is None:
                return
            recipe, states = self.session.recipe, self.session.states()
            self.clock += gone * self.panel.speed.value
            index = int(self.clock * recipe.fps)
            if index >= len(states):
                if not self.panel.loop.value:
                    self.stop()
                self.clock, index = (0.0, 0) if self.panel.loop.value else (0.0, len(states) - 1)
            self.show_frame(index, states)

    def show_frame(self, index: int, states: Any) -> None:
        """A frame of the animation, and its number."""
        self.view.pose(states[index], start=index == 0)
        self.panel.frame.value = index

    def on_frame(self, event: Any) -> None:
        """Scrub."""
        if self.session is None or not self.session.recipe.pushes:
            return
        self.stop()
        states = self.session.states()
        index = min(int(self.panel.frame.value), len(states) - 1)
        self.clock = index / self.session.recipe.fps
        self.hide_aids()
        self.view.pose(states[index], start=index == 0)

    def on_live(self, event: Any) -> None:
        """Start or stop the live run."""
        if self.player.mode == "live":
            self.stop()
            return
        self.stop()
        _ = self.open_session.now  # compiled before the clock runs
        self.hide_aids()
        self.view.path(None)
        self.panel.live.label = "Stop"
        self.say("live: click an object to kick it along the view")
        self.player.set("live")

    def on_step(self, steps: int) -> None:
        """A tick of the live run."""
        self.guarded(lambda _: self._step(steps))(None)

    def _step(self, steps: int) -> None:
        if self.player.mode != "live":
            return
        try:
            for _ in range(steps):
                states = self.open_session.step()
        except InputError:
            self.stop()
            raise
        self.view.pose(states, start=False)

    def on_keep(self, event: Any) -> None:
        """The live run becomes the animation."""
        self.stop()
        session = self.open_session
        session.keep()
        kicks = len(session.recipe.kicks)
        self.refresh(self.selected)
        self.say(
            f"kept {session.recipe.seconds:.2f} s with {kicks} kicks: play it, or take it home"
        )

    def on_reset(self, event: Any) -> None:
        """Frame 0."""
        self.stop()
        self.open_session.reset()
        self.refresh(self.selected)
        self.say("frame 0")

    def on_leave(self, client: Any) -> None:
        """The last tab has gone: nobody watches."""
        if not self.server.get_clients():
            self.view.held = False
            self.stop()

    # --- take it home -----------------------------------------------------------------------------

    def camera(self, client: Any) -> Camera:
        """The camera of a tab as it is now, in the scene."""
        seen = client.camera
        size = max(round(HEIGHT * seen.aspect / 2) * 2, 2), HEIGHT
        world = self.open_session.world
        return camera_in_scene(world, seen.position, seen.wxyz, seen.fov, size)

    def on_export(self, event: Any) -> None:
        """Write in a folder of its own while the page goes on; then send the file."""
        made: dict[str, Any] = {}

        def prepare(_: Any) -> None:
            session = self.open_session
            made["formats"] = [n for n, box in self.panel.formats.items() if box.value]
            made["camera"], made["session"] = self.camera(event.client), session
            made["animation"] = session.animation()

        self.guarded(prepare)(event)
        if "animation" in made:
            self._written(event.client, **made)

    def _written(
        self, client: Any, formats: list[str], camera: Camera, session: Session, animation: Any
    ) -> None:
        bar = self.panel.progress
        bar.visible = True
        try:
            with tempfile.TemporaryDirectory(dir=self.uploads.folder) as folder:
                session.export(
                    Path(folder), formats, camera=camera, animation=animation, told=self._told
                )
                name, content = packed(Path(folder), Path(self.shown).stem)
            client.send_file_download(name, content, save_immediately=True)
            self.say(f"{name}, {len(content) / 1e6:.1f} MB, is in your downloads")
        except InputError as error:
            self.fail(str(error))
        finally:
            bar.visible = False

    def _told(self, what: str, done: int, of: int) -> None:
        self.panel.progress.value = 100.0 * done / max(of, 1)
        self.say(f"{what}: {done} of {of}")

    def on_project(self, event: Any) -> None:
        """Send the project."""
        session = self.open_session
        with tempfile.TemporaryDirectory(dir=self.uploads.folder) as folder:
            name = Path(self.shown).stem
            source = session.source
            private = source is not None and source.is_relative_to(self.uploads.folder)
            scene = None if source is None else self.shown if private else str(source.resolve())
            session.save(Path(folder) / f"{name}.json", scene=scene)
            file, content = packed(Path(folder), f"{name}_project")
        event.client.send_file_download(file, content, save_immediately=True)
        self.say(f"{file}: unpack it; newtongs studio {name}.json opens it again")

    def on_lines(self, event: Any) -> None:
        """Show the lines that make the same."""
        recipe = changed(self.open_session.recipe, scene=self.shown)
        blocks = [f"```python\n{recipe.python()}```"]
        if not recipe.kicks:
            blocks.insert(0, f"```bash\n{recipe.command()}\n```")
        self.panel.command.content = "\n\n".join(blocks)


def packed(folder: Path, name: str) -> tuple[str, bytes]:
    """What a folder holds as one file to send: the only file itself, or a zip of them all."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    if len(files) == 1:
        return files[0].name, files[0].read_bytes()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(folder))
    return f"{name}.zip", out.getvalue()


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
        """Listen; ``max_upload`` in megabytes. Where ``host`` is not this machine, with a token."""
        try:
            import viser
        except ImportError as error:
            raise InputError(
                "the studio needs viser; install it with: pip install 'newtongs[studio]'"
            ) from error
        self.uploads, self.guard = Uploads(max_upload), Guard.of(host)
        with self.guard.before_viser(), redirect_stdout(io.StringIO()):  # its address has no token
            self.server = viser.ViserServer(host=host, port=port, label="newtongs", verbose=False)
        if not self.guard.installed:
            self.server.stop()
            raise InputError(f"viser {viser.__version__} cannot be guarded; use viser 1.1.1")
        self.server.gui.configure_theme(show_logo=False, show_share_button=False)
        self.page = Page(self.server, session, self.uploads)

    @property
    def url(self) -> str:
        """To open, with the token if there is one."""
        host = "localhost" if self.guard.host in ("0.0.0.0", "::") else self.guard.host
        query = "" if self.guard.token is None else f"/?token={self.guard.token}"
        return f"http://{host}:{self.server.get_port()}{query}"

    def close(self) -> None:
        """Stop, and remove what was uploaded."""
        self.page.player.close()
        self.server.stop()
        self.uploads.close()


def opened_session(word: str) -> Session | None:
    """What the command line names: nothing, a project, a file or one of our scenes."""
    if not word:
        return None
    if word.endswith(".json") and not word.endswith("meta.json"):
        return Session.load(word)
    return Session(Recipe(word))
