"""What the page does when something is clicked or pressed, without a browser."""

import asyncio
import io
import json
import time
import zipfile

import numpy as np
import pytest
import torch

pytest.importorskip("viser", reason="needs viser: pip install 'newtongs[studio]'")

from newtongs.base.errors import InputError
from newtongs.base.state import State
from newtongs.scene import GaussianScene
from newtongs.studio import Recipe, Session
from newtongs.studio.blocks import Rest
from newtongs.studio.nodes import box_lines, parts, splats
from newtongs.studio.opening import (
    opened_session,
    recent_files,
    recent_labels,
)
from newtongs.studio.overlays import RING
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
    made.park = made.page.session.source
    yield made
    made.close()


@pytest.fixture
def page(studio):
    page = studio.page
    page.open(Session(Recipe("sunny_park", seconds=0.5), source=studio.park), "sunny_park")
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
    assert "Gaussians move" in page.panel.message.content
    assert page.view.objects[0].tinted.visible
    assert not page.view.objects[0].plain.visible
    assert {"arrow", "spin", "path"} <= page.overlays.lines.keys()


def test_a_click_beside_it_is_a_red_line(page):
    page.guarded(page.picking.on_click)(Event(Client(), (2.0, 3.0, 2.0), (0, -1, 0)))
    assert "#d33" in page.panel.message.content
    assert page.session.recipe.pushes == ()


def test_what_the_page_sets_itself_is_no_wish(page):
    page.picking.add("id:0")
    before = page.session.recipe
    page.panel.mass.value = 5.0  # without a client: as the page does
    assert page.session.recipe == before


@pytest.mark.slow
def test_only_poses_change_while_it_plays(page):
    page.picking.add("id:0")
    buffers = all_buffers(page)
    start = page.view.objects[0].frame.position.copy()
    page.playing.on_play(None)
    wait(lambda: page.panel.frame.value > 3)
    page.playing.on_play(None)
    assert page.playing.player.mode == "still"
    node, index = page.view.objects[0].frame, int(page.panel.frame.value)
    there = State(page.session.states()[index, 0]).p.double().numpy()
    assert np.array_equal(node.position, there)
    assert not np.array_equal(start, there)
    assert all_buffers(page) == buffers
    page.playing.on_reset(None)
    assert np.array_equal(page.view.objects[0].frame.position, start)


@pytest.mark.slow
def test_a_click_kicks_while_it_is_live_and_the_run_can_be_kept(page):
    event = at_object(page)
    page.picking.add("id:0")
    page.session.push(0, velocity=(0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0))
    page.refresh(0)
    page.playing.on_live(None)
    wait(lambda: page.session.time > 0.1)
    page.guarded(page.picking.on_click)(event)
    assert "kicked object 0" in page.panel.message.content
    before = page.session.time
    wait(lambda: page.session.time > before + 0.2)
    page.guarded(page.playing.on_keep)(event)
    assert len(page.session.recipe.kicks) == 1
    assert page.playing.player.mode == "still"
    last = page.session.states()[-1, 0]
    assert State(last).p[2] < State(page.session.states()[0, 0]).p[2] - 0.05  # along the view


def test_pulling_the_handle_draws_and_chooses(page):
    page.picking.add("id:0")
    at = State(page.session.setup.bodies[0].z0).p.double().numpy()
    page.overlays.pull.position = at + np.array([0.5, 0.25, 0.0])

    class Pull(Event):
        phase = "end"

    asyncio.run(page.push_panel.on_arrow(Pull(Client())))
    wait(lambda: page.session.recipe.pushes[0].velocity[0] > 1.9)
    assert page.session.recipe.pushes[0].velocity == pytest.approx((2.0, 1.0, 0.0), abs=2e-3)


def test_a_motion_that_cannot_be_is_undone(page):
    page.picking.add("id:0")
    page.panel.loose.value = True
    page.guarded(page.push_panel.on_options)(Event(Client()))
    assert "#d33" in page.panel.message.content  # there is no other object in the park
    assert not page.session.recipe.loose
    assert page.panel.loose.value is False


