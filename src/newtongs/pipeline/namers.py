"""Models that name things: pictures in, names or scores out. The model is the user's own.

A namer answers two questions about the close-ups of some things. What is each called? One name per
thing. How well does a text fit each? One score per thing: the highest is meant, and 0 or less means
that the text does not fit. The same answer comes from a program, from an HTTP server on this
machine, or from an ONNX model; ``docs/words.md`` has an example of each.
"""

import base64
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import numpy as np
import torch
from torch import Tensor

from ..base.errors import InputError
from ..base.files import existing_file, first_line, foreign, parsed_json
from ..render.video import png_bytes

SECONDS = 120.0  # that an answer may take: a large model needs a minute to load
ANSWER_BYTES = 1 << 20  # of an answer; names of all things take some thousands
LONGEST_NAME = 60  # characters
LONGEST_TEXT = 200  # characters of a text that is looked for
HIGHEST = 1e9  # of scores
MUCH = f": expected up to {ANSWER_BYTES:,} bytes of answer, got more"
LOCAL = ("127.0.0.1", "localhost", "::1")
SIDE = 224  # pixels of a picture, unless an ONNX model fixes another size
MOST_WORDS = 1000  # in the vocabulary of an ONNX model
TAIL = 2000  # bytes of what a program writes to standard error that are kept


class Portrait(NamedTuple):
    """A thing as a namer sees it."""

    number: int
    """As in the numbered picture."""
    size: tuple[float, float, float]
    """Width, height and depth in metres."""
    picture: Tensor
    """Close-up ``(H, W, 3)``, colours from 0 to 1."""


class Namer(Protocol):
    """What can name things."""

    def names(self, things: Sequence[Portrait]) -> list[str]:
        """What each thing is called; "" if that is unknown."""

    def scores(self, things: Sequence[Portrait], text: str) -> list[float]:
        """How well a text fits each thing; 0 or less if it does not."""


def open_namer(text: str, *, seconds: float = SECONDS) -> Namer:
    """The namer of a flag: an address, a file that ends in .onnx, or a program with arguments."""
    if "://" in text:
        return HttpNamer(text, seconds=seconds)
    if text.lower().endswith(".onnx"):
        return OnnxNamer(Path(text), seconds=seconds)
    try:
        words = shlex.split(text)
    except ValueError as error:  # an unclosed quote
        raise InputError(f"namer: {str(error).lower()} in {text!r}") from None
    if not words:
        raise InputError(
            "namer: expected a program with its arguments, an address such as "
            "http://127.0.0.1:8000/, or an .onnx file, got nothing"
        )
    return CommandNamer(words, seconds=seconds)


# --- the question and the answer ------------------------------------------------------------------


def question(things: Sequence[Portrait], text: str | None) -> bytes:
    """What programs and servers are asked, as JSON; ``text`` is null for names."""
    listed = [
        {
            "number": thing.number,
            "size": [round(x, 4) for x in thing.size],
            "picture": base64.b64encode(png_bytes(thing.picture)).decode(),
        }
        for thing in things
    ]
    return json.dumps({"text": text, "things": listed}).encode()


def answered(who: str, raw: bytes, key: str, count: int) -> list[Any]:
    """The list in an answer, which must have one element per thing."""
    try:
        tree = parsed_json("", raw, ANSWER_BYTES)
    except InputError:
        raise InputError(f"{who}: expected JSON, got {_excerpt(raw)}") from None
    found = tree.get(key) if isinstance(tree, dict) else None
    if not isinstance(found, list) or len(found) != count:
        raise InputError(
            f'{who}: expected {{"{key}": [...]}} with {count} elements, one per thing, got '
            f"{_excerpt(raw)}"
        )
    return found


def checked_names(who: str, found: Sequence[Any]) -> list[str]:
    """Names as they may be printed: short, on one line, without control characters."""
    for each in found:
        if not isinstance(each, str):
            raise InputError(f"{who}: expected a name as text, got {each!r:.60}")
    plain = (" ".join("".join(c if c.isprintable() else " " for c in x).split()) for x in found)
    return [name[:LONGEST_NAME] for name in plain]


def checked_scores(who: str, found: Sequence[Any]) -> list[float]:
    """Scores as numbers that can be compared."""
    for each in found:
        number = isinstance(each, int | float) and not isinstance(each, bool)
        if not number or not abs(each) <= HIGHEST:
            raise InputError(
                f"{who}: expected a score as a number up to {HIGHEST:g}, got {each!r:.60}"
            )
    return [float(each) for each in found]


def _excerpt(raw: bytes) -> str:
    text = " ".join(raw.decode(errors="replace").split())
    return repr(text[:80]) + ("..." if len(text) > 80 else "") if text else "nothing"


