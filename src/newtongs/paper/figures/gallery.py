"""Pictures of Gaussian-32: the ten templates, their motions, and the stored views."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...base import state
from ...base.files import write_atomically
from ...base.types import Array, Progress
from ...render import render
from ...render.light import render_light
from ...samples import TEMPLATES, Template
from ...scene.cameras import Camera, look_at
from ...scene.gaussians import GaussianScene, join
from ...scene.transform import transform_sequence
from ..datasets import gaussian32, gaussian_sample
from .motions import import_pyplot

FRAMES_SHOWN = 6
CLEARANCE = gaussian32.RANGES.clearance[0]  # above the floor, at rest
# Four motions for each template. Four families are omitted: their formulas have no floor, and an
# object that falls through it cannot be seen.
MOTIONS: dict[str, tuple[str, ...]] = {
    "living_room_table": (
        "rolling_with_friction", "stop_and_go_motion", "two_stage_motion", "throw_and_land",
    ),
    "studio_tabletop": (
        "3d_rotation", "tumbling_fall", "size_changing", "pendulum_damped_oscillation",
    ),
    "sunny_park": (
        "bouncing_on_plane", "damped_bouncing", "throw_and_land", "wind_drag_projectile",
    ),
    "kitchen_counter": (
        "free_fall", "non_rigid_deformation", "pendulum_damped_oscillation", "sliding_then_stop",
    ),
    "orbit_space": (
        "circular_orbital_motion", "orbit_with_precession", "spiral_orbit_decay",
        "nonlinear_force_field",
    ),
    "playroom_floor": (
        "hybrid_collision_impulse", "rolling_then_collision", "scale_pulse",
        "3d_uniform_motion",
    ),
    "desk_blue_sphere": (
        "damped_bouncing", "spring_oscillation", "figure_eight_flight", "helical_flight",
    ),
    "construction_floor": (
        "airplane_flight", "tumbling_fall", "bouncing_on_plane", "rolling_then_collision",
    ),
    "lab_table_cylinder": (
        "banked_airplane_turn", "rolling_with_friction", "scale_pulse", "free_fall",
    ),
    "display_orange_pyramid": (
        "3d_rotation", "non_rigid_deformation", "vertical_launch", "spring_oscillation",
    ),
}  # fmt: skip


def gaussian32_gallery(folder: Path | str, *, progress: Progress | None = None) -> list[Path]:
    """Draw every picture of the documentation page; returns their paths."""
    out, jobs = Path(folder), list(TEMPLATES.values())
    paths = [template_sheet(out / "gaussian32_templates.png")]
    paths.append(stored_views_sheet(out / "gaussian32_views.png"))
    for done, chosen in enumerate(jobs, start=1):
        paths.append(motion_strips(out / f"gaussian32_{chosen.scene_id}.png", chosen))
        if progress:
            progress("pictures", done, len(jobs))
    return paths


def template_sheet(path: Path | str) -> Path:
    """All ten templates with their true covariances, from closer than the data set's cameras."""
    chosen = list(TEMPLATES.values())
    pictures = [portrait(t, size=260) for t in chosen]
    titles = [f"{t.scene_id}\n{t.thing}" for t in chosen]
    return sheet(path, [pictures[:5], pictures[5:]], titles=[titles[:5], titles[5:]])


def portrait(chosen: Template, *, size: int) -> Array:
    """One template at rest on its floor, from a corner: RGB ``(size, size, 3)`` in [0, 1]."""
    scale = 0.9
    z = state.make(p=(0.0, 0.5 * scale + CLEARANCE, 0.0), s=(scale, scale, scale))
    camera = look_at((1.55, 1.15, 2.75), (0.0, 0.55, 0.0), width=size, height=size, fov=44)
    return ewa_frames(chosen, z.unsqueeze(0), [camera])[0]


def motion_strips(path: Path | str, chosen: Template, *, size: int = 170) -> Path:
    """Six evenly spaced frames of four motions, from the sample's own first camera."""
    rows = []
    for name in MOTIONS[chosen.scene_id]:
        item = gaussian32.items([chosen.scene_id], [name])[0]
        states = gaussian32.sequence(item).states[0]
        camera = enlarged(gaussian32.cameras_for(states, chosen)[0], size)
        shown = torch.linspace(0, len(states) - 1, FRAMES_SHOWN).round().long()
        rows.append(ewa_frames(chosen, states[shown], [camera] * FRAMES_SHOWN))
    labels = [name.replace("_", " ") for name in MOTIONS[chosen.scene_id]]
    times = [f"{k * gaussian32.DT:.2f} s" for k in shown.tolist()]
    return sheet(path, rows, titles=[times], labels=labels)


