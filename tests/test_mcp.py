"""The server for assistants, with the SDK's own client: in process, over stdio and over HTTP."""

import base64
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mcp", reason="the SDK is in the extra mcp")

import anyio
import imageio.v3 as iio
import psutil
import torch
from mcp import Client, StdioServerParameters

import newtongs
from newtongs.assistant.desk import FRAME, LONGEST, Desk
from newtongs.assistant.folders import Folders
from newtongs.assistant.server import make_server
from newtongs.base.errors import InputError
from newtongs.cli import main
from newtongs.cli.push_text import parse_push
from newtongs.formats import save
from newtongs.samples import named_scene
from newtongs.studio import Recipe, Session

SCENE = "living_room_table"  # 4,736 Gaussians, one marked object
SOURCE = Path(newtongs.__file__).parent.parent


@pytest.fixture
def folder(tmp_path):
    """What the assistant may use, beside what it may not."""
    inside = tmp_path / "inside"
    inside.mkdir()
    save(named_scene(SCENE).scene(), inside / "room.ply")
    (tmp_path / "outside").mkdir()
    save(named_scene(SCENE).scene(), tmp_path / "outside" / "secret.ply")
    return inside


def talk(server, *calls):
    """The results of calls ``(tool, arguments)``, one after the other."""
    out = []

    async def run():
        async with Client(server) as client:
            for name, given in calls:
                out.append(await client.call_tool(name, given))

    anyio.run(run)
    return out


def said(result):
    return "\n".join(x.text for x in result.content if x.type == "text")


def refused(result):
    """The error of a call; anything but one line fails."""
    assert result.is_error, said(result)
    line = said(result)
    assert "\n" not in line
    assert "Traceback" not in line
    return line


def picture(result):
    """The first picture ``(H, W, 3)`` of a result; all must be png."""
    shown = [x for x in result.content if x.type == "image"]
    pictures = [base64.b64decode(x.data) for x in shown]
    assert {x.mime_type for x in shown} == {"image/png"}
    assert all(data.startswith(b"\x89PNG\r\n") for data in pictures)
    return iio.imread(pictures[0])


