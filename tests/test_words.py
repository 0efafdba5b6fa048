"""Selecting in words: a program, a server and an ONNX model that know colours."""

import json
import os
import shlex
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import color_namer
import numpy as np
import psutil
import pytest
import torch

import newtongs
from newtongs.base.errors import InputError
from newtongs.cli import main
from newtongs.formats import save
from newtongs.pipeline.namers import (
    ANSWER_BYTES,
    LONGEST_NAME,
    CommandNamer,
    HttpNamer,
    Portrait,
    open_namer,
)
from newtongs.pipeline.prepare import main_frame
from newtongs.pipeline.source import floor_of, open_source
from newtongs.pipeline.spec import SceneSpec
from newtongs.pipeline.words import names_of, pictured, selector_of
from newtongs.scene import GaussianScene
from newtongs.segment.objects.things import things

pytest.importorskip("numba")

UP = (0.0, 1.0, 0.0)
PROGRAM = shlex.join([sys.executable, str(Path(color_namer.__file__))])


def table(*colors):
    """Balls of these colours on a grey floor."""
    torch.manual_seed(1)
    line = torch.linspace(-1.5, 1.5, 60)
    floor = torch.stack([*torch.meshgrid(line, line, indexing="ij")], -1).flatten(0, 1)
    parts = [torch.stack([floor[:, 0], 0 * floor[:, 0], floor[:, 1]], -1)]
    paint = [torch.full((3600, 3), 0.6)]
    for i, color in enumerate(colors):
        ball = 0.15 * torch.nn.functional.normalize(torch.randn(600, 3), dim=-1)
        parts.append(ball + torch.tensor([0.6 * i - 0.6, 0.16, 0.0]))
        paint.append(torch.tensor(color_namer.COLORS[color]).expand(600, 3))
    scales = torch.full((3600 + 600 * len(colors),), 0.02)
    return GaussianScene.make(means=torch.cat(parts), scales=scales, colors=torch.cat(paint))


class Opened:
    """A scene with what selecting needs."""

    def __init__(self, *colors):
        self.source = open_source(table(*colors))
        self.floor = floor_of(self.source, UP, 0.0)
        self.world = main_frame(self.source, SceneSpec(up=UP, floor_height=0.0), self.floor)
        self.there = things(self.source.scene, self.floor.carrying)
        self.shown = pictured(self.source.scene, self.world, self.there.found)

    def select(self, text, namer):
        return selector_of(text, self.source.scene, self.world, self.floor.carrying, namer)

    def colored(self, color):
        """The selector of the thing of this colour, from the Gaussians themselves."""
        wanted = torch.tensor(color_namer.COLORS[color])
        for one in self.there.found:
            if (self.source.scene.colors[one.rows].mean(0) - wanted).abs().max() < 0.1:
                return f"cluster:{one.id}"
        raise AssertionError(color)


@pytest.fixture(scope="module")
def three():
    return Opened("orange", "blue", "green")