def stored_views_sheet(path: Path | str) -> Path:
    """The stored views of the light renderer: four views of 128 x 128 for each template."""
    columns = []
    for item in gaussian32.items(None, ["damped_bouncing"]):
        states = gaussian32.sequence(item).states[0]
        scene, means, _ = moved_scene(item.template, states[12:13])
        cameras = gaussian32.cameras_for(states, item.template)
        color, _, _ = render_light(
            means, scene.colors, scene.opacities, cameras, background=item.template.color
        )
        columns.append([view.numpy() for view in color[0]])
    titles = [name.replace("_", "\n", 1) for name in TEMPLATES]
    rows = [[column[view] for column in columns] for view in range(gaussian_sample.VIEWS)]
    return sheet(path, rows, titles=[titles], labels=[f"view {k}" for k in range(len(rows))])


def enlarged(camera: Camera, size: int) -> Camera:
    """The same view with ``size`` pixels a side."""
    K = camera.K.clone()
    K[:2] *= size / camera.width
    return Camera(K, camera.w2c, size, size)


def moved_scene(chosen: Template, states: Tensor) -> tuple[GaussianScene, Tensor, Tensor]:
    """Object and background with means ``(T, N, 3)`` and covariances at states ``(T, 22)``."""
    thing, place = chosen.object, chosen.background
    g, c = transform_sequence(thing.means, thing.covariances, state.make(), states)
    still = [x.expand(len(states), *x.shape) for x in (place.means, place.covariances)]
    return join(thing, place), torch.cat([g, still[0]], 1), torch.cat([c, still[1]], 1)


def ewa_frames(chosen: Template, states: Tensor, cameras: Sequence[Camera]) -> list[Array]:
    """Pictures of states ``(T, 22)``, one camera each, with true covariances."""
    scene, means, covariances = moved_scene(chosen, states)
    pictures = (
        render(scene, camera, backend="ewa", background=chosen.color, means=g, covariances=c)
        for camera, g, c in zip(cameras, means, covariances, strict=True)
    )
    return [picture.color.clamp(0, 1).numpy() for picture in pictures]


def sheet(
    path: Path | str,
    rows: Sequence[Sequence[Array]],
    *,
    titles: Sequence[Sequence[str]],
    labels: Sequence[str] = (),
) -> Path:
    """Write pictures in a grid, with titles above rows and labels at the left."""
    pyplot = import_pyplot()
    height, width = rows[0][0].shape[:2]
    left = 0.2 if labels else 0.0
    inches = (width * len(rows[0]) / 100 + left, height * len(rows) / 100 + 0.36 * len(titles))
    figure, axes = pyplot.subplots(len(rows), len(rows[0]), figsize=inches, squeeze=False)
    for i, row in enumerate(rows):
        for j, picture in enumerate(row):
            axes[i, j].imshow(picture, interpolation="nearest")
            axes[i, j].set(xticks=[], yticks=[])
            axes[i, j].spines[:].set_visible(False)
            if i < len(titles):
                axes[i, j].set_title(titles[i][j], fontsize=7, pad=2)
        if labels:
            axes[i, 0].set_ylabel(labels[i], fontsize=7, labelpad=2)
    figure.tight_layout(pad=0.15, w_pad=0.15, h_pad=0.15)
    _save_small(figure, Path(path))
    pyplot.close(figure)
    return Path(path)


def _save_small(figure: Any, path: Path) -> None:
    """Write a .png of 256 colours: a third of the size without a visible difference."""
    from PIL import Image  # comes with matplotlib

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100, format="png")
    full = Image.open(drawn).convert("RGB")
    # Dithering needs an existing palette; this one keeps the colours of small objects.
    palette = full.quantize(256, method=Image.Quantize.MAXCOVERAGE)
    small = full.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)
    write_atomically(path, lambda f: small.save(f, format="png", optimize=True))