@pytest.mark.slow
def test_export_sends_files_and_the_project_opens_again(page, tmp_path):
    page.picking.add("id:0")
    client = Client()
    for name, box in page.panel.formats.items():
        box.value = name in ("glb", "ply")
    page.export_panel.on_export(Event(client))
    names = zipfile.ZipFile(io.BytesIO(client.files["sunny_park.zip"])).namelist()
    assert "sunny_park.glb" in names
    assert len([n for n in names if n.endswith(".ply")]) == 16
    page.guarded(page.export_panel.on_project)(Event(client))
    zipfile.ZipFile(io.BytesIO(client.files["sunny_park_project.zip"])).extractall(tmp_path)
    again = opened_session(str(tmp_path / "sunny_park.json"))
    assert torch.equal(again.states(), page.session.states())
    assert not list(page.uploads.folder.iterdir())


@pytest.mark.slow
def test_an_uploaded_file_is_shown_under_its_name(page, studio, tmp_path):
    from newtongs.formats import save

    scene = page.session.scene
    save(scene, tmp_path / "park.ply")
    upload = page.panel.upload
    upload._impl.value = type(upload.value)("../park.ply", (tmp_path / "park.ply").read_bytes())
    page.guarded(page.opening.on_upload)(Event(Client()))
    assert page.shown == "park.ply"
    assert len(page.session.scene) == len(scene)
    page.picking.add("cluster:0")
    page.guarded(page.export_panel.on_lines)(Event(Client()))
    assert "newtongs animate park.ply" in page.panel.command.content
    assert "upload_" not in page.panel.command.content
    client = Client()
    page.guarded(page.export_panel.on_project)(Event(client))
    zipfile.ZipFile(io.BytesIO(client.files["park_project.zip"])).extractall(tmp_path)
    assert torch.equal(opened_session(str(tmp_path / "park.json")).states(), page.session.states())


def test_lines_without_an_object_say_what_to_do(page):
    page.guarded(page.export_panel.on_lines)(Event(Client()))
    assert "click one first" in page.panel.message.content


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
    cut = parts(page.session.setup.layout)
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


# --- what is sent ---------------------------------------------------------------------------------


def alphas(rest):
    """Opacity of every Gaussian of the scene as the nodes have it ``(N,)``."""
    out = np.zeros(len(rest.scene), np.uint32)
    for block in rest.blocks:
        out[block.rows.numpy()] = block.node.buffer[:, 7] >> 24
    return out


def test_a_pick_hides_its_gaussians_in_the_rest_and_a_drop_shows_them_again(page):
    before = [block.node.buffer.copy() for block in page.view.rest.blocks]
    seen = alphas(page.view.rest)
    page.picking.add("id:0")
    gone = page.session.scene.ids.numpy() == 0
    assert not alphas(page.view.rest)[gone].any()
    assert np.array_equal(alphas(page.view.rest)[~gone], seen[~gone])
    page.panel.deselect.value = "Deselect"
    page.guarded(page.picking.on_deselect)(Event(Client()))
    after = [block.node.buffer for block in page.view.rest.blocks]
    assert all(map(np.array_equal, before, after))
    assert page.view.objects == []


def test_only_touched_blocks_are_sent(page):
    n = 60_000
    random = torch.Generator().manual_seed(0)
    scene = GaussianScene.make(means=torch.rand(n, 3, generator=random), scales=[0.01] * n)
    rest = Rest(page.server.scene, scene, [], "/another")
    assert sorted(torch.cat([b.rows for b in rest.blocks]).tolist()) == list(range(n))
    corner = (scene.means < 0.2).all(-1)
    assert rest.paint(hidden=corner) < len(rest.blocks) / 2
    assert np.array_equal(alphas(rest) == 0, corner.numpy())
    assert rest.paint(hidden=corner) == 0
    assert rest.paint(hidden=corner, tinted=~corner) == len(rest.blocks)
    rest.paint()
    assert alphas(rest).all()
    rest.remove()


@pytest.mark.slow
def test_a_second_object_leaves_the_first_ones_nodes_alone(page):
    session = Session(Recipe("kitchen_table", seconds=0.2))
    page.open(session, "kitchen_table")
    first, second = [i for i in session.scene.object_ids if i >= 0][:2]
    page.picking.add(f"id:{first}")
    node = page.view.objects[0].plain
    page.picking.add(f"id:{second}")
    assert page.view.objects[0].plain is node
    assert len(page.view.objects) == 2


# --- floor, ring, selections ----------------------------------------------------------------------


