"""The same scene code on a CUDA device: every answer is the CPU's, and stays where it was asked."""

import math
from importlib.util import find_spec

import pytest
import torch

from newtongs.base import rotations
from newtongs.base.state import make, project
from newtongs.exports.films import film
from newtongs.formats import load, save
from newtongs.pipeline.run import animate
from newtongs.render import render, render_frames
from newtongs.samples import template
from newtongs.scene import (
    GaussianScene,
    WorldFrame,
    join,
    lift,
    orbit,
    transform,
    transform_sequence,
)
from newtongs.scene.frames import frames
from newtongs.scene.lifting import lift_sequence
from newtongs.segment import cluster, find_floor, membership, select
from newtongs.segment.objects.grouping import group_by_masks, remove

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

FIELDS = ("means", "quats", "log_scales", "logits", "sh", "ids")
CAMERAS = orbit((0, 0.5, 0), views=3, width=96, height=80)


@pytest.fixture(scope="module")
def scene():
    """A park with an egg in place of the ball, whose axes are distinct, and shiny colours."""
    torch.manual_seed(0)
    park = template("sunny_park").scene()
    egg = (park.ids == 0).unsqueeze(-1)
    return park.replace(
        means=torch.where(egg, park.means * torch.tensor([1.0, 1.3, 0.8]), park.means),
        sh=torch.cat([park.sh, 0.1 * torch.randn(len(park), 15, 3)], 1),
    )


@pytest.fixture(scope="module")
def there(scene):
    return scene.to("cuda")


def path(z0, frames=5):
    """States (frames, 22) that go, turn and stretch."""
    t = torch.linspace(0, 1, frames).unsqueeze(-1).to(z0)
    turned = rotations.normalize(z0[3:7] + t * torch.tensor([0.1, 0.5, -0.2, 0.3]).to(z0))
    z = z0.expand(frames, 22).clone()
    z[:, :3] += t * torch.tensor([1.0, 0.5, -0.3]).to(z0)
    z[:, 3:7] = turned
    z[:, 13:16] *= 1 + t * torch.tensor([0.2, -0.3, 0.1]).to(z0)
    return z


def assert_near(a, b, tolerance=1e-5):
    assert a.is_cuda
    torch.testing.assert_close(a.cpu(), b, atol=tolerance, rtol=tolerance)


def assert_same_scene(a, b, tolerance=1e-5):
    assert a.device.type == "cuda"
    for name in FIELDS:
        assert_near(getattr(a, name), getattr(b, name), tolerance)


def test_there_and_back(scene, there):
    for name in FIELDS:
        assert getattr(there, name).is_cuda
        assert torch.equal(getattr(there.to("cpu"), name), getattr(scene, name))


def test_container(scene, there):
    mask = scene.means[:, 0] > 0
    assert_same_scene(there[mask], scene[mask], 0)
    assert_same_scene(there[mask.numpy()], scene[mask], 0)
    assert_same_scene(there[3:9], scene[3:9], 0)
    assert_same_scene(join(there[:5], there[5:]), scene, 0)
    assert_same_scene(there.object(0), scene.object(0), 0)
    assert there.object_ids == scene.object_ids
    assert_near(there.covariances, scene.covariances)
    for a, b in zip(there.bounds(sigmas=2), scene.bounds(sigmas=2), strict=True):
        assert_near(a, b)
    made = GaussianScene.make(means=there.means, scales=scene.scales, opacities=scene.opacities)
    assert made.device.type == "cuda"


def test_files(there, scene, tmp_path):
    save(there, tmp_path / "a.ply")
    save(scene, tmp_path / "b.ply")
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()
    assert_same_scene(load(tmp_path / "a.ply").to("cuda"), load(tmp_path / "b.ply"), 0)


def test_grouping(scene, there):
    masks = torch.zeros(len(CAMERAS), 80, 96, dtype=torch.bool)
    masks[:, 20:60, 30:70] = True
    assert_near(membership(there, masks, CAMERAS), membership(scene, masks, CAMERAS), 0)
    grouped = group_by_masks(there, masks.cuda(), CAMERAS)
    assert torch.equal(grouped.cpu(), group_by_masks(scene, masks, CAMERAS))
    assert len(remove(there, scene.ids == 0)) == (scene.ids != 0).sum()


@pytest.mark.parametrize("spec", ["auto", "all", "id:0", "sphere:0,0.5,0,0.6", "box:-1,0,-1,1,1,1"])
def test_selection(scene, there, spec):
    a = select(there, spec, floor=find_floor(there))
    b = select(scene, spec, floor=find_floor(scene))
    assert torch.equal(a.mask.cpu(), b.mask)


def test_floor_and_clusters(scene, there):
    a, b = find_floor(there), find_floor(scene)
    torch.testing.assert_close(
        torch.as_tensor(a.up).cpu(), torch.as_tensor(b.up), atol=1e-4, rtol=0
    )
    assert a.height == pytest.approx(b.height, abs=1e-3)
    assert len(cluster(there, a)) == len(cluster(scene, b))