def command(*words):
    """How a client starts the server, with these sources."""
    return StdioServerParameters(
        command=sys.executable, args=["-m", "newtongs", "mcp", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )  # fmt: skip


# --- what the tools do ----------------------------------------------------------------------------


@pytest.mark.slow
def test_look_numbers_the_things_and_pick_takes_the_number(folder):
    opened, looked, picked, again = talk(
        make_server(Desk(Folders([folder]))),
        ("open", {"scene": SCENE}), ("look", {}),
        ("pick", {"thing": 0}), ("pick", {"thing": "id:0"}),
    )  # fmt: skip
    assert "4,736 Gaussians" in said(opened)
    assert "things found: 1" in said(opened)
    shown = picture(looked)
    assert shown.shape == (720, 960, 3)
    assert len(np.unique(shown.reshape(-1, 3), axis=0)) > 1000
    scene = named_scene(SCENE).scene()
    center = Session(SCENE).world.to_physics(scene.object(0).means.double())
    middle = (center.quantile(0.02, dim=0) + center.quantile(0.98, dim=0)) / 2
    numbers = said(looked).split("centre at (")[1].split(")")[0].split(",")
    assert [float(x) for x in numbers] == pytest.approx(middle.tolist(), abs=2e-3)
    assert said(picked) == said(again)
    assert said(picked).startswith("object 0 is id:0: 1,536 Gaussians")


@pytest.mark.slow
def test_play_shows_frames_and_the_command_makes_the_same_motion(folder):
    *_, pushed, played = talk(
        make_server(Desk(Folders([folder]))),
        ("open", {"scene": "room.ply"}), ("pick", {"thing": "id:0"}),
        ("push", {"velocity": [1.5, 2, 0], "friction": 0.3}), ("play", {"seconds": 1}),
    )  # fmt: skip
    assert "velocity (1.5, 2, 0) m/s, spin (0, 0, 0) rad/s" in said(pushed)
    assert "friction 0.3" in said(pushed)
    sheet = picture(played)
    assert sheet.shape == (2 * FRAME[1] + 4, 4 * FRAME[0] + 12, 3)
    first, last = sheet[: FRAME[1], : FRAME[0]], sheet[-FRAME[1] :, -FRAME[0] :]
    assert np.abs(first.astype(int) - last).max() > 50  # something moved
    words = said(played).split("newtongs animate ")[1].split()
    assert words[0] == str(folder / "room.ply")
    push = said(played).split("--push '")[1].split("'")[0]
    same = newtongs.animate(folder / "room.ply", objects=[parse_push(push)], seconds=1, fps=30)
    end = same.path(0)[-1].tolist()
    told = said(played).split(" to (")[1].split(")")[0].split(",")
    assert [float(x) for x in told] == pytest.approx(end, abs=6e-3)  # three digits


@pytest.mark.slow
def test_play_goes_on_until_everything_rests_unless_a_length_is_given(folder):
    desk = Desk(Folders([folder]))
    desk.open(SCENE)
    desk.pick("0")
    desk.push(0, velocity=[0.0, 0.0, 0.0])
    assert "at rest" in desk.play()[1]
    assert desk.session.recipe.seconds == pytest.approx(2, abs=0.05)
    desk.push(0, velocity=[0.0, 6.0, 0.0])
    text = desk.play()[1]
    assert "at rest" in text
    assert 2 < desk.session.recipe.seconds < 6
    assert "still moving" in desk.play(seconds=0.5)[1]


@pytest.mark.slow
def test_a_goal_is_reached_and_is_then_part_of_the_recipe(folder):
    desk = Desk(Folders([folder]))
    desk.open(SCENE)
    desk.pick("0")
    (text,) = desk.goal("displace 0.4 0 0.2", seconds=1.0)
    missed = float(text.split("misses the goal by ")[1].split(" m")[0])
    assert missed < 0.25
    played = desk.play()[1]
    assert desk.session.recipe.seconds == 1  # the goal's
    path = desk.session.animation().path(0)
    wanted = path[0] + path.new_tensor([0.4, 0, 0.2])
    assert float((path[-1] - wanted).norm()) == pytest.approx(missed, abs=6e-3)
    assert "--goal" not in played
    assert "velocity=" in played


@pytest.mark.slow
def test_aiming_one_object_leaves_the_pushes_of_others(folder):
    session = Session(Recipe("kitchen_table", seconds=0.5))
    session.pick("id:1")
    session.pick("id:3")
    before = session.recipe.pushes
    missed = session.aim(1, "displace 0.2 0 0.1")
    assert session.recipe.pushes[0] == before[0]
    assert session.recipe.pushes[1].velocity != before[1].velocity
    objects = [parse_push(_push(one)) for one in session.recipe.pushes]
    same = newtongs.animate("kitchen_table", objects=objects, seconds=0.5, fps=30)
    own = session.animation()
    assert all(torch.equal(same.states[i], own.states[i]) for i in (0, 1))
    moved = own.path(1)[-1] - own.path(1)[0]
    assert float((moved - moved.new_tensor([0.2, 0, 0.1])).norm()) == pytest.approx(
        missed, rel=1e-6
    )


def _push(one):
    from newtongs.studio.recipe import push_words

    return push_words(one)


@pytest.mark.slow
def test_a_dropped_object_is_part_of_the_scene_again(folder):
    desk = Desk(Folders([folder]))
    desk.open(SCENE)
    desk.pick("0")
    desk.drop(0)
    with pytest.raises(InputError, match="no object is picked"):
        desk.play()


def test_open_without_a_name_lists_scenes_beneath_the_folders(folder):
    (text,) = Desk(Folders([folder])).open()
    assert "room.ply" in text
    assert "secret" not in text
    assert "kitchen_table" in text


# --- wrong input ----------------------------------------------------------------------------------

WRONG = [
    ("open", {"scene": "nothing.ply"}, "no file nothing.ply"),
    ("open", {"scene": "notes.txt"}, "no splat file"),
    ("open", {"scene": "project.json"}, "no splat file"),
    ("open", {"scene": "a\0b.ply"}, "cannot use the path"),
    ("open", {"scene": "x" * 5000}, "no file xxx"),
    ("open", {"scene": "https://example.org/x.ply"}, "is an address"),
    ("open", {"scene": SCENE, "up": [0, 1]}, "at least 3 items"),
    ("open", {"scene": SCENE, "up": [0, 0, 0]}, "up"),
    ("open", {"scene": 7}, "valid string"),
    ("pick", {"thing": 9}, "no thing has the number 9"),
    ("pick", {"thing": ""}, "expected a number"),
    ("pick", {"thing": "masks:/etc"}, "masks"),
    ("pick", {"thing": "grown:0.1:masks:/etc"}, "masks"),
    ("pick", {}, "Field required"),
    ("pick", {"thing": "cluster:x"}, "expected a number"),
    ("push", {"velocity": [1, 2, 3]}, "picked objects"),
    ("push", {"object": 0, "speed": 3}, "unknown argument 'speed'"),
    ("push", {"velocity": "fast"}, "velocity"),
    ("goal", {"goal": "fly away"}, "picked objects"),
    ("play", {}, "no object is picked"),
    ("play", {"seconds": "long"}, "seconds"),
    ("drop", {"object": 0}, "picked objects"),
    ("export", {}, "no object is picked"),
    ("paint", {}, "unknown tool 'paint'"),
    ("pusch", {}, "did you mean push"),
]


@pytest.fixture(scope="module")
def wrong_answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "notes.txt").write_text("hello")
    (folder / "project.json").write_text('{"studio": {"scene": "/etc/passwd"}}')
    calls = [(name, given) for name, given, _ in WRONG]
    return talk(make_server(Desk(Folders([folder]))), ("open", {"scene": SCENE}), *calls)[1:]


