"""Video generators of Common-12 through diffusers: CogVideoX, Wan, and NewtonGen on CogVideoX.

Nothing is downloaded: weights are in a folder given by the user, or in the Hugging Face cache.

NewtonGen is CogVideoX-5B with a LoRA and, as its initial noise, noise warped along the optical flow
of a simulated motion. The user supplies LoRA and noise; NewtonGen's own program writes the noise as
``noises.npy`` ``(frames, H / 8, W / 8, channels)``. Its use here follows that program: one noise
picture per latent frame, the nearest in time, and then the variance-preserving blend with fresh
noise, ``((1 - a) warped + a fresh) / sqrt(a^2 + (1 - a)^2)`` with the degradation ``a = 0.5``.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ...base.errors import InputError, argument
from ...base.extras import optional
from ...base.files import existing_file, foreign
from ...base.state import checked_device
from ...base.types import Array, Progress
from ...render.video import Frame
from ..datasets.common12 import DEGRADATION, LORA, METHODS, MOTIONS, Row, Sampling
from .generation import Options

NOISE_FILE = "noises.npy"
SPATIAL, TEMPORAL = 8, 4  # pixels and frames per latent value, in both models
PATCH = 16  # sides are multiples of it
NEEDED = ("diffusers", "transformers", "sentencepiece", "google.protobuf")


class DiffusersClips:
    """Clips of ``cogvideox``, ``wan`` or ``newtongen``, by default with the paper's options."""

    def __init__(
        self,
        method: str,
        *,
        weights: Path | str | None = None,
        device: str = "cuda",
        low_memory: bool = False,
        lora: Path | str | None = None,
        noise: Path | str | None = None,
        degradation: float = DEGRADATION,
        **changed: Any,
    ) -> None:
        """Check as much as possible before the weights are loaded.

        Args:
            method: name of a generated method.
            weights: folder as ``save_pretrained`` writes it; None for the Hugging Face cache.
            device: where to compute.
            low_memory: move parts of the model to the device when they are needed.
            lora: NewtonGen's .safetensors file.
            noise: NewtonGen's folder of ``<Motion>/noises.npy``.
            degradation: fraction of fresh noise, 0 to 1.
            changed: fields of :class:`Sampling` that differ from the paper's.
        """
        sampling = METHODS[method].sampling
        assert sampling is not None, f"{method} is not generated"
        self.method, self.low_memory, self.degradation = method, low_memory, degradation
        self.sampling = checked(replace(sampling, **changed))
        for name in NEEDED:
            library(name)
        self.device = _accelerator(device)
        self.weights = find_weights(self.sampling, weights)
        self.dtype = torch.float32 if self.device.type == "cpu" else torch.bfloat16
        self.lora = self.noise = None
        if method == "newtongen":
            self.lora, self.noise = _cartridge(lora, noise)
            if not 0 <= degradation <= 1:
                raise InputError(f"degradation: expected a fraction from 0 to 1, got {degradation}")
        elif lora is not None or noise is not None:
            raise InputError(
                f"{argument('lora')} and {argument('noise')} require "
                f"{argument('model', 'newtongen')}"
            )

    def options(self, row: Row) -> Options:
        """See :class:`newtongs.paper.evaluation.generation.Maker`."""
        s = self.sampling
        options = {
            "method": METHODS[self.method].title,
            "motion": row.motion,
            "prompt_id": row.prompt_id,
            "prompt": row.prompt,
            "seed": row.seed,
            "weights": str(self.weights),
            "pipeline": s.pipeline,
            "width": s.width,
            "height": s.height,
            "frames": s.frames,
            "fps": s.fps,
            "steps": s.steps,
            "guidance": s.guidance,
            "dtype": str(self.dtype).removeprefix("torch."),
        }
        if self.noise is not None:
            options |= {
                "lora": str(self.lora),
                "noise": str(self._noise_file(row)),
                "degradation": self.degradation,
            }
        return options

    def fps(self) -> float:
        """See :class:`newtongs.paper.evaluation.generation.Maker`."""
        return self.sampling.fps

    def load(self) -> Options:
        """Load the pipeline, after checking the noise of all rows."""
        if self.noise is not None:
            for motion in MOTIONS:
                self._warped(self.noise / motion / NOISE_FILE)
        self.pipe = _pipeline(self.sampling, self.weights, self.dtype)
        if self.lora is not None:
            library("peft")
            with foreign(self.lora, "a LoRA of this model"):
                self.pipe.load_lora_weights(
                    str(self.lora), use_safetensors=True, local_files_only=True
                )
        if self.low_memory:
            library("accelerate")
            self.pipe.enable_model_cpu_offload(device=self.device)
            self.pipe.vae.enable_tiling()
        else:
            self.pipe.to(self.device)
        return {
            "scheduler": type(self.pipe.scheduler).__name__,
            "device": str(self.device),
            "low_memory": self.low_memory,
            **{name: version(name) for name in ("diffusers", "transformers", "torch")},
        }

    def frames(self, row: Row, progress: Progress | None = None) -> Iterable[Frame]:
        """Pictures ``(frames, H, W, 3)`` in [0, 1]."""
        assert row.seed is not None
        # Drawn on the CPU, so that a seed gives the same noise on every device.
        s, draw = self.sampling, Generator("cpu").manual_seed(row.seed)
        given = {} if self.noise is None else {"latents": self._latents(row, draw)}
        with _enough_memory():
            made = self.pipe(
                prompt=row.prompt,
                width=s.width,
                height=s.height,
                num_frames=s.frames,
                num_inference_steps=s.steps,
                guidance_scale=s.guidance,
                generator=draw,
                output_type="np",
                callback_on_step_end=_steps(row.motion, s.steps, progress),
                **given,
            )
        return self._sound(np.asarray(made.frames[0]), row)

    def _sound(self, pictures: Array, row: Row) -> Array:
        """Check that the pictures have the requested size and are finite."""
        s = self.sampling
        if pictures.shape != (s.frames, s.height, s.width, 3) or not np.isfinite(pictures).all():
            raise InputError(
                f"{row.motion}: {self.weights} gave pictures of shape {pictures.shape}, "
                f"not finite ones of {(s.frames, s.height, s.width, 3)}"
            )
        return pictures

    def _noise_file(self, row: Row) -> Path:
        assert self.noise is not None
        return self.noise / row.motion / NOISE_FILE

    def _latents(self, row: Row, draw: Generator) -> Tensor:
        """Initial noise ``(1, latent frames, C, H / 8, W / 8)``."""
        warped = torch.from_numpy(np.array(self._warped(self._noise_file(row)), np.float32))
        warped = warped.permute(0, 3, 1, 2)[None]
        fresh = torch.randn(warped.shape, generator=draw)
        return blended(warped, fresh, self.degradation).to(self.dtype)

    def _warped(self, path: Path) -> Array:
        """Warped noise, one picture per latent frame: ``(latent frames, H / 8, W / 8, C)``."""
        with foreign(existing_file(path, "a noise file"), "a .npy file of numbers"):
            noise: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        s, latent = self.sampling, (self.sampling.frames - 1) // TEMPORAL + 1
        shape = (s.height // SPATIAL, s.width // SPATIAL, _channels(self.weights))
        if noise.ndim != 4 or noise.shape[1:] != shape or len(noise) < latent:
            raise InputError(
                f"{path}: expected noise of shape {(s.frames, *shape)}, got {noise.shape}"
            )
        return noise[np.rint(np.linspace(0, len(noise) - 1, latent)).astype(int)]


def blended(warped: Tensor, fresh: Tensor, share: float) -> Tensor:
    """Blend fresh noise into warped noise; the variance stays one."""
    return ((1 - share) * warped + share * fresh) / (share**2 + (1 - share) ** 2) ** 0.5


def checked(sampling: Sampling) -> Sampling:
    """Check the options against the models' constraints."""
    s = sampling
    if s.frames < 1 or s.frames % TEMPORAL != 1:
        raise InputError(f"frames: expected 4 k + 1 (9, 13, ..., 49), got {s.frames}")
    if min(s.width, s.height) < PATCH or s.width % PATCH or s.height % PATCH:
        raise InputError(
            f"width and height: expected multiples of {PATCH} pixels, got {s.width} and {s.height}"
        )
    if s.steps < 1 or not 0 <= s.guidance < float("inf"):
        raise InputError(
            f"expected at least one step and a guidance above 0, got {s.steps} and {s.guidance}"
        )
    return sampling


def library(name: str) -> Any:
    """Import a module of the extra ``generate``, or say what to install."""
    return optional(name, f"generating videos needs {name}", "generate")


def _accelerator(device: str) -> torch.device:
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "generating videos needs a GPU, and torch finds none here; "
            f"{argument('device', 'cpu')} is for tests only"
        )
    return checked_device(device)