class _Asked:
    """A namer that is asked in JSON."""

    who: str

    def ask(self, request: bytes) -> bytes:
        """The answer to a question."""
        raise NotImplementedError

    def names(self, things: Sequence[Portrait]) -> list[str]:
        """See :class:`Namer`."""
        raw = self.ask(question(things, None))
        return checked_names(self.who, answered(self.who, raw, "names", len(things)))

    def scores(self, things: Sequence[Portrait], text: str) -> list[float]:
        """See :class:`Namer`."""
        raw = self.ask(question(things, text))
        return checked_scores(self.who, answered(self.who, raw, "scores", len(things)))


# --- a program ------------------------------------------------------------------------------------


class CommandNamer(_Asked):
    """A program that reads the question from standard input and prints the answer."""

    def __init__(self, words: Sequence[str], *, seconds: float = SECONDS) -> None:
        self.words, self.seconds = list(words), seconds
        self.who = f"namer {shlex.join(self.words)[:80]!r}"

    def ask(self, request: bytes) -> bytes:
        """Start the program, which ends with its answer; what it has started ends with it."""
        with tempfile.TemporaryFile() as given:
            given.write(request)
            given.seek(0)
            try:
                process = subprocess.Popen(
                    self.words, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    start_new_session=True,
                )  # fmt: skip
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise InputError(f"{self.who}: cannot be started ({reason})") from error
            return self._answer(process)

    def _answer(self, process: "subprocess.Popen[bytes]") -> bytes:
        """What a program prints, if it ends well and in time."""
        assert process.stdout is not None
        assert process.stderr is not None
        end = time.monotonic() + self.seconds
        out, errors = _Read(process.stdout, ANSWER_BYTES + 1), _Read(process.stderr, None)
        out.join(self.seconds)
        much = len(out.data) > ANSWER_BYTES
        if out.is_alive() or much or not _ended(process, end):
            _kill(process)
            if much:
                raise InputError(self.who + MUCH)
            raise InputError(f"{self.who}: no answer within {self.seconds:g} s")
        if process.returncode:
            errors.join(1.0)
            last = bytes(errors.data).strip().splitlines()[-1:]
            said = f": {_excerpt(last[0])}" if last else ""
            raise InputError(f"{self.who}: ended with exit code {process.returncode}{said}")
        return bytes(out.data)


class _Read(threading.Thread):
    """Reads a pipe to its end: the first ``most`` bytes, or of all bytes the last.

    Only it closes the pipe, which something that has left the program's group may still hold open.
    """

    def __init__(self, pipe: IO[bytes], most: int | None) -> None:
        super().__init__(daemon=True)
        self.pipe, self.most, self.data = pipe, most, bytearray()
        self.start()

    def run(self) -> None:
        with self.pipe:
            while part := os.read(self.pipe.fileno(), 1 << 16):
                self.data += part
                if self.most is None:
                    del self.data[:-TAIL]
                elif len(self.data) >= self.most:
                    return