@pytest.mark.parametrize("index", range(len(WRONG)), ids=lambda i: f"{WRONG[i][0]} {WRONG[i][2]}")
@pytest.mark.slow
def test_wrong_input_is_one_clear_line(wrong_answers, index):
    assert WRONG[index][2] in refused(wrong_answers[index])


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("push", {"velocity": [1e9, 0, 0]}, "up to 1000"),
        ("push", {"velocity": [1, 2]}, "at least 3 items"),
        ("push", {"object": 3, "velocity": [1, 2, 3]}, "1 picked objects"),
        ("push", {}, "expected a velocity"),
        ("push", {"mass": -1}, "mass"),
        ("goal", {"goal": "fly away"}, "expected 'displace"),
        ("goal", {"goal": "land at 0 0", "seconds": 1e6}, f"up to {LONGEST:g}"),
        ("play", {"seconds": 1000}, f"up to {LONGEST:g}"),
        ("play", {"seconds": 0}, "more than 0"),
        ("export", {"formats": ["exe"]}, "unknown format 'exe'"),
        ("export", {"formats": []}, "no format"),
    ],
)
@pytest.mark.slow
def test_wrong_input_changes_nothing(picked, name, given, why):
    before = picked.session.recipe
    (result,) = talk(make_server(picked), (name, given))
    assert why in refused(result)
    assert picked.session.recipe.pushes == before.pushes


@pytest.fixture(scope="module")
def picked(tmp_path_factory):
    desk = Desk(Folders([tmp_path_factory.mktemp("picked")]))
    desk.open(SCENE)
    desk.pick("0")
    return desk


def test_an_error_of_ours_is_one_line_without_its_text(folder, monkeypatch):
    def broken(self):
        raise ValueError("line one\nsecret line two")

    monkeypatch.setattr(Desk, "look", broken)
    (result,) = talk(make_server(Desk(Folders([folder]))), ("look", {}))
    line = refused(result)
    assert "look failed inside newtongs (ValueError)" in line
    assert "secret" not in line


def test_a_scene_that_cannot_be_opened_leaves_the_open_one(folder):
    (folder / "broken.ply").write_bytes(b"ply\nformat ascii 1.0\nend_header\n")
    desk = Desk(Folders([folder]))
    desk.open(SCENE)
    with pytest.raises(InputError):
        desk.open("broken.ply")
    assert desk.session.recipe.scene == SCENE


# --- folders --------------------------------------------------------------------------------------


def test_reading_does_not_leave_the_folders(folder):
    outside = folder.parent / "outside"
    (folder / "link.ply").symlink_to(outside / "secret.ply")
    (folder / "linked").symlink_to(outside)
    (folder / "circle.ply").symlink_to(folder / "circle.ply")
    own = Folders([folder])
    for name in (
        "../outside/secret.ply", str(outside / "secret.ply"), "link.ply", "linked/secret.ply",
        "sub/../../outside/secret.ply", "/etc/passwd", "..", f"{folder}/../outside/secret.ply",
    ):  # fmt: skip
        with pytest.raises(InputError, match="outside the folders"):
            own.scene(name)
    with pytest.raises(InputError):
        own.scene("circle.ply")
    for name in ("room.ply", "./room.ply", str(folder / "room.ply"), "../inside/room.ply"):
        assert own.scene(name) == (folder / "room.ply").resolve()
    assert own.scenes() == ["room.ply"]


