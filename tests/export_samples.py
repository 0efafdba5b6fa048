"""Animations to export: a ball in a park, and random scenes with every difficulty at once."""

import math

import torch

from newtongs.base import rotations, state
from newtongs.samples import template
from newtongs.scene import GaussianScene, join
from newtongs.scene.animation import About, Animation, ObjectAbout
from newtongs.scene.world_frame import WorldFrame

ABOUT = About(
    version="0",
    objects=(ObjectAbout(3, "a test", (1.0, 2.0, 0.5)),),
    planes=((0.0, 1.0, 0.0, 2.0),),
)


def bouncing(frames=13, *, seconds=1.5, height=1.2, q0=(1.0, 0, 0, 0), turn=7.0, squash=0.25):
    """States ``(T, 22)`` of something that hops along x, spins and is squashed and stretched."""
    t = torch.linspace(0, seconds, frames).double()
    hop = (math.pi * 1.5 * t / seconds).sin().abs()
    start = torch.tensor(q0).double()
    axis = torch.tensor([0.3, 0.2, -1.0]).double().expand(frames, 3)
    spin = rotations.multiply(rotations.from_axis_angle(axis, turn * t), start.expand(frames, 4))
    spin[1::3] *= -1  # the same rotations; a player that mixes neighbours must not see it
    stretch = torch.stack([1 - squash * hop, 1 + squash * hop, 1 + 0.5 * squash * t], -1)
    p = torch.stack([1.2 * t / seconds - 0.6, 0.5 + height * hop, 0.1 * t], -1)
    return t.float(), state.make(p=p, q=spin, s=0.8 * stretch).float()


def park(frames=13):
    """The soccer ball of the park, thrown; y is up."""
    thing = template("sunny_park")
    t, z = bouncing(frames)
    ball = thing.object.replace(ids=torch.full((len(thing.object),), 3))
    first = {"means": ball.means * 0.8 + z[0, :3], "log_scales": ball.log_scales + math.log(0.8)}
    scene = join(thing.background, ball.replace(**first))
    return Animation(scene, t, {3: z}, about=ABOUT)


def random_scene(n, *, ids=-1, degree=3, seed=0, center=(0.0, 0.0, 0.0), spread=0.4):
    """Needles and pancakes of every direction, with view-dependent colour."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g)

    return GaussianScene.make(
        means=torch.tensor(center) + spread * normal(n, 3),
        scales=(0.9 * normal(n, 3) - 3.2).exp(),
        quats=normal(n, 4),
        opacities=normal(n).sigmoid(),
        # Colours within 0 and 1 from all sides: some viewers cut them off there, we do so at 0.
        sh=0.12 * normal(n, (degree + 1) ** 2, 3).clamp(-2, 2),
        ids=ids,
    )


def two_objects(frames=9, *, degree=3, n=40, seed=0):
    """Two objects in a z-up capture; initial quaternions are not unit, scale changes unevenly."""
    world = WorldFrame.of_floor((0.1, -0.2, 1.0), 0.3, scale=1.7)
    times, a = bouncing(frames, q0=(0.4, -0.9, 0.5, 1.3))
    _, b = bouncing(frames, q0=(-0.2, 0.1, 0.6, 0.2), turn=-11.0, squash=-0.6, height=0.5)
    states = {7: world.state_to_scene(a), 2: world.state_to_scene(b)}
    objects = [
        random_scene(n + i, ids=i, degree=degree, seed=seed + i, center=states[i][0, :3].tolist())
        for i in states
    ]
    still = random_scene(2 * n, degree=degree, seed=seed + 99, spread=2.0)
    crate = random_scene(11, ids=5, degree=degree, seed=seed + 5)  # an object that never moves
    scene = join(still, objects[0], crate, objects[1])
    mixed = scene[torch.randperm(len(scene), generator=torch.Generator().manual_seed(seed))]
    return Animation(mixed, times, states, world, About(seed=seed))


def covariances(scene):
    """``(N, 3, 3)`` in float64."""
    m = rotations.to_matrix(scene.quats.double()) * scene.log_scales.double().exp().unsqueeze(-2)
    return m @ m.mT


def reference_frame(animation, t):
    """Means, covariances and SH turns of frame ``t`` by the formula, in float64."""
    scene = animation.scene
    means, sigma = scene.means.double().clone(), covariances(scene)
    for index, z in animation.states.items():
        z = z.double()
        rows = scene.ids == index
        q0, q = (rotations.to_matrix(rotations.normalize(z[i, 3:7])) for i in (0, t))
        A = q @ torch.diag(z[t, 13:16] / z[0, 13:16]) @ q0.T
        means[rows] = (means[rows] - z[0, :3]) @ A.T + z[t, :3]
        sigma[rows] = A @ sigma[rows] @ A.T
    return means, sigma


def relative(got, wanted):
    """Largest difference of matrices relative to the largest entry of each."""
    size = wanted.abs().amax((-1, -2), keepdim=True)
    return float(((got - wanted).abs() / size).max())
