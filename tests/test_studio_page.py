"""What the page does when something is clicked or pressed, without a browser."""

import asyncio
import io
import time
import zipfile

import numpy as np
import pytest
import torch

pytest.importorskip("viser", reason="needs viser: pip install 'newtongs[studio]'")

from newtongs.errors import InputError
from newtongs.scene import GaussianScene
from newtongs.state import State
from newtongs.studio import Recipe, Session
from newtongs.studio.nodes import box_lines, parts, splats
from newtongs.studio.opening import opened_session
from newtongs.studio.server import Studio


class Camera:
    position, wxyz, fov, aspect = (0.0, 1.0, 4.0), (0.0, 1.0, 0.0, 0.0), 0.9, 1.5


class Client:
    """A tab that keeps what is sent to it."""

    def __init__(self):
        self.camera, self.files = Camera(), {}

    def send_file_download(self, name, content, save_immediately=False):
        self.files[name] = content


class Event:
    def __init__(self, client, origin=(0, 0, 0), direction=(0, 0, 1)):
        self.client, self.ray_origin, self.ray_direction = client, origin, direction


@pytest.fixture(scope="module")
def studio():
    made = Studio(Session(Recipe("sunny_park", seconds=0.5)), port=0)
    yield made
    made.close()


@pytest.fixture
def page(studio):
    page = studio.page
    page.open(Session(Recipe("sunny_park", seconds=0.5), place=page.session.place), "sunny_park")
    return page


def all_buffers(page):
    """Which arrays the nodes hold: a new one would have been sent."""
    nodes = [node for one in page.view.objects for node in one.nodes]
    nodes += [block.node for block in page.view.rest.blocks]
    return [id(node._impl.props.buffer) for node in nodes]


def at_object(page):
    middle = page.session.world.to_physics(page.session.scene.object(0).means.double().mean(0))
    eye = middle + torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64)
    return Event(Client(), eye.tolist(), (middle - eye).tolist())


def wait(what, seconds=30):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    assert what()


def test_a_click_picks_and_draws_an_object_of_its_own(page):
    page.guarded(page.picking.on_click)(at_object(page))
    assert [p.select for p in page.session.recipe.pushes] == ["id:0"]
    assert page.selected == 0
    assert "Gaussians move" in page.panel.said.content
    assert page.view.objects[0].tinted.visible
    assert not page.view.objects[0].plain.visible
    assert {"arrow", "spin", "path"} <= page.aids.lines.keys()


def test_a_click_beside_it_is_a_red_line(page):
    page.guarded(page.picking.on_click)(Event(Client(), (2.0, 3.0, 2.0), (0, -1, 0)))
    assert "#d33" in page.panel.said.content
    assert page.session.recipe.pushes == ()


def test_what_the_page_sets_itself_is_no_wish(page):
    page.picking.add("id:0")
    before = page.session.recipe
    page.panel.mass.value = 5.0  # without a client: as the page does
    assert page.session.recipe == before


def test_only_poses_change_while_it_plays(page):
    page.picking.add("id:0")
    buffers = all_buffers(page)
    start = page.view.objects[0].plain.position.copy()
    page.playing.on_play(None)
    wait(lambda: page.panel.frame.value > 3)
    page.playing.on_play(None)
    assert page.playing.player.mode == "still"
    node, index = page.view.objects[0].plain, int(page.panel.frame.value)
    there = State(page.session.states()[index, 0]).p.double().numpy()
    assert np.array_equal(node.position, there)
    assert not np.array_equal(start, there)
    assert all_buffers(page) == buffers
    page.playing.on_reset(None)
    assert np.array_equal(page.view.objects[0].plain.position, start)


def test_a_click_kicks_while_it_is_live_and_the_run_can_be_kept(page):
    event = at_object(page)
    page.picking.add("id:0")
    page.session.push(0, velocity=(0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0))
    page.refresh(0)
    page.playing.on_live(None)
    wait(lambda: page.session.time > 0.1)
    page.guarded(page.picking.on_click)(event)
    assert "kicked object 0" in page.panel.said.content
    before = page.session.time
    wait(lambda: page.session.time > before + 0.2)
    page.guarded(page.playing.on_keep)(event)
    assert len(page.session.recipe.kicks) == 1
    assert page.playing.player.mode == "still"
    last = page.session.states()[-1, 0]
    assert State(last).p[2] < State(page.session.states()[0, 0]).p[2] - 0.05  # along the view