def test_lifting(scene, there):
    """Signs of the axes are an eigensolver's choice; ``near`` decides them."""
    a, b = lift(there.object(0)), lift(scene.object(0))
    for at in (slice(0, 3), slice(13, 16)):
        assert_near(a[at], b[at])
    axes = [rotations.to_matrix(z[3:7]).abs() for z in (a, b)]
    assert_near(*axes, 1e-3)
    steps = torch.arange(3).view(3, 1, 1)
    a, b = (
        lift_sequence(
            x.object(0).means + steps.to(x.means),
            x.object(0).opacities,
            times=torch.arange(3) / 24,
            tracked=True,
            near=b[3:7],
        )
        for x in (there, scene)
    )
    assert_near(a, b, 1e-3)


def test_transform(scene, there):
    z = path(lift(scene.object(0)))
    moved = transform(there, z[0].cuda(), z[-1].cuda(), object=0)
    assert_same_scene(moved, transform(scene, z[0], z[-1], object=0), 1e-4)
    assert_same_scene(transform(there, z[0], z[-1], object=0), moved.to("cpu"), 1e-4)
    thing = scene.object(0)
    for a, b in zip(
        transform_sequence(thing.means.cuda(), thing.covariances.cuda(), z[0].cuda(), z.cuda()),
        transform_sequence(thing.means, thing.covariances, z[0], z),
        strict=True,
    ):
        assert_near(a, b)


def test_frames_and_pictures(scene, there):
    """The renderers that run without gsplat take a scene from the GPU, too."""
    z = path(lift(scene.object(0)))
    here, away = frames(scene, z[0], z, object=0), frames(there, z[0].cuda(), z.cuda(), object=0)
    for a, b in zip(away, here, strict=True):
        assert_near(a.means, b.means)
        assert_near(a.covariances, b.covariances)
        assert_near(a.sh, b.sh, 1e-4)
    for backend in ("light", "ewa"):
        pictures = [list(render_frames(x, CAMERAS[0], backend=backend)) for x in (away, here)]
        for a, b in zip(*pictures, strict=True):
            torch.testing.assert_close(a.color.cpu(), b.color, atol=2e-3, rtol=0)
        picture = render(there, CAMERAS[0], backend=backend, background=torch.zeros(3))
        torch.testing.assert_close(
            picture.color.cpu(),
            render(scene, CAMERAS[0], backend=backend, background=(0, 0, 0)).color,
            atol=2e-3,
            rtol=0,
        )


def test_world_frame(scene, there):
    world = WorldFrame.of_floor((0, 0.8, 0.6), 0.3, scale=2.0)
    assert_near(world.to_physics(there.means), world.to_physics(scene.means))
    z = path(lift(scene.object(0)))
    assert_near(world.state_to_physics(z.cuda()), world.state_to_physics(z))
    assert_near(world.state_to_scene(z.cuda()), world.state_to_scene(z))


def test_animate(scene, there):
    """The command's path works on the CPU, whatever it is given."""
    a, b = (animate(x, velocity=(1, 2, 0), seconds=0.5) for x in (there, scene))
    for k, z in b.states.items():
        torch.testing.assert_close(a.states[k].cpu(), z)


def test_an_animation_goes_to_the_device_whole():
    """Hidden ones, mended ones and shadows too."""
    animation = animate("sunny_park", velocity=(1, 2, 0), seconds=0.2)
    here, away = animation.frames(), animation.frames().to("cuda")
    for a, b in zip(away, here, strict=True):
        assert_near(a.means, b.means)
        assert_near(a.opacities, b.opacities)
        assert_near(a.shade, b.shade)
    for backend in ("light", "ewa"):
        pictures = [list(render_frames(x, CAMERAS[0], backend=backend)) for x in (away, here)]
        for a, b in zip(*pictures, strict=True):
            torch.testing.assert_close(a.color.cpu(), b.color, atol=2e-3, rtol=0)


@pytest.mark.skipif(not find_spec("gsplat"), reason="needs gsplat")
def test_a_film_by_gsplat():
    """From the scene that the command line has, which is on the CPU."""
    animation = animate("sunny_park", velocity=(1, 2, 0), seconds=0.2)
    made = []
    for backend in ("gsplat", "ewa"):
        with film(animation, CAMERAS[0], backend=backend, background=(1, 1, 1)) as pictures:
            made.append(pictures.astype(float) / 255)
    assert -10 * math.log10(((made[0] - made[1]) ** 2).mean()) > 45


def test_states_on_the_device():
    z = make(p=torch.randn(4, 3, device="cuda"), v=(1.0, 0, 0))
    assert z.is_cuda
    assert_near(project(z), project(z.cpu()), 1e-6)
