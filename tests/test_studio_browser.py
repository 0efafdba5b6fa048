"""The studio in a real browser: opened, clicked, pulled, played, kicked, taken home.

Only where it is asked for, see studio_tabs.py. One walk through the studio, then what it showed.
"""

import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from studio_tabs import FOUND, MISSING, Browser, wait

pytest.importorskip("viser", reason="needs viser: pip install 'newtongs[studio]'")

from animated_glb import read_glb

from newtongs.base.state import State
from newtongs.exports import load_animation
from newtongs.formats import save
from newtongs.pipeline.bodies import TOSS
from newtongs.scene.cameras import look_at
from newtongs.studio import Session
from newtongs.studio.overlays import ARROW, COARSE, EXACT, HANDLE
from newtongs.studio.server import Studio
from newtongs.studio.view import FIELD

PAGE_SIZE = 1100, 560
FRAME = 3  # number of its slider, after mass, restitution and friction
PULL = -1.5  # units a second that the arrow is pulled to the left

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FOUND, reason=MISSING)]


class Walk:
    """A studio with tabs, and what was seen in them."""

    def __init__(self, folder, session):
        self.folder, self.studio = folder, Studio(session, port=0)
        self.page, self.browser = self.studio.page, Browser()
        self.tab = self.browser.tab(self.studio.url, PAGE_SIZE)
        self.pictures, self.seen = {}, SimpleNamespace()

    @property
    def camera(self):
        """As new pages look."""
        first = self.studio.server.initial_camera
        return look_at(
            first.position.tolist(), first.look_at.tolist(), width=PAGE_SIZE[0],
            height=PAGE_SIZE[1], fov=float(np.degrees(FIELD)),
        )  # fmt: skip

    def pixel(self, point):
        return self.camera.project(torch.as_tensor(point, dtype=torch.float32))[0].tolist()

    def pixel_now(self, point):
        """The same from where the tab looks now: a pointer that misses a handle turns the view."""
        (tab,) = self.studio.server.get_clients().values()
        place = tab.camera.position.tolist(), tab.camera.look_at.tolist()
        now = look_at(
            *place, width=PAGE_SIZE[0], height=PAGE_SIZE[1], fov=float(np.degrees(tab.camera.fov))
        )
        return now.project(torch.as_tensor(point, dtype=torch.float32))[0].tolist()

    def says(self, words):
        wait(lambda: words in self.page.panel.message.content)

    def shoot(self, name):
        self.pictures[name] = self.tab.picture(self.folder / f"{name}.png")

    def handle(self, by=0.0):
        """Pixel of the arrow's handle along x, pulled ``by`` units a second."""
        along = torch.tensor([0.8 * HANDLE + ARROW * by, 0, 0], dtype=torch.float64)
        return self.pixel(torch.as_tensor(self.page.overlays.pull.position) + along)

    def close(self):
        self.browser.close()
        self.studio.close()


def open_and_pick(walk):
    walk.says("Gaussians;")
    walk.tab.until(words="Gaussians;")
    walk.shoot("opened")
    session = walk.page.session
    walk.middle = session.world.to_physics(session.scene.object(0).means.double().mean(0))
    x, y = walk.pixel(walk.middle)
    walk.tab.click(x=x, y=y)
    walk.says("Gaussians move")
    walk.shoot("picked")


def pull(walk):
    """The colours of the path are looked at all the while."""
    seen, page = walk.seen, walk.page
    seen.path = page.overlays.lines["path"].points.copy()
    colors, drawn = set(), page.overlays.draw

    def spy(name, points, color, thickness):
        if name == "path":
            colors.add(color)
        drawn(name, points, color, thickness)

    page.overlays.draw = spy
    walk.tab.pull(walk.handle(), walk.handle(PULL))
    wait(lambda: page.session.recipe.pushes[0].velocity[0] < TOSS[0][0] - 0.5)
    wait(lambda: EXACT in colors)
    page.overlays.draw, seen.colors = drawn, colors
    walk.says("Gaussians move")
    seen.pulled, seen.velocity = page.overlays.lines["path"].points.copy(), page.session.recipe
    walk.shoot("pulled")