def find_weights(sampling: Sampling, weights: Path | str | None) -> Path:
    """Folder of the weights, which must be those of the right pipeline."""
    folder = _cached(sampling.repository) if weights is None else Path(weights).resolve()
    index = folder / "model_index.json"
    if not index.is_file():
        raise InputError(
            f"no weights in {folder}: expected model_index.json, as in {sampling.repository}; "
            f"fetch them with: hf download {sampling.repository} --local-dir {folder}"
        )
    with foreign(index, "an index of weights"):
        name = json.loads(index.read_text())["_class_name"]
    if name != sampling.pipeline:
        raise InputError(
            f"{folder} contains weights of {name}, {sampling.pipeline} is needed; "
            f"fetch {sampling.repository}"
        )
    return folder


def _cached(repository: str) -> Path:
    """Path of a model in the Hugging Face cache; nothing is downloaded."""
    hub = library("huggingface_hub")
    try:
        return Path(hub.snapshot_download(repository, local_files_only=True))
    except Exception as error:  # half a dozen types, all meaning "not cached"
        raise InputError(
            f"the weights {repository} are not on this machine; fetch them with: "
            f"hf download {repository}, or name their folder with {argument('weights')}"
        ) from error


def _cartridge(lora: Path | str | None, noise: Path | str | None) -> tuple[Path, Path]:
    """NewtonGen's LoRA and its noise for all motions."""
    if lora is None or noise is None:
        raise InputError(
            f"NewtonGen needs {argument('lora', 'FILE')}, Go-with-the-Flow's "
            f"{LORA}_lora_weights.safetensors, and {argument('noise', 'DIR')} with "
            f"<Motion>/{NOISE_FILE}, the warped noise of NewtonGen's own program"
        )
    file, folder = existing_file(lora, "a .safetensors file").resolve(), Path(noise).resolve()
    if file.suffix != ".safetensors":
        raise InputError(f"{file} is not a .safetensors file; other formats can contain code")
    missing = [m for m in MOTIONS if not (folder / m / NOISE_FILE).is_file()]
    if missing:
        raise InputError(
            f"{folder} lacks the noise of {len(missing)} of 12 motions, "
            f"first {missing[0]}/{NOISE_FILE}"
        )
    return file, folder