def press(page, control, value, do):
    control.value = value
    page.guarded(do)(Event(Client()))


def down(x, z):
    return Event(Client(), (x, 3.0, z), (0.0, -1.0, 0.0))


def test_three_clicks_set_the_floor(page):
    page.guarded(page.floor_panel.on_three)(Event(Client()))
    for k, (x, z) in enumerate([(2.0, 2.0), (-2.0, 2.0), (0.4, 0.9)]):
        assert len(page.floor_panel.marked) == k
        page.guarded(page.picking.on_click)(down(x, z))
    assert "#d33" not in page.panel.message.content
    assert page.session.recipe.up == pytest.approx((0, 1, 0), abs=0.05)
    assert abs(page.session.recipe.floor) < 0.1
    assert not page.floor_panel.waiting
    assert "mark_0" not in page.overlays.lines


def test_clicks_on_a_line_are_refused_and_the_floor_stays(page):
    page.guarded(page.floor_panel.on_three)(Event(Client()))
    for x in (2.0, 1.5, 1.0):
        page.guarded(page.picking.on_click)(down(x, 2.0))
    assert "on a line" in page.panel.message.content
    assert page.session.recipe.floor is None


def test_the_floor_is_pulled_by_its_handles(page):
    press(page, page.panel.move_floor, True, page.floor_panel.on_shown)
    assert page.overlays.ground.visible
    assert page.overlays.lines["floor"].visible
    scale = page.session.world.scale
    page.overlays.ground.position = (0.0, -0.1, 0.0)

    class Pull(Event):
        phase = "end"

    asyncio.run(page.floor_panel.on_handle(Pull(Client())))
    wait(lambda: page.session.recipe.floor is not None)
    assert page.session.recipe.floor == pytest.approx(-0.1 / scale, abs=1e-4)
    assert page.session.recipe.up == (0.0, 1.0, 0.0)
    wait(lambda: tuple(page.overlays.ground.position)[1] == 0)  # where the floor is now
    press(page, page.panel.move_floor, False, page.floor_panel.on_shown)


def test_turning_the_ring_adds_spin(page):
    page.picking.add("id:0")
    page.panel.handles.value = "ring"
    page.refresh(0)
    assert page.overlays.ring.visible
    assert not page.overlays.pull.visible
    before = np.array(page.session.recipe.pushes[0].spin)
    page.overlays.ring.wxyz = (np.cos(0.2), 0.0, np.sin(0.2), 0.0)  # 0.4 rad about y

    class Turn(Event):
        phase = "end"

    asyncio.run(page.push_panel.on_ring(Turn(Client())))
    wait(lambda: page.session.recipe.pushes[0].spin != tuple(before))
    gained = np.array(page.session.recipe.pushes[0].spin) - before
    assert gained == pytest.approx([0, 0.4 / RING, 0], abs=2e-3)
    wait(lambda: tuple(page.overlays.ring.wxyz) == (1, 0, 0, 0))
    page.panel.handles.value = "arrow"


def test_what_is_solid_is_shown_and_moves(page):
    page.picking.add("id:0")
    press(page, page.panel.solids, True, page.floor_panel.on_shown)
    assert {"solids", "shape_0"} <= page.overlays.lines.keys()
    start = page.overlays.lines["shape_0"].position.copy()
    page.panel.frame.value = 5
    page.guarded(page.playing.on_frame)(Event(Client()))
    there = State(page.session.states()[5, 0]).p.double().numpy()
    assert np.array_equal(page.overlays.lines["shape_0"].position, there)
    assert not np.array_equal(start, there)
    press(page, page.panel.solids, False, page.floor_panel.on_shown)
    assert "solids" not in page.overlays.lines


@pytest.mark.slow
def test_grow_shrink_and_undo_buttons(page):
    word = "sphere:0,0.9,0,0.4"  # the cap of the ball
    page.picking.add(word)
    shown = page.view.objects[0].means
    press(page, page.panel.resize, "Grow", page.picking.on_resize)
    grown = page.session.recipe.pushes[0].select
    assert grown.startswith("grown:")
    assert page.session.mask(grown).sum() > page.session.mask(word).sum()
    press(page, page.panel.resize, "Shrink", page.picking.on_resize)
    assert page.session.recipe.pushes[0].select == word
    for wanted in (grown, word):
        press(page, page.panel.deselect, "Undo", page.picking.on_deselect)
        assert page.session.recipe.pushes[0].select == wanted
    assert torch.equal(page.view.objects[0].means, shown)