def play(walk):
    page = walk.page
    walk.tab.press(name="Play")
    wait(lambda: page.panel.frame.value > 8)
    walk.tab.press(name="Pause")
    walk.says("paused at frame")
    walk.seen.paused = int(page.panel.frame.value)
    walk.shoot("played")
    walk.tab.slide(slider=FRAME, key="ArrowRight")
    wait(lambda: page.panel.frame.value == walk.seen.paused + 1)
    wait(lambda: page.playing.clock * page.session.recipe.fps > walk.seen.paused + 0.5)
    with page.lock:  # when it has been shown, too
        walk.seen.scrubbed = page.view.objects[0].frame.position.copy()


def kick(walk):
    page = walk.page
    walk.tab.press(name="Reset")
    walk.says("frame 0")
    page.session.push(0, velocity=(0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0))
    page.refresh(0)
    walk.tab.press(name="Live")
    wait(lambda: page.session.live.simulation.asleep.all())  # else it is gone before the click
    walk.seen.rest = State(page.session.now[0]).p.clone()
    x, y = walk.pixel_now(walk.seen.rest)
    for _ in range(6):  # the first may go to a handle that a slow browser has not yet hidden
        walk.tab.click(x=x, y=y)
        end = time.monotonic() + 15
        while not page.session.live.kicks and time.monotonic() < end:
            time.sleep(0.1)
        if page.session.live.kicks:
            break
    wait(lambda: page.session.live.kicks, 1)
    kicked = page.session.time
    wait(lambda: page.session.time > kicked + 0.3)
    walk.tab.press(name="Stop")
    wait(lambda: page.playing.player.mode == "still")
    walk.seen.live = State(page.session.now[0]).p.clone()
    walk.shoot("kicked")
    walk.seen.live_at = walk.pixel_now(walk.seen.live)
    walk.tab.press(name="Keep the live run")
    walk.says("kept")


def take_home(walk):
    walk.tab.unfold(name="Export")
    walk.shoot("unfolded")
    walk.seen.file = walk.tab.download(name="Export and download", folder=str(walk.folder))
    walk.says("is in your downloads")
    walk.seen.project = walk.tab.download(name="Download the project", folder=str(walk.folder))
    walk.tab.press(name="Show command and Python")
    walk.tab.until(words="Session(recipe).animation()")
    walk.seen.recipe = walk.page.session.recipe
    walk.seen.states = walk.page.session.states().clone()


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    made = Walk(tmp_path_factory.mktemp("studio"), Session("sunny_park"))
    for step in (open_and_pick, pull, play, kick, take_home):
        step(made)
    yield made
    made.close()


def near(picture, at, radius=8):
    x, y = (round(v) for v in at)
    return picture[y - radius : y + radius, x - radius : x + radius]


def apart(a, b, at):
    return float(np.abs(near(a, at) - near(b, at)).mean())


def test_nothing_failed(walk):
    assert walk.browser.do("errors") == []


def test_a_click_tints_the_object(walk):
    at = walk.pixel(walk.middle)
    change = near(walk.pictures["picked"], at) - near(walk.pictures["opened"], at)
    red, _, blue = change.mean((0, 1))
    assert red - blue > 20  # towards orange


def test_the_scenery_did_not_change_by_it(walk):
    low, high = np.array([40, 200]), np.array([240, 500])  # left of the object and of the panel
    a, b = (walk.pictures[n][low[1] : high[1], low[0] : high[0]] for n in ("opened", "picked"))
    assert np.abs(a - b).mean() < 1


def test_pulling_the_arrow_changes_velocity_and_path(walk):
    wanted = (TOSS[0][0] + PULL, *TOSS[0][1:])
    assert walk.seen.velocity.pushes[0].velocity == pytest.approx(wanted, abs=0.25)
    assert COARSE in walk.seen.colors  # while it was pulled
    assert EXACT in walk.seen.colors  # and when it was let go
    assert walk.seen.pulled[-1, 1, 0] < walk.seen.path[-1, 1, 0] - 0.5  # farther to the left
    assert np.abs(walk.pictures["pulled"] - walk.pictures["picked"]).max() > 60


