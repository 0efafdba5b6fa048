"""The overview of the method (the paper's Figure 1), drawn by code from the model's own numbers."""

from pathlib import Path
from typing import Any

from ...base.state import DIM
from ...dynamics import GaussianNND
from ...dynamics.config import NNDConfig
from ...dynamics.rollout import substeps
from ...motions import DT
from .plots import drawing, save_both

SIZE = (11.2, 4.2)  # inches
INK, SOFT, FRAME = "#1b1f24", "#5b6570", "#9aa4ae"
ANALYTIC, LEARNED, SCENE = "#e8f0f8", "#fdeedd", "#eef3ec"
BOXES = {  # name: centre x, centre y, width, height, colour
    "scene": (0.085, 0.56, 0.14, 0.36, SCENE),
    "state": (0.265, 0.56, 0.15, 0.36, SCENE),
    "flow": (0.475, 0.72, 0.19, 0.30, ANALYTIC),
    "f": (0.475, 0.26, 0.19, 0.22, LEARNED),
    "floor": (0.695, 0.72, 0.17, 0.30, ANALYTIC),
    "h": (0.695, 0.26, 0.17, 0.22, LEARNED),
    "moved": (0.905, 0.56, 0.16, 0.36, SCENE),
}
ARROWS = (  # from, to, where they leave and arrive: fractions of half a box
    ("scene", "state", (1, 0), (-1, 0)),
    ("state", "flow", (1, 0.3), (-1, -0.4)),
    ("f", "flow", (0, 1), (0, -1)),
    ("flow", "floor", (1, 0), (-1, 0)),
    ("h", "floor", (0, 1), (0, -1)),
    ("floor", "moved", (1, -0.4), (-1, 0.3)),
)


def overview(stem: Path) -> str:
    """Draw it as png and svg; returns the file name without its suffix."""
    with drawing() as pyplot:
        figure = pyplot.figure(figsize=SIZE)
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.axis("off")
        for name, (title, lines) in _words().items():
            _box(ax, name, title, lines)
        for arrow in ARROWS:
            _arrow(ax, *arrow)
        _again(ax)
        count = sum(p.numel() for p in GaussianNND(NNDConfig()).parameters())
        said = f"{count:,} trained parameters"
        ax.text(0.585, 0.06, said, ha="center", size=9.2, color=SOFT)
        return save_both(figure, stem)


def _words() -> dict[str, tuple[str, str]]:
    """Title and text of every box, with the model's numbers."""
    config = NNDConfig()
    steps = substeps(DT, config.max_dt)
    return {
        "scene": ("Gaussian scene", "one object's\nGaussians;\nthe rest is static"),
        "state": ("State Z", f"{DIM} channels:\np, q, v, ω, s, u,\nm, e, μ"),
        "flow": (
            "Continuous motion",
            f"gravity, damping,\nq' = q ⊗ ω / 2, scale restoration\n{steps} RK4 substeps a frame",
        ),
        "f": ("Learned residual f_θ", f"{DIM} → {config.hidden} → {config.hidden} → 9\nα tanh(·)"),
        "floor": (
            "Floor event y = 0",
            "hit: p_y ≤ |s_y|, v_y < 0\n−e v_y, (1 − μ) v,\n(1 − μ/2) ω",
        ),
        "h": ("Learned residual h_φ", f"{DIM} → {config.hidden} → 6\nα_imp tanh(·), at hits"),
        "moved": ("Moved Gaussians", "g' = A (g − p₀) + p\nΣ' = A Σ Aᵀ"),
    }


def _box(ax: Any, name: str, title: str, lines: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y, width, height, color = BOXES[name]
    corner = (x - width / 2, y - height / 2)
    shape = FancyBboxPatch(
        corner, width, height, boxstyle="round,pad=0,rounding_size=0.012",
        facecolor=color, edgecolor=FRAME, linewidth=1.1, mutation_aspect=SIZE[0] / SIZE[1],
    )  # fmt: skip
    ax.add_patch(shape)
    ax.text(x, y + height / 2 - 0.065, title, ha="center", weight="bold", size=10.5, color=INK)
    middle = y - 0.035
    ax.text(x, middle, lines, ha="center", va="center", size=9.2, color=SOFT, linespacing=1.45)


def _at(name: str, side: tuple[float, float]) -> tuple[float, float]:
    x, y, width, height, _ = BOXES[name]
    return x + side[0] * width / 2, y + side[1] * height / 2


def _arrow(
    ax: Any, start: str, end: str, leaves: tuple[float, float], arrives: tuple[float, float]
) -> None:
    style = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 2, "shrinkB": 2}
    ax.annotate("", _at(end, arrives), _at(start, leaves), arrowprops=style)


def _again(ax: Any) -> None:
    """The arrow back: the next substep starts from what the floor left."""
    style = {
        "arrowstyle": "-|>", "color": SOFT, "linewidth": 1.1, "linestyle": "--",
        "connectionstyle": "arc3,rad=0.22", "shrinkA": 2, "shrinkB": 2,
    }  # fmt: skip
    ax.annotate("", _at("flow", (0.4, 1)), _at("floor", (-0.4, 1)), arrowprops=style)
    ax.text(0.585, 0.955, "next substep", ha="center", size=9, color=SOFT)