def test_a_folder_may_itself_be_a_link_and_there_may_be_several(folder):
    there = folder.parent / "there"
    there.symlink_to(folder)
    both = Folders([there, folder.parent / "outside"])
    assert both.scene("room.ply") == (folder / "room.ply").resolve()
    assert both.scene("secret.ply").name == "secret.ply"
    assert both.scene(str(there / "room.ply")) == (folder / "room.ply").resolve()


def test_a_scene_of_several_files_may_not_link_to_outside(folder):
    scene = folder / "scene"
    scene.mkdir()
    (scene / "meta.json").write_text("{}")
    own = Folders([folder])
    assert own.scene("scene") == scene.resolve() / "meta.json"
    (scene / "means_l.webp").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="outside the folders"):
        own.scene("scene")
    (scene / "means_l.webp").unlink()
    (scene / "more").symlink_to("/etc")
    with pytest.raises(InputError, match="outside the folders"):
        own.scene("scene/meta.json")


def test_a_scene_larger_than_the_limit_is_refused(folder):
    size = (folder / "room.ply").stat().st_size / 1e6
    assert Folders([folder], most=size * 1.01).scene("room.ply")
    with pytest.raises(InputError, match="--max-file"):
        Folders([folder], most=size * 0.99).scene("room.ply")


@pytest.mark.slow
def test_exports_stay_in_the_folders_and_replace_only_their_own(folder):
    outside = folder.parent / "outside"
    (folder / "linked").symlink_to(outside)
    (folder / "file").write_text("mine")
    desk = Desk(Folders([folder]))
    desk.open("room.ply")
    desk.pick("id:0")
    desk.play(seconds=0.2)
    for name in ("..", "../outside", str(outside), "linked", "linked/new", "/tmp/elsewhere"):
        with pytest.raises(InputError, match="outside the folders"):
            desk.export(["json"], name)
    with pytest.raises(InputError, match="is a file"):
        desk.export(["json"], "file")
    before = (folder / "room.ply").read_bytes()
    with pytest.raises(InputError, match="has not written it"):
        desk.export(["json"], ".")
    assert (folder / "room.ply").read_bytes() == before
    for _ in range(2):  # its own may be replaced
        (text,) = desk.export(["json", "glb"], "out")
        assert "room.glb" in text
    assert {p.name for p in (folder / "out").iterdir()} == {"room.json", "room.npz", "room.glb"}
    assert sorted(p.name for p in outside.iterdir()) == ["secret.ply"]
    fresh = Desk(Folders([folder]))
    fresh.open("room.ply")
    fresh.pick("id:0")
    with pytest.raises(InputError, match="has not written it"):
        fresh.export(["json"], "out")


# --- transports -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_assistant_knocks_the_orange_off_the_table_over_stdio(folder):
    opened, looked, _, _, played, written = talk(
        command(folder),
        ("open", {"scene": "kitchen_table"}), ("look", {}), ("pick", {"thing": 3}),
        ("push", {"velocity": [2.5, 0.5, 1]}), ("play", {}),
        ("export", {"formats": ["html", "json"], "folder": "orange"}),
    )  # fmt: skip
    assert not any(result.is_error for result in (opened, looked, played, written))
    assert picture(looked).shape[:2] == (720, 960)
    assert "at rest" in said(played)
    end = [float(x) for x in said(played).split(" to (")[1].split(")")[0].split(",")]
    assert end[1] < -1  # on the floor, below the table top
    page = folder / "orange" / "kitchen_table.html"
    assert str(page) in said(written)
    assert page.stat().st_size > 1e5