def test_it_is_where_the_simulation_says(walk):
    states = Session(walk.seen.velocity).states()
    there = walk.pixel(State(states[walk.seen.paused, 0]).p)
    opened, played = walk.pictures["opened"], walk.pictures["played"]
    assert apart(played, opened, walk.pixel(walk.middle)) > 25  # it has left
    assert apart(played, opened, there) > 25  # and is there
    scrubbed = State(states[walk.seen.paused + 1, 0]).p.double().numpy()
    assert np.array_equal(walk.seen.scrubbed, scrubbed)


def test_a_kick_drives_it_along_the_view(walk):
    x = walk.seen.live
    assert x[2] < walk.seen.rest[2] - 0.05
    ball = near(walk.pictures["kicked"], walk.seen.live_at)
    assert np.ptp(ball, axis=-1).mean() < 40  # black and white, where all around is green
    assert walk.seen.recipe.kicks


def test_the_downloads_are_the_animation(walk):
    shutil.unpack_archive(walk.folder / walk.seen.file, walk.folder / "got")
    got = walk.folder / "got"
    assert sorted(p.name for p in got.iterdir()) == ["sunny_park.glb", "sunny_park.html"]
    assert read_glb(got / "sunny_park.glb") is not None
    shutil.unpack_archive(walk.folder / walk.seen.project, walk.folder / "project")
    json = walk.folder / "project" / "sunny_park.json"
    assert Session.load(json).recipe == walk.seen.recipe
    assert torch.equal(Session.load(json).states(), walk.seen.states)
    assert len(load_animation(json)) == len(walk.seen.states)


def test_an_upload_is_opened_and_a_rectangle_picks_in_it(walk):
    page, tab = walk.page, walk.tab
    scene = page.session.scene
    plain = scene.replace(ids=torch.full_like(scene.ids, -1))
    save(plain, walk.folder / "park.ply")
    tab.unfold(name="Scene")
    time.sleep(1)
    tab.upload(name="Open a file ...", file=str(walk.folder / "park.ply"))
    wait(lambda: page.shown == "park.ply" and "Gaussians;" in page.panel.message.content)
    session = page.session
    found = session.world.to_physics(session.scene.means[session.clusters[0].mask].double())
    corners = [walk.pixel(x) for x in found]
    low, high = np.min(corners, 0) - 30, np.max(corners, 0) + 30
    tab.press(name="Draw a rectangle")
    walk.says("draw a rectangle")
    tab.pull(low.tolist(), high.tolist(), before=500)
    wait(lambda: page.session.recipe.pushes)
    assert "cluster:0" in [push.select for push in page.session.recipe.pushes]


def test_a_project_that_is_uploaded_opens(walk):
    json = walk.folder / "project" / "sunny_park.json"
    walk.tab.upload(name="Open a file ...", file=str(json))
    wait(lambda: walk.page.shown == "sunny_park")
    assert walk.page.session.recipe == walk.seen.recipe


def test_two_tabs_that_pull_at_once_corrupt_nothing(walk):
    page = walk.page
    with page.lock:  # the upload of the test before may still be on its way
        page.open(Session("sunny_park", source=page.session.source), "sunny_park")
        page.picking.add("id:0")
    other = walk.browser.tab(walk.studio.url, PAGE_SIZE, "other")
    other.until(words="object 0")
    for tab in (walk.tab, other):
        tab.picture(walk.folder / "ready.png")
    start = walk.handle()
    jobs = [tab.pulling(start, walk.handle(by)) for tab, by in ((walk.tab, -2.0), (other, 2.0))]
    walk.browser.do("together", jobs=jobs)
    wait(lambda: not page.overlays.held and page.session.recipe.pushes[0].velocity != TOSS[0])
    time.sleep(2)
    with page.lock:
        (push,) = page.session.recipe.pushes
        assert all(np.isfinite(push.velocity))
        states = page.session.states()
    assert torch.equal(states, Session(page.session.recipe).states())
    pictures = [tab.picture(walk.folder / f"{tab.name}.png") for tab in (walk.tab, other)]
    assert apart(*pictures, walk.pixel(walk.middle)) < 5  # both see the same
    playing = page.panel.play
    other.press(name="Play")
    wait(lambda: page.playing.player.mode == "play")
    other.close()
    wait(lambda: page.playing.player.mode == "still")  # its playing goes with it
    assert playing.label == "Play"
    walk.tab.press(name="Reset")
    walk.says("frame 0")
    assert walk.browser.do("errors") == []
