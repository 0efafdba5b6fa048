"""``newtongs continue``: predict what happens after an observed motion."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro

from ..base.errors import InputError
from .animate import WHITE, Picture
from .apps import app
from .evaluate import find_context

if TYPE_CHECKING:
    from ..forecast.continuation import Observed


@app.command(name="continue")
@dataclass(frozen=True)
class Continue(Picture):
    """Continue an observed motion: predict the seconds that follow a track.

    ContextNND, our own model, reads up to 16 states (two thirds of a second) from the beginning of
    the track, or from its end where that fits better, and predicts a motion like those of State-32.
    A track is a .json or .npz with "states" (T, 22), or with "p" (T, 3) and whatever else is known,
    and "times" or "fps"; a .json written by `newtongs animate`; or a dump of moving Gaussians
    (.npy, .npz, .pt, .safetensors), which is lifted. y points up and the floor is at zero.

    newtongs continue track.json --out further --seconds 1.5

    docs/context.md describes what the model can and cannot do.
    """

    resumes: ClassVar[bool] = False
    track: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TRACK")] = Path()
    """The observed motion."""
    out: Path = Path("continued")
    """Folder to write to."""
    seconds: float = 2.0
    """Length of the prediction. The model was trained on motions of 2.7 seconds."""
    fps: float = 24.0
    """Frames per second of the output."""
    object: int = 0
    """Which object, for the .json of an animation."""
    context: str = "pretrained"
    """The model: pretrained, or a .safetensors file made by `newtongs train-context`."""

    def run(self) -> None:
        """Read, continue, and export."""
        if self.track == Path():
            raise InputError("name a track: newtongs continue TRACK.json --out DIR")
        self.check_output(self.out)
        from ..forecast.continuation import continue_track

        model = find_context(self.context)
        observed = self.observed()
        animation = continue_track(observed, model, seconds=self.seconds, fps=self.fps)
        shown = len(observed.times)
        print(f"{shown} states over {float(observed.times[-1]):.3g} s, {self.seconds:g} s more")
        self.write(animation, self.out, f"{self.track.stem}_continued", WHITE)

    def observed(self) -> "Observed":
        """The track, or that of an object of an animation."""
        from ..base.files import existing_file
        from ..exports.replay import FORMAT, load_animation
        from ..forecast.continuation import Observed, read_track

        existing_file(self.track, "a track: .json, .npz, or a dump of Gaussians")
        ours = self.track.suffix == ".json" and FORMAT.encode() in self.track.read_bytes()[:4096]
        if not ours:
            return read_track(self.track)
        made = load_animation(self.track)
        if self.object not in made.states:
            known = ", ".join(map(str, made.states))
            raise InputError(f"--object {self.object}: the animation has the objects {known}")
        rows = made.scene.ids == self.object
        scene = made.scene.replace(ids=rows.logical_not().to(made.scene.ids.dtype).neg())
        slow = made.about.slow
        if not (isinstance(slow, int | float) and slow > 0):
            raise InputError(f"{self.track} was changed by hand: slow is {slow!r}; animate again")
        times = made.times / slow  # those of the simulation
        return Observed(times, made.states[self.object], scene, made.world)