def test_pulling_the_handle_draws_and_chooses(page):
    page.picking.add("id:0")
    at = State(page.session.ready.bodies[0].z0).p.double().numpy()
    page.aids.pull.position = at + np.array([0.5, 0.25, 0.0])

    class Pull(Event):
        phase = "end"

    asyncio.run(page.pushing.on_arrow(Pull(Client())))
    wait(lambda: page.session.recipe.pushes[0].velocity[0] > 1.9)
    assert page.session.recipe.pushes[0].velocity == pytest.approx((2.0, 1.0, 0.0), abs=2e-3)


def test_a_motion_that_cannot_be_is_undone(page):
    page.picking.add("id:0")
    page.panel.loose.value = True
    page.guarded(page.pushing.on_options)(Event(Client()))
    assert "#d33" in page.panel.said.content  # nothing else is loose in the park
    assert not page.session.recipe.loose
    assert page.panel.loose.value is False


def test_export_sends_files_and_the_project_opens_again(page, tmp_path):
    page.picking.add("id:0")
    client = Client()
    for name, box in page.panel.formats.items():
        box.value = name in ("glb", "ply")
    page.taking.on_export(Event(client))
    names = zipfile.ZipFile(io.BytesIO(client.files["sunny_park.zip"])).namelist()
    assert "sunny_park.glb" in names
    assert len([n for n in names if n.endswith(".ply")]) == 16
    page.guarded(page.taking.on_project)(Event(client))
    zipfile.ZipFile(io.BytesIO(client.files["sunny_park_project.zip"])).extractall(tmp_path)
    again = opened_session(str(tmp_path / "sunny_park.json"))
    assert torch.equal(again.states(), page.session.states())
    assert not list(page.uploads.folder.iterdir())


def test_an_uploaded_file_is_shown_under_its_name(page, studio, tmp_path):
    from newtongs.scene import save

    scene = page.session.scene
    save(scene, tmp_path / "park.ply")
    upload = page.panel.upload
    upload._impl.value = type(upload.value)("../park.ply", (tmp_path / "park.ply").read_bytes())
    page.guarded(page.opening.on_upload)(Event(Client()))
    assert page.shown == "park.ply"
    assert len(page.session.scene) == len(scene)
    page.picking.add("cluster:0")
    page.guarded(page.taking.on_lines)(Event(Client()))
    assert "newtongs animate park.ply" in page.panel.command.content
    assert "upload_" not in page.panel.command.content
    client = Client()
    page.guarded(page.taking.on_project)(Event(client))
    zipfile.ZipFile(io.BytesIO(client.files["park_project.zip"])).extractall(tmp_path)
    assert torch.equal(opened_session(str(tmp_path / "park.json")).states(), page.session.states())


def test_lines_without_an_object_say_what_to_do(page):
    page.guarded(page.taking.on_lines)(Event(Client()))
    assert "click one first" in page.panel.said.content


def test_float16_holds_every_shape():
    """Needles and giants, in a scene of any scale."""
    for size in (1e-4, 1.0, 1e4):
        scales = size * torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.01, 0.01], [30.0, 30.0, 0.1]])
        scene = GaussianScene.make(means=size * torch.rand(3, 3), scales=scales)
        made = splats(scene, torch.zeros(3, dtype=torch.float64))
        kept = made.covariances.astype(np.float16).astype(float)[:, [0, 1, 2], [0, 1, 2]] ** 0.5
        assert kept * made.unit == pytest.approx(scales.numpy(), rel=0.01)
        assert made.centers * made.unit == pytest.approx(scene.means.numpy(), rel=1e-5)


def test_parts_hold_every_gaussian_once(page):
    page.picking.add("id:0")
    ready = page.session.ready
    cut = parts(ready.stage, ready.rows)
    still = cut.rest, cut.more, cut.first, cut.later
    together = torch.stack([*still, *cut.objects, *cut.later_of_objects])
    assert (together.sum(0) == 1).all()


def test_a_box_has_twelve_edges():
    lines = box_lines(np.array([[[0.0, 0, 0], [1, 2, 3]]]))
    assert lines.shape == (12, 2, 3)
    assert sorted(np.abs(lines[:, 0] - lines[:, 1]).sum(-1).tolist()) == [1] * 4 + [2] * 4 + [3] * 4


def test_words_of_the_command_line():
    assert opened_session("") is None
    with pytest.raises(InputError, match="no_such"):
        opened_session("no_such")