def test_a_shift_click_joins(page):
    session = Session(Recipe("kitchen_table", seconds=0.2))
    page.open(session, "kitchen_table")
    first, second = [i for i in session.scene.object_ids if i >= 0][:2]
    page.picking.add(f"id:{first}")
    x = session.world.to_physics(session.scene.object(second).means.double().mean(0))
    eye = x + torch.tensor([0.0, 2.5, 0.3], dtype=torch.float64)
    page.guarded(page.picking.on_shift_click)(Event(Client(), eye.tolist(), (x - eye).tolist()))
    assert page.session.recipe.pushes[0].select == f"id:{first}+{second}"
    assert len(page.session.recipe.pushes) == 1


def test_no_folder_is_read_for_the_browser(page):
    press(page, page.panel.selector, "grown:1:masks:/etc", page.picking.on_add)
    assert "read from a folder" in page.panel.message.content


# --- files ----------------------------------------------------------------------------------------


def upload(page, name, content):
    page.panel.upload._impl.value = type(page.panel.upload.value)(name, content)
    page.guarded(page.opening.on_upload)(Event(Client()))


def test_recent_files_are_offered_by_name_and_opened_by_number(page, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    from newtongs.formats import save

    save(page.session.scene, tmp_path / "park.ply")
    assert recent_files() == []
    assert opened_session(str(tmp_path / "park.ply")).recipe.scene == str(tmp_path / "park.ply")
    assert recent_files() == [tmp_path / "park.ply"]
    page.recent = recent_labels(recent_files())
    (label,) = page.recent
    assert str(tmp_path) not in label
    page.panel.recent.options = ("(none)", label)
    for wrong in (str(tmp_path / "park.ply"), "/etc/passwd"):
        page.panel.recent._impl.value = wrong
        page.guarded(page.opening.on_recent)(Event(Client()))
        assert page.shown == "sunny_park"
    page.panel.recent._impl.value = label
    page.guarded(page.opening.on_recent)(Event(Client()))
    assert page.shown == str(tmp_path / "park.ply")
    (tmp_path / "state" / "newtongs" / "recent.json").write_text('{"not": "a list"')
    assert recent_files() == []


@pytest.mark.slow
def test_an_uploaded_project_opens_with_the_scene_that_is_open(page, tmp_path):
    page.picking.add("id:0")
    page.session.push(0, velocity=(0.5, 1.0, 0.0))
    page.session.save(tmp_path / "it.json")
    recipe = page.session.recipe
    page.open(Session(Recipe("sunny_park"), source=page.session.source), "sunny_park")
    upload(page, "it.json", (tmp_path / "it.json").read_bytes())
    assert page.session.recipe == recipe


@pytest.mark.parametrize("scene", ["/etc/passwd", "../../secret.ply", "C:\\secret.ply"])
def test_a_path_in_an_uploaded_project_is_not_opened(page, tmp_path, scene):
    page.picking.add("id:0")
    page.session.save(tmp_path / "it.json")
    tree = json.loads((tmp_path / "it.json").read_text())
    tree["studio"]["scene"] = scene
    upload(page, "it.json", json.dumps(tree).encode())
    assert "open that file first" in page.panel.message.content
    assert page.shown == "sunny_park"


@pytest.mark.parametrize(
    "content",
    [b"", b"[" * 100_000, b'{"studio": 3}', b'{"studio": {"scene": 7}}', b"\xff\xfe", b"null"],
)
def test_a_hostile_project_is_a_red_line(page, content):
    upload(page, "it.json", content)
    assert "#d33" in page.panel.message.content
    assert "Error:" not in page.panel.message.content
    assert page.shown == "sunny_park"


def test_playing_stops_with_the_tab_that_began_it(page):
    page.picking.add("id:0")

    class Other(Client):
        client_id = 7

    class Mine(Client):
        client_id = 8

    page.playing.on_play(Event(Other()))
    page.server.get_clients = lambda: {8: Mine()}
    try:
        page.playing.on_leave(Mine())
        assert page.playing.player.mode == "play"
        page.playing.on_leave(Other())
        assert page.playing.player.mode == "still"
    finally:
        del page.server.get_clients