def _channels(weights: Path) -> int:
    """Channels of the latent pictures."""
    config = weights / "transformer" / "config.json"
    with foreign(config, "the transformer's configuration"):
        return int(json.loads(config.read_text())["in_channels"])


def _pipeline(sampling: Sampling, weights: Path, dtype: torch.dtype) -> Any:
    """Load the pipeline from disk on the CPU, without output."""
    diffusers = library("diffusers")
    for module in (diffusers, library("transformers")):
        module.utils.logging.disable_progress_bar()
        module.utils.logging.set_verbosity_error()
    with foreign(weights, f"weights of {sampling.pipeline}"):
        pipe = getattr(diffusers, sampling.pipeline).from_pretrained(
            weights,
            # Wan's decoder is meant to run in full precision.
            dtype={"default": dtype, "vae": torch.float32} if "Wan" in sampling.pipeline else dtype,
            use_safetensors=True,
            local_files_only=True,
        )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def _steps(
    motion: str, steps: int, progress: Progress | None
) -> Callable[[Any, int, Any, dict[str, Any]], dict[str, Any]]:
    """The pipeline's callback after each step."""

    def after(pipe: Any, step: int, timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        if progress:
            progress(motion, step + 1, steps)
        return tensors

    return after


@contextmanager
def _enough_memory() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"the device's memory is too small for this model; try {argument('low_memory')}"
        ) from error