@pytest.mark.slow
def test_standard_output_carries_only_the_protocol(folder):
    """Warnings and whatever a library prints go to standard error."""
    about = {"name": "test", "version": "0"}
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    calls = [
        ("open", {"scene": "room.ply"}), ("look", {}), ("pick", {"thing": 0}),
        ("play", {"seconds": 0.5}), ("look", {"wrong": 1}),
    ]  # fmt: skip
    lines = [
        {"id": 0, "method": "initialize", "params": start},
        {"method": "notifications/initialized"},
        *(
            {"id": i + 1, "method": "tools/call", "params": {"name": name, "arguments": given}}
            for i, (name, given) in enumerate(calls)
        ),
    ]
    parameters = command(folder)
    with subprocess.Popen(
        [parameters.command, *parameters.args], env=parameters.env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        got = []
        for line in lines:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}) + "\n")
            process.stdin.flush()
            if "id" in line:
                got.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.stdout.read() == ""
        errors = process.stderr.read()
        assert process.wait(30) == 0, errors
    assert [each["id"] for each in got] == list(range(len(calls) + 1))
    assert [each["result"].get("isError", False) for each in got[1:]] == [False] * 4 + [True]
    assert "Traceback" not in errors


@contextmanager
def serving(folder):
    """A server over HTTP in a process of its own: its address and its process."""
    parameters = command(folder, "--http", "0")
    with subprocess.Popen(
        [parameters.command, *parameters.args], env=parameters.env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process.stdout.readline().split()[-1], process
        finally:
            process.terminate()
            process.communicate(timeout=30)


def answered(url, **headers):
    """The status of a request for the list of tools."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    plain = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(body).encode(), plain | headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.slow
def test_over_http_only_programs_of_this_machine_are_answered(folder):
    with serving(folder) as (url, process):
        opened, looked, escaped = talk(
            url, ("open", {"scene": "room.ply"}), ("look", {}), ("open", {"scene": "../outside"})
        )
        assert "4,736 Gaussians" in said(opened)
        assert picture(looked).shape[:2] == (720, 960)
        assert "outside the folders" in refused(escaped)
        own = url.removesuffix("/mcp")
        assert answered(url, Host="attacker.example") == 421
        assert answered(url, Host="127.0.0.1.attacker.example") == 421
        assert answered(url, Origin="http://attacker.example") == 403
        assert answered(url, Origin=f"{own}.attacker.example") == 403
        assert answered(url, Origin="null") == 403
        assert answered(url, Origin=own) not in (403, 421)
        assert answered(url, **{"Content-Type": "text/plain"}) == 400  # a page's form
        listening = psutil.Process(process.pid).net_connections("inet")
        assert {each.laddr.ip for each in listening if each.status == "LISTEN"} == {"127.0.0.1"}
        port = url.split(":")[2].split("/")[0]
        with pytest.raises(SystemExit) as stopped:
            main(["mcp", str(folder), "--http", port])
        assert stopped.value.code == 2


def test_calls_that_come_together_are_done_one_after_the_other(folder):
    """The engine must not be used by two threads at once."""
    desk, inside = Desk(Folders([folder])), []
    most = 0

    def slow():
        nonlocal most
        inside.append(1)
        most = max(most, len(inside))
        anyio.from_thread.run(anyio.sleep, 0.05)
        inside.pop()
        return ["done"]

    desk.look = slow
    results = []

    async def run():
        async with Client(make_server(desk)) as client, anyio.create_task_group() as tasks:

            async def call():
                results.append(await client.call_tool("look", {}))

            for _ in range(4):
                tasks.start_soon(call)

    anyio.run(run)
    assert [said(each) for each in results] == ["done"] * 4
    assert most == 1


def test_warnings_are_told_to_the_assistant(folder):
    desk = Desk(Folders([folder]))

    def doubtful():
        import warnings

        warnings.warn("three Gaussians were dropped", stacklevel=1)
        return ["done"]

    desk.look = doubtful
    (result,) = talk(make_server(desk), ("look", {}))
    assert said(result) == "done\nwarning: three Gaussians were dropped"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["no/such/folder"], "no folder no/such/folder"),
        (["--http", "70000"], "--http: expected 0 to 65535"),
        (["--max-file", "0"], "--max-file: expected megabytes above 0"),
    ],
)
def test_the_command_refuses_wrong_words_in_one_line(words, why, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["mcp", *words])
    line = capsys.readouterr().err
    assert stopped.value.code == 2
    assert why in line
    assert line.count("\n") == 1


def test_a_missing_sdk_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "newtongs.assistant.server", raising=False)
    with pytest.raises(SystemExit):
        main(["mcp", str(tmp_path)])
    assert "pip install 'newtongs[mcp]'" in capsys.readouterr().err
