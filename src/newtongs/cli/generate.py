"""``newtongs generate``: the clips of Common-12's rows."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from ..base.errors import InputError
from ..paper.datasets.common12 import BASE_SEED, DEGRADATION, METHODS, MOTIONS
from .apps import app
from .console import check_folder, progress_bar

if TYPE_CHECKING:
    from ..paper.evaluation.generation import Maker

ModelName = Literal["newtongs", "cogvideox", "wan", "newtongen"]


@app.command(name="generate")
@dataclass(frozen=True)
class Generate:
    """Make the twelve clips of one method of Common-12, and score them.

    newtongs generate --model newtongs --out clips

    newtongs generate --model cogvideox --weights CogVideoX-5b --out clips

    Writes OUT/<Motion>/<Method>.mp4 and beside each a .json with prompt, seed and options. The same
    command resumes an interrupted run. `newtongs` needs nothing else; the others need a GPU, the
    extra newtongs[generate] and weights that you have downloaded: the command downloads nothing.
    NewtonGen also needs its LoRA and its warped noise, see docs/common12.md.
    """

    resumes: ClassVar[bool] = True
    model: ModelName
    """newtongs: the trained model's Same-32 rollouts, rendered by the light renderer. cogvideox,
    wan, newtongen: text to video."""
    out: Path
    """Folder to write to."""
    motions: tuple[str, ...] | None = None
    """Which motions, by folder name (Rotation, 3D_Motion, ...). Default: all twelve."""
    overwrite: bool = False
    """Make every clip again, even existing ones."""
    same32: Path | None = None
    """newtongs: a Same-32 folder. Default: compute the same samples."""
    weights: Path | None = None
    """Folder of the weights, as diffusers saves them. Default: the Hugging Face cache."""
    device: str = "cuda"
    """Where to generate: cuda, or cpu for tests."""
    low_memory: bool = False
    """Keep only the active part of the model on the GPU; slower."""
    lora: Path | None = None
    """newtongen: the LoRA, a .safetensors file."""
    noise: Path | None = None
    """newtongen: folder of <Motion>/noises.npy."""
    degradation: float = DEGRADATION
    """newtongen: share of fresh noise mixed into the warped noise, 0 to 1."""
    size: Annotated[tuple[int, int] | None, tyro.conf.arg(metavar="WIDTH HEIGHT")] = None
    """Width and height. Default: the paper's, 720 480, for Wan 832 480."""
    frames: int | None = None
    """Frames per clip. Default: the paper's 49."""
    steps: int | None = None
    """Denoising steps. Default: the paper's 30."""
    guidance: float | None = None
    """Guidance scale. Default: the paper's 6, for Wan 5."""

    def run(self) -> None:
        """Make missing clips, score all, and print the result."""
        from ..paper.evaluation.generation import make_clips
        from ..paper.evaluation.videos import opencv

        check_folder(self.out)
        opencv()
        maker = self.own() if self.model == "newtongs" else self.generator()
        with progress_bar("") as advance:
            paths = make_clips(
                self.out, maker, motions=self.motions, overwrite=self.overwrite, progress=advance
            )
        print(f"{len(paths)} clips of {METHODS[self.model].title} in {self.out}")
        print_scores(paths)

    def own(self) -> "Maker":
        """Our own clips, to which the generators' options do not apply."""
        for name in (
            "weights", "device", "low_memory", "lora", "noise", "degradation", "size", "frames",
            "steps", "guidance",
        ):  # fmt: skip
            if getattr(self, name) != getattr(Generate, name):
                raise InputError(
                    f"--{name.replace('_', '-')} cannot be combined with --model newtongs"
                )
        from ..paper.evaluation.generation import OwnClips

        return OwnClips(self.same32, seed=BASE_SEED)

    def generator(self) -> "Maker":
        """A text-to-video model with the paper's options, except for those given."""
        if self.same32 is not None:
            raise InputError("--same32 requires --model newtongs")
        width, height = self.size or (None, None)
        changed: dict[str, Any] = {
            "width": width, "height": height, "frames": self.frames, "steps": self.steps,
            "guidance": self.guidance,
        }  # fmt: skip
        from ..paper.evaluation.video_models import DiffusersClips

        return DiffusersClips(
            self.model,
            weights=self.weights,
            device=self.device,
            low_memory=self.low_memory,
            lora=self.lora,
            noise=self.noise,
            degradation=self.degradation,
            **{name: value for name, value in changed.items() if value is not None},
        )


def print_scores(paths: list[Path]) -> None:
    """Print the clips' mean scores on one line, and those of a frozen video."""
    from ..paper.evaluation.clips import COLUMNS, Clip, evaluate_clips, summary
    from ..paper.evaluation.videos import frozen_video

    records, problems = evaluate_clips(Clip(str(path), path) for path in paths)
    for problem in problems:
        raise InputError(f"{problem}; make the clips again with --overwrite")
    row, still = summary(records.values()), frozen_video()
    scores = "  ".join(f"{column} {row[column]['mean']:.4f}" for column in COLUMNS)
    print(f"{scores}  mean of {row['n']}; a frozen video: pis_p {still.pis_p:.4f}")
    if row["n"] == len(MOTIONS):
        print("beside the paper's: newtongs evaluate --videos on that folder")