@contextmanager
def served(answer):
    """A server on this machine; ``answer`` gets the handler and the request's body."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(body)
            answer(self, body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/name", got
    finally:
        server.shutdown()
        server.server_close()


def reply(handler, content, status=200, **headers):
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw)


def by_color(handler, body):
    reply(handler, color_namer.answer(json.loads(body)))


# --- what a namer gets, and what follows from its answer ------------------------------------------


def test_a_program_finds_the_thing_that_the_text_names(three):
    namer = open_namer(PROGRAM)
    for color in ("orange", "blue", "green"):
        assert three.select(f"the {color} ball", namer) == three.colored(color)
    names = names_of(three.source.scene, three.world, three.there, namer)
    assert names == {three.colored(color): color for color in names.values()}
    assert sorted(names.values()) == ["blue", "green", "orange"]


def test_a_server_finds_the_same_and_gets_the_numbers_and_sizes(three):
    with served(by_color) as (address, got):
        assert three.select("the blue ball", open_namer(address)) == three.colored("blue")
    (asked,) = (json.loads(body) for body in got)
    assert asked["text"] == "the blue ball"
    assert [each["number"] for each in asked["things"]] == [c.id for c in three.there.found]
    expected = 0.3 * three.world.scale  # a ball's diameter
    assert asked["things"][0]["size"] == pytest.approx([expected] * 3, rel=0.05)


def test_a_selector_is_not_shown_to_the_namer(three):
    namer = CommandNamer(["/no/such/program"])
    for text in ("cluster:1", "auto", "box:0,0,0,1,1,1", " all "):
        assert three.select(text, namer) == text.strip()
    with pytest.raises(InputError, match="cannot be started"):
        three.select("the ball", namer)


def test_no_match_and_ties_are_one_line(three):
    with pytest.raises(InputError, match="none of 3 things matches 'a teapot'") as told:
        three.select("a teapot", open_namer(PROGRAM))
    assert "\n" not in str(told.value)
    with pytest.raises(InputError) as told:
        three.select("orange or blue", open_namer(PROGRAM))
    both = sorted([three.colored("orange"), three.colored("blue")])
    assert str(told.value).startswith(
        f"two things match 'orange or blue' equally: {both[0]} and {both[1]}; add a word"
    )
    with pytest.raises(InputError, match=r"three things .*: cluster:0, cluster:1 and cluster:2"):
        three.select("orange blue green", open_namer(PROGRAM))
    with pytest.raises(InputError, match="up to 200 characters"):
        three.select("very " * 100, open_namer(PROGRAM))


def test_scores_that_nearly_agree_are_equal(three):
    class Scores:
        def scores(self, shown, text):
            return self.values

    namer = Scores()
    namer.values = [0.2, 0.5, 0.499]
    with pytest.raises(InputError, match="cluster:1 and cluster:2"):
        three.select("the ball", namer)
    namer.values = [0.2, 0.5, 0.45]
    assert three.select("the ball", namer) == "cluster:1"
    namer.values = [-0.2, 0.0, -0.5]
    with pytest.raises(InputError, match="none of 3 things"):
        three.select("the ball", namer)


# --- bad programs ---------------------------------------------------------------------------------


def program(code, **options):
    return CommandNamer([sys.executable, "-c", code], **options)


ANSWERS = [
    ("nothing at all", "", "expected JSON, got nothing"),
    ("no JSON", "hello", "expected JSON, got 'hello'"),
    ("half", '{"scores": [1,', "expected JSON"),
    ("deep", "[" * 100_000, "expected JSON"),
    ("a list", "[1, 2, 3]", "expected {\"scores\": [...]} with 3 elements"),
    ("names", '{"names": ["a", "b", "c"]}', "expected {\"scores\": [...]}"),
    ("too few", '{"scores": [1, 2]}', "with 3 elements"),
    ("too many", '{"scores": [1, 2, 3, 4]}', "with 3 elements"),
    ("text", '{"scores": [1, 2, "3"]}', "expected a score as a number"),
    ("none", '{"scores": [1, 2, null]}', "expected a score as a number"),
    ("true", '{"scores": [1, 2, true]}', "expected a score as a number"),
    ("nan", '{"scores": [1, 2, NaN]}', "expected a score as a number"),
    ("infinite", '{"scores": [1, 2, 1e999]}', "expected a score as a number"),
    ("a long number", '{"scores": [1, 2, %s]}' % ("9" * 400), "expected a score as a number"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "why"), [x[1:] for x in ANSWERS], ids=[x[0] for x in ANSWERS])
def test_malformed_answers_are_one_line(three, answer, why):
    bad = served(lambda handler, _: reply(handler, answer.encode()))
    with bad as (address, _), pytest.raises(InputError) as told:
        HttpNamer(address).scores(three.shown, "a ball")
    assert why in str(told.value)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 300


def test_names_are_made_safe_to_print(three):
    nasty = ["\x1b[31mred\x07\nball\u202e", "x" * 500, ""]
    with served(lambda handler, _: reply(handler, {"names": nasty})) as (address, _):
        assert HttpNamer(address).names(three.shown) == ["[31mred ball", "x" * LONGEST_NAME, ""]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; print('no weights', file=sys.stderr); sys.exit(3)", "exit code 3: 'no weigh"),
        ("raise SystemExit", "expected JSON, got nothing"),
        ("1 / 0", "exit code 1: 'ZeroDivisionError"),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9"),
        ("while True: print('x' * 100000)", f"up to {ANSWER_BYTES:,} bytes"),
    ],
)
def test_programs_that_fail_are_one_line(three, code, why):
    with pytest.raises(InputError) as told:
        program(code).scores(three.shown, "a ball")
    assert why in str(told.value)
    assert "\n" not in str(told.value)


def test_a_chatty_program_that_reads_nothing_is_no_error(three):
    """Neither a full pipe of errors nor an unread question may block it."""
    code = "import sys; sys.stderr.write('x' * 10**6); print('{\"scores\": [0, 1, 0]}')"
    assert program(code).scores(three.shown, "a ball") == [0, 1, 0]


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(61.25)",
        "import os, time; os.close(1); time.sleep(61.25)",
        # What it has started holds the output open.
        "import os, time\nif not os.fork(): time.sleep(61.25)",
    ],
    ids=["silent", "output closed", "a child"],
)
def test_a_slow_program_is_ended_with_its_children(three, code, tmp_path):
    began = time.monotonic()
    with pytest.raises(InputError, match=r"no answer within 1\.5 s"):
        program(code, seconds=1.5).scores(three.shown, "a ball")
    assert time.monotonic() - began < 20
    left = [True]
    while left and time.monotonic() - began < 20:  # a signal takes a moment to arrive
        left = [p for p in psutil.process_iter(["cmdline"]) if "time.sleep(61.25)" in str(p.info)]
    assert not left


# --- bad servers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/name", "https://127.0.0.1/name", "http://127.0.0.1.example.org/",
        "ftp://127.0.0.1/", "http://user@127.0.0.1/", "http://0.0.0.0:80/", "file:///etc/passwd",
        "http://[::1/", "http://127.0.0.1:99999/", "http://",
    ],
)  # fmt: skip
def test_pictures_are_sent_only_to_this_machine(address):
    with pytest.raises(InputError) as told:
        open_namer(address)
    assert "\n" not in str(told.value)


def test_a_redirection_is_not_followed(three):
    with served(by_color) as (elsewhere, got):
        answer = lambda handler, _: reply(handler, b"", 307, Location=elsewhere)  # noqa: E731
        with served(answer) as (address, _), pytest.raises(InputError, match="got 307"):
            HttpNamer(address).scores(three.shown, "a ball")
        assert not got


def test_a_proxy_is_not_asked(three, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with served(by_color) as (address, got):
        HttpNamer(address).scores(three.shown, "a ball")
        assert len(got) == 1


@pytest.mark.parametrize(
    ("content", "status", "why"),
    [
        (b"broken\nmodel", 500, "expected status 200, got 500 with 'broken model'"),
        (b" " * (ANSWER_BYTES + 10), 200, "bytes of answer, got more"),
    ],
)
def test_servers_that_fail_are_one_line(three, content, status, why):
    bad = served(lambda handler, _: reply(handler, content, status))
    with bad as (address, _), pytest.raises(InputError, match=why) as told:
        HttpNamer(address).scores(three.shown, "a ball")
    assert "\n" not in str(told.value)
    with pytest.raises(InputError, match="cannot be asked"):  # it has ended
        HttpNamer(address).scores(three.shown, "a ball")


@pytest.mark.parametrize("part", ["nothing", "drops"])
def test_a_slow_server_is_left(three, part):
    done = threading.Event()

    def slow(handler, _):
        if part == "drops":  # each in time, but never all
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            for _ in range(100):
                if done.wait(0.1):
                    return
                try:
                    handler.wfile.write(b" ")
                except OSError:
                    return
        done.wait(20)

    with served(slow) as (address, _):
        began = time.monotonic()
        with pytest.raises(InputError, match="no answer within 1 s"):
            HttpNamer(address, seconds=1.0).scores(three.shown, "a ball")
        assert time.monotonic() - began < 5
        done.set()


# --- an ONNX model --------------------------------------------------------------------------------


def color_model(path, *, words="r\ng\nb", image="image", count=True, text="uint8"):
    """A joint model of pictures and text: letters r, g and b name a colour, and pictures have one.

    Scores are how much more of the named colours the middle of a picture has than of all.
    """
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    letters = np.zeros((256, 3), np.float32)
    for i, letter in enumerate("rgb"):
        letters[ord(letter), i] = 1
    given = {
        "letters": letters, "start": np.array([40, 40]), "end": np.array([56, 56]),
        "axes": np.array([2, 3]), "one": np.array([1]), "all": np.array([0]),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Slice", [image, "start", "end", "axes"], ["middle"]),
        node("ReduceMean", ["middle", "axes"], ["color"], keepdims=0),  # (N, 3)
        node("ReduceMean", ["color", "one"], ["grey"], keepdims=1),
        node("Sub", ["color", "grey"], ["hue"]),
        node("Cast", ["text"], ["rows"], to=TensorProto.INT64),
        node("Gather", ["letters", "rows"], ["named"], axis=0),
        node("ReduceSum", ["named", "all"], ["wanted"], keepdims=0),  # (3,)
        node("MatMul", ["hue", "wanted"], ["scores" if count else "each"]),
    ]
    if not count:
        nodes.append(node("Unsqueeze", ["each", "one"], ["scores"]))
    graph = helper.make_graph(
        nodes, "colors",
        [
            helper.make_tensor_value_info(image, TensorProto.FLOAT, ["N", 3, 96, 96]),
            helper.make_tensor_value_info("text", getattr(TensorProto, text.upper()), ["L"]),
        ],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(x, name) for name, x in given.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    if words:
        helper.set_model_props(model, {"words": words})
    onnx.save(model, path)
    return path


@pytest.fixture
def onnxruntime():
    return pytest.importorskip("onnxruntime", reason="the extra words has it")


@pytest.mark.parametrize("text", ["uint8", "int64"])
def test_an_onnx_model_finds_and_names_things(three, tmp_path, onnxruntime, text):
    namer = open_namer(str(color_model(tmp_path / "colors.onnx", text=text)))
    assert three.select("r", namer) == three.colored("orange")
    assert three.select("b", namer) == three.colored("blue")
    assert three.select("g", namer) == three.colored("green")
    names = names_of(three.source.scene, three.world, three.there, namer)
    expected = {"orange": "r", "blue": "b", "green": "g"}
    assert names == {three.colored(color): name for color, name in expected.items()}
    with pytest.raises(InputError, match="none of 3 things"):
        three.select("xyz", namer)  # no colour's letter


def test_other_onnx_files_are_refused_in_one_line(three, tmp_path, onnxruntime):
    (tmp_path / "text.onnx").write_bytes(b"hello" * 100)
    (tmp_path / "empty.onnx").write_bytes(b"")
    color_model(tmp_path / "inputs.onnx", image="picture")
    color_model(tmp_path / "float.onnx", text="float")
    for name, why in (
        ("text", "cannot be read as an ONNX model"), ("empty", "ONNX model"),
        ("missing", "cannot read"), ("inputs", "expected inputs image and text"),
        ("float", "expected text as uint8 or int64"),
    ):  # fmt: skip
        with pytest.raises(InputError) as told:
            open_namer(str(tmp_path / f"{name}.onnx"))
        assert why in str(told.value), name
        assert "\n" not in str(told.value)
    shaped = open_namer(str(color_model(tmp_path / "shape.onnx", count=False)))
    with pytest.raises(InputError, match=r"expected 3 scores, one per thing, got float32 \(3, 1\)"):
        shaped.scores(three.shown, "r")
    wordless = open_namer(str(color_model(tmp_path / "wordless.onnx", words="")))
    with pytest.raises(InputError, match="no names of its own"):
        wordless.names(three.shown)


def test_a_missing_onnxruntime_is_named(tmp_path, monkeypatch):
    (tmp_path / "x.onnx").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"pip install 'newtongs\[words\]'"):
        open_namer(str(tmp_path / "x.onnx"))


# --- commands -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_animate_moves_what_is_named_and_says_its_selector(tmp_path, capsys):
    save(table("orange", "blue", "green"), tmp_path / "balls.ply")
    made = newtongs.animate(
        tmp_path / "balls.ply", select="the blue ball", namer=PROGRAM, up=UP, floor_height=0.0,
        seconds=0.2, velocity=(1, 0, 0),
    )  # fmt: skip
    moved = made.scene.colors[made.scene.ids == 0]
    balls = {
        name: int(((moved - torch.tensor(rgb)).abs().amax(-1) < 0.05).sum())
        for name, rgb in color_namer.COLORS.items()
    }
    assert balls == {"orange": 0, "red": 0, "blue": 600, "green": 0}
    words = [
        "animate", str(tmp_path / "balls.ply"), "--namer", PROGRAM, "--push",
        "select='the blue ball' velocity=1,0,0", "--up", "0", "1", "0", "--floor", "0",
        "--seconds", "0.2", "--formats", "json", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    main(words)
    assert f"object 0: {made.about.objects[0].selected.split(',')[0]};" in capsys.readouterr().out


@pytest.mark.slow
def test_inspect_prints_a_name_beside_each_thing(tmp_path, capsys):
    save(table("orange", "blue", "green"), tmp_path / "balls.ply")
    main(
        ["inspect", str(tmp_path / "balls.ply"), "--namer", PROGRAM, "--plain",
         "--up", "0", "1", "0", "--floor", "0"]
    )  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    opened = Opened("orange", "blue", "green")
    for color in ("orange", "blue", "green"):
        (row,) = [line for line in lines if opened.colored(color) in line]
        assert color in row
    main(
        ["inspect", str(tmp_path / "balls.ply"), "--namer", PROGRAM, "--plain", "--json", "-",
         "--up", "0", "1", "0", "--floor", "0"]
    )  # fmt: skip
    listed = {
        each["select"]: each["name"] for each in json.loads(capsys.readouterr().out)["things"]
    }
    assert listed == {opened.colored(color): color for color in ("orange", "blue", "green")}


def refused(capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    line = capsys.readouterr().err
    assert stopped.value.code == 2
    assert line.count("\n") == 1
    return line


def test_words_without_a_namer_say_what_a_namer_is(capsys, tmp_path):
    line = refused(
        capsys, "animate", "sunny_park", "--select", "the orange can", "--out", tmp_path / "out"
    )
    assert "cannot select 'the orange can'" in line
    assert "--namer names a model of yours" in line
    line = refused(capsys, "animate", "sunny_park", "--select", "can", "--out", tmp_path / "out")
    assert "unknown selection 'can'" in line
    assert "--namer" in line


@pytest.mark.parametrize("command", ["animate", "inspect"])
def test_a_wrong_namer_is_refused_before_the_scene_is_read(command, capsys, tmp_path):
    assert "only to this machine" in refused(
        capsys, command, "sunny_park", "--namer", "http://example.org/"
    )
    assert "got nothing" in refused(capsys, command, "sunny_park", "--namer", " ")
    assert "quotation" in refused(capsys, command, "sunny_park", "--namer", "a 'b")
    assert "cannot read" in refused(capsys, command, "sunny_park", "--namer", tmp_path / "no.onnx")


@pytest.mark.slow
def test_an_assistant_may_pick_in_words(tmp_path):
    pytest.importorskip("mcp")
    from newtongs.assistant.desk import Desk
    from newtongs.assistant.folders import Folders

    save(table("orange", "blue", "green"), tmp_path / "balls.ply")
    desk = Desk(Folders([tmp_path]), open_namer(PROGRAM))
    desk.open("balls.ply", up=UP, floor=0.0)
    (text,) = desk.pick("the green ball")
    assert f"object 0 is {Opened('orange', 'blue', 'green').colored('green')}:" in text
    with pytest.raises(InputError, match="masks"):
        desk.pick("masks:/etc")


def test_a_portrait_is_what_a_namer_sees():
    shown = Portrait(3, (1.0, 2.0, 3.0), torch.zeros(4, 4, 3))
    with served(lambda handler, body: reply(handler, {"names": ["x"]})) as (address, got):
        assert HttpNamer(address).names([shown]) == ["x"]
    asked = json.loads(got[0])
    assert asked["text"] is None
    assert asked["things"][0]["size"] == [1, 2, 3]
    assert color_namer.color_of(asked["things"][0]["picture"]).tolist() == [0, 0, 0]
    assert os.linesep not in got[0].decode()