def _ended(process: "subprocess.Popen[bytes]", end: float) -> bool:
    """Whether a program that has closed its output ends in time."""
    try:
        process.wait(max(end - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a program with all that it has started."""
    with suppress(ProcessLookupError):  # it has just ended
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


# --- a server -------------------------------------------------------------------------------------


class HttpNamer(_Asked):
    """A server on this machine to which the question is posted."""

    def __init__(self, address: str, *, seconds: float = SECONDS) -> None:
        self.seconds, self.who = seconds, f"namer {address[:80]}"
        try:
            parts = urlsplit(address)
            self.host, self.port = parts.hostname or "", parts.port or 80
        except ValueError as error:
            raise InputError(f"{self.who}: not an address ({error})") from None
        if parts.scheme != "http" or self.host not in LOCAL or parts.username is not None:
            raise InputError(
                f"{self.who}: pictures are sent only to this machine; expected "
                "http://127.0.0.1:PORT/PATH"
            )
        self.path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def ask(self, request: bytes) -> bytes:
        """Post the question. No proxy is used, and no redirection followed."""
        link = http.client.HTTPConnection(self.host, self.port, timeout=self.seconds)
        with _Alarm(self.seconds) as alarm:
            try:
                link.connect()
                alarm.then(partial(_shut, link.sock))
                link.request("POST", self.path, request, {"Content-Type": "application/json"})
                response = link.getresponse()
                raw = response.read(ANSWER_BYTES + 1)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if alarm.late or isinstance(error, TimeoutError):
                    raise InputError(f"{self.who}: no answer within {self.seconds:g} s") from error
                reason = getattr(error, "strerror", None) or first_line(error)
                raise InputError(f"{self.who}: cannot be asked ({reason})") from error
            finally:
                link.close()
        if alarm.late:
            raise InputError(f"{self.who}: no answer within {self.seconds:g} s")
        if response.status != http.client.OK:
            raise InputError(
                f"{self.who}: expected status 200, got {response.status} with {_excerpt(raw)}"
            )
        if len(raw) > ANSWER_BYTES:
            raise InputError(self.who + MUCH)
        return raw


def _shut(link: Any) -> None:
    """End a connection at both sides, so that whoever reads from it goes on."""
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


class _Alarm:
    """Stops something that takes too long, from a thread of its own."""

    def __init__(self, seconds: float) -> None:
        self.late, self._stop = False, list[Callable[[], None]]()
        self._timer = threading.Timer(seconds, self._ring)
        self._timer.daemon = True

    def then(self, stop: Callable[[], None]) -> None:
        """What to do when it is late."""
        self._stop.append(stop)

    def _ring(self) -> None:
        self.late = True
        for stop in self._stop:
            stop()

    def __enter__(self) -> "_Alarm":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


# --- an ONNX model --------------------------------------------------------------------------------


class OnnxNamer:
    """A model of pictures and text, run by onnxruntime on the CPU.

    Inputs: ``image``, float32 ``(N, 3, H, W)``, red, green and blue from 0 to 1; ``text``, uint8 or
    int64 ``(L,)``, the bytes of the text in UTF-8. Output: ``scores``, ``(N,)``. The metadata entry
    ``words`` lists names, one per line, of which each thing gets the one with the highest score.
    """

    def __init__(self, path: Path, *, seconds: float = SECONDS) -> None:
        path = existing_file(path, "an .onnx model")
        try:
            import onnxruntime
        except ImportError as error:
            raise InputError(
                "an .onnx namer needs onnxruntime; install it with: pip install 'newtongs[words]'"
            ) from error
        self.who, self.seconds = f"namer {path.name}", seconds
        self.runtime: Any = onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # its errors are raised too
        with foreign(path, "an ONNX model"):
            self.session: Any = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        inputs = {each.name: each for each in self.session.get_inputs()}
        outputs = [each.name for each in self.session.get_outputs()]
        if set(inputs) != {"image", "text"} or "scores" not in outputs:
            raise InputError(
                f"{self.who}: expected inputs image and text and an output scores, got inputs "
                f"{', '.join(inputs)[:80]} and outputs {', '.join(outputs)[:80]}"
            )
        self._check(inputs["image"], inputs["text"])
        words = self.session.get_modelmeta().custom_metadata_map.get("words", "")
        self.words = checked_names(self.who, [w for w in words.splitlines() if w.strip()])
        if len(self.words) > MOST_WORDS:
            raise InputError(
                f"{self.who}: expected up to {MOST_WORDS} words in its metadata, got "
                f"{len(self.words)}"
            )

    def _check(self, image: Any, text: Any) -> None:
        """Refuse inputs of another kind, and note their size and type."""
        known = {"tensor(uint8)": np.uint8, "tensor(int64)": np.int64}
        sides = image.shape[2:] if len(image.shape) == 4 else []
        fits = len(sides) == 2 and all(not isinstance(n, int) or 8 <= n <= 1024 for n in sides)
        if image.type != "tensor(float)" or not fits or image.shape[1] not in (3, "C"):
            raise InputError(
                f"{self.who}: expected image as float32 (N, 3, H, W) of 8 to 1024 pixels, got "
                f"{image.type} {image.shape}"
            )
        if text.type not in known or len(text.shape) != 1 or isinstance(text.shape[0], int):
            raise InputError(
                f"{self.who}: expected text as uint8 or int64 (L,) of any length, got "
                f"{text.type} {text.shape}"
            )
        self.letter = known[text.type]
        height, width = (n if isinstance(n, int) else SIDE for n in sides)
        self.size = height, width

    def scores(self, things: Sequence[Portrait], text: str) -> list[float]:
        """See :class:`Namer`."""
        pictures = torch.stack([thing.picture.permute(2, 0, 1).float() for thing in things])
        resized = torch.nn.functional.interpolate(
            pictures, self.size, mode="bilinear", antialias=True, align_corners=False
        )
        letters = np.frombuffer(text.encode(), np.uint8).astype(self.letter)
        return self._run(resized.clamp(0, 1).numpy(), letters, len(things))

    def _run(self, image: Any, text: Any, count: int) -> list[float]:
        """One run of the model, which is stopped when it takes too long."""
        options = self.runtime.RunOptions()
        given = {"image": image, "text": text}
        with _Alarm(self.seconds) as alarm:
            alarm.then(partial(setattr, options, "terminate", True))
            try:
                (out,) = self.session.run(["scores"], given, options)
            except Exception as error:
                late = f"no answer within {self.seconds:g} s"
                reason = late if alarm.late else first_line(error)[:160]
                raise InputError(f"{self.who}: {reason}") from error
        found = np.asarray(out)
        if found.shape != (count,) or found.dtype.kind not in "fiu":
            raise InputError(
                f"{self.who}: expected {count} scores, one per thing, got {found.dtype} "
                f"{found.shape}"
            )
        return checked_scores(self.who, found.astype(float).tolist())

    def names(self, things: Sequence[Portrait]) -> list[str]:
        """See :class:`Namer`."""
        if not self.words:
            raise InputError(
                f"{self.who}: it scores texts but has no names of its own; list them in its "
                "metadata entry words, one per line"
            )
        scores = np.array([self.scores(things, word) for word in self.words])
        best = scores.argmax(0)
        return [self.words[k] if scores[k, i] > 0 else "" for i, k in enumerate(best)]
