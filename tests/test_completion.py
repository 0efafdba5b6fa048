"""A selection made whole: inside and seam join the object, floaters go, the rest stays."""

from typing import NamedTuple

import pytest
import torch

import newtongs
from newtongs.scene import GaussianScene
from newtongs.scene.gaussians import join
from newtongs.scene.similarity import moved
from newtongs.segment.cutout.completion import look_around, shared
from newtongs.segment.floor.finding import find_floor


def ball(radius=0.3, n=3000, seed=0, scale=0.012, opacity=0.95):
    """Gaussians on a sphere around the origin."""
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
    x = radius * torch.nn.functional.normalize(x, dim=-1)
    return GaussianScene.make(
        means=x, scales=torch.full((n,), scale), opacities=torch.full((n,), opacity)
    )


def plate(half=2.0, n=12000):
    x = half * (2 * torch.rand(n, 3, generator=torch.Generator().manual_seed(9)) - 1)
    x[:, 1] = 0
    return GaussianScene.make(means=x, scales=torch.tensor([0.03, 0.002, 0.03]).expand(n, 3))


UP = torch.tensor([0.0, 0.4, 0.0])  # where the ball's middle is


def scene_and_parts(distance=1.0):
    """A ball with a dark inside and a faint seam, a neighbour, a floater, a floor."""
    parts = {
        "ball": moved(ball(), shift=UP),
        "inside": moved(ball(0.1, 60, 1, scale=0.05), shift=UP),
        "seam": moved(ball(0.32, 100, 2, scale=0.006, opacity=0.2), shift=UP),
        "neighbour": moved(ball(0.3, 3000, 3), shift=UP + torch.tensor([distance, 0.0, 0.0])),
        "floater": moved(ball(0.004, 5, 4, scale=0.01), shift=UP + torch.tensor([0.0, 0.37, 0.0])),
        "floor": plate(),
    }
    of = torch.cat([torch.full((len(s),), i) for i, s in enumerate(parts.values())])
    return join(*parts.values()), {name: of == i for i, name in enumerate(parts)}


class Completion(NamedTuple):
    mask: torch.Tensor
    floaters: torch.Tensor


def complete(scene, mask, floor, taken=None):
    """A selection with its inside and its seam, and the floaters around it."""
    found = look_around(scene, mask, floor, taken=taken)
    whole, alone = mask.clone(), torch.zeros_like(mask)
    if found is not None:
        own, floaters = shared(found)
        whole[found.rows[own]], alone[found.rows[floaters]] = True, True
    return Completion(whole, alone)


def share(mask, part):
    return float(mask[part].float().mean())


def test_inside_and_seam_join_the_object_and_floaters_go():
    scene, parts = scene_and_parts()
    floor = find_floor(scene, up=(0, 1, 0))
    found = complete(scene, parts["ball"], floor)
    assert share(found.mask, parts["ball"]) == 1
    assert share(found.mask, parts["inside"]) == 1
    assert share(found.mask, parts["seam"]) > 0.95
    assert share(found.floaters, parts["floater"]) == 1
    for name in ("neighbour", "floor"):
        assert share(found.mask | found.floaters, parts[name]) == 0


def test_a_neighbour_that_touches_keeps_its_own():
    scene, parts = scene_and_parts(distance=0.62)
    floor = find_floor(scene, up=(0, 1, 0))
    found = complete(scene, parts["ball"], floor, taken=parts["neighbour"])
    assert share(found.mask | found.floaters, parts["neighbour"]) == 0
    free = complete(scene, parts["ball"], floor)
    assert share(free.mask, parts["neighbour"]) < 0.05


def test_size_and_direction_do_not_matter():
    scene, parts = scene_and_parts()
    plain = complete(scene, parts["ball"], find_floor(scene, up=(0, 1, 0)))
    turn = torch.nn.functional.normalize(torch.tensor([0.3, -0.5, 0.7, 0.1]), dim=0)
    other = moved(scene, turn=turn, scale=40.0, shift=torch.tensor([7.0, -3.0, 2.0]))
    up = newtongs.base.rotations.rotate(turn, torch.tensor([0.0, 1.0, 0.0]))
    found = complete(other, parts["ball"], find_floor(other, up=up.tolist()))
    assert (found.mask != plain.mask).float().mean() < 2e-3


@pytest.mark.slow
def test_animate_takes_the_ghost_along_unless_told_not_to():
    scene, parts = scene_and_parts()
    x, y, z = UP.tolist()
    words = {"up": (0, 1, 0), "seconds": 0.2, "select": f"sphere:{x},{y},{z},0.305"}
    whole = newtongs.animate(scene, **words)
    kept = newtongs.animate(scene, complete=False, **words)
    moving = [int((a.scene.ids == 0).sum()) for a in (whole, kept)]
    assert moving[1] == int((parts["ball"] | parts["inside"]).sum())  # what the sphere holds
    assert moving[0] > moving[1]
    assert whole.about.ghosts_removed == int(parts["floater"].sum())


def test_nothing_to_complete():
    scene = ball()
    floor = find_floor(scene, up=(0, 1, 0))
    everything = torch.ones(len(scene), dtype=torch.bool)
    found = complete(scene, everything, floor)
    assert found.mask.all()
    assert not found.floaters.any()
    one = torch.zeros(len(scene), dtype=torch.bool)
    one[0] = True
    assert torch.equal(complete(scene, one, floor).mask, one)
