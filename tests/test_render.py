"""The renderers: ewa against a float64 reference, light against a literal loop, laws of both."""

import itertools
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from render_reference import draw, draw_with_margin, spherical_harmonics

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.base.state import make as make_state
from newtongs.render import Rendering, render, render_frames, scenes, splat
from newtongs.render.light import render_light
from newtongs.render.splat import make_splat
from newtongs.scene import Camera, GaussianScene, join, orbit, sh
from newtongs.scene.cameras import look_at
from newtongs.scene.frames import AnimatedScene

SKY = (0.25, 0.5, 0.875)  # exact in float32


def psnr(a, b):
    return -10 * math.log10((a.double() - b.double()).square().mean().clamp_min(1e-30))


def random_scene(n, *, means=None, scales=0.06, opacities=None, degree=3):
    return GaussianScene.make(
        means=torch.randn(n, 3) if means is None else means,
        scales=torch.as_tensor(scales) * torch.randn(n, 3).exp(),
        quats=torch.randn(n, 4),
        opacities=torch.rand(n) if opacities is None else opacities,
        sh=0.4 * torch.randn(n, (degree + 1) ** 2, 3),
    )


CAMERA = orbit((0, 0, 0), radius=4, width=75, height=50)[0]  # no multiple of the tiles
SCENES = {
    "SH 3": lambda: random_scene(400),
    "SH 2": lambda: random_scene(400, degree=2),
    "SH 1": lambda: random_scene(400, degree=1),
    "SH 0": lambda: random_scene(400, degree=0),
    "needles": lambda: random_scene(400, scales=[1e-4, 1e-3, 1.0]),
    "pancakes": lambda: random_scene(200, scales=[1e-5, 0.3, 0.3]),
    "points": lambda: random_scene(400, scales=1e-7),
    "opaque": lambda: random_scene(400, scales=0.2, opacities=torch.ones(400)),
    "faint": lambda: random_scene(400, scales=0.2, opacities=0.02 * torch.rand(400)),
    "around the camera": lambda: random_scene(
        400, means=CAMERA.position + 0.3 * torch.randn(400, 3), scales=0.1
    ),
    "big and near": lambda: random_scene(
        60, means=CAMERA.position * 0.9 + 0.2 * torch.randn(60, 3), scales=1.0
    ),
}


def assert_like_reference(scene, camera, **given):
    """Equal wherever rounding cannot decide whether a contribution counts; that is nearly all."""
    splat = make_splat(scene, camera, SKY, **given)
    expected, margin = draw_with_margin(splat)
    picture = render(scene, camera, backend="ewa", background=SKY, **given)
    clear = margin > 1e-4
    assert clear.float().mean() > 0.95
    assert expected.alpha.max() > 0.02  # something is to be seen
    for name in ("color", "alpha"):
        error = (getattr(picture, name) - getattr(expected, name)).abs()
        assert error[clear].max() < 1e-5, name
        assert error.max() < 2e-2, name
    seen = clear & (expected.alpha > 1e-2)
    error = (picture.depth - expected.depth).abs() / expected.depth.clamp_min(1e-3)
    assert not seen.any() or error[seen].max() < 1e-4


@pytest.mark.parametrize("kind", SCENES)
def test_ewa_is_the_reference(kind):
    assert_like_reference(SCENES[kind](), CAMERA)


def test_ewa_with_another_lens():
    """Principal point off the middle, unequal focal lengths, sizes below and above a tile."""
    for width, height in ((7, 5), (16, 16), (17, 33)):
        K = torch.tensor([[60.0, 0, 0.3 * width], [0, 45.0, 0.8 * height], [0, 0, 1]])
        assert_like_reference(random_scene(300, scales=0.2), Camera(K, CAMERA.w2c, width, height))


def test_ewa_takes_covariances_and_colours():
    scene = random_scene(300)
    turned = scene.covariances @ torch.diag(torch.tensor([1.0, 2.0, 0.5])) ** 2
    turned = turned @ turned.mT  # any symmetric positive matrices
    assert_like_reference(scene, CAMERA, covariances=turned, means=scene.means + 0.3)
    assert_like_reference(scene, CAMERA, colors=torch.rand(300, 3))
    assert_like_reference(scene, CAMERA, sh=torch.randn(300, 16, 3))


def test_scene_and_its_own_values_give_one_picture():
    scene = random_scene(300, degree=0)
    plain = render(scene, CAMERA, backend="ewa")
    x = scene.covariances
    packed = x[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    for given in (
        {"means": scene.means}, {"covariances": x}, {"covariances": packed}, {"sh": scene.sh},
        {"colors": scene.colors.clamp_min(0)},
    ):  # fmt: skip
        other = render(scene, CAMERA, backend="ewa", **given)
        assert (other.color - plain.color).abs().max() < 1e-4, given.keys()


def test_needle_across_the_picture_is_exact():
    """A thousand pixels long at 45 degrees: the usual quadratic form loses all digits here."""
    camera = look_at((0, 0, 4.0), (0, 0, 0), width=600, height=600)
    turn = rotations.from_axis_angle(torch.tensor([[0.0, 0, 1]]), torch.tensor([math.pi / 4]))
    scene = GaussianScene.make(means=[[0.0, 0, 0]], scales=[[20.0, 1e-4, 1e-4]], quats=turn)
    expected, margin = draw_with_margin(make_splat(scene, camera, SKY))
    error = (render(scene, camera, backend="ewa", background=SKY).color - expected.color).abs()
    assert error.amax(-1)[margin > 1e-3].max() < 2e-4


def test_reference_harmonics_are_the_scenes():
    d = torch.nn.functional.normalize(torch.randn(100, 3, dtype=torch.float64), dim=-1)
    assert torch.allclose(spherical_harmonics(d, 16), sh.basis(d), atol=1e-13)


def test_reference_of_one_gaussian_is_the_formula():
    camera = look_at((0, 0, 5.0), (0, 0, 0), width=21, height=21, fov=50)
    scene = GaussianScene.make(means=[[0.0, 0, 0]], scales=[0.3], opacities=[0.6])
    f, picture = float(camera.K[0, 0]), draw(make_splat(scene, camera, (0, 0, 0)))
    variance = (0.3 * f / 5) ** 2 + 0.3
    d = torch.arange(21) + 0.5 - 10.5
    alpha = 0.6 * torch.exp(-(d[:, None] ** 2 + d**2) / (2 * variance))
    alpha = torch.where(alpha >= 1 / 255, alpha, 0.0)
    assert torch.allclose(picture.alpha, alpha.double(), atol=1e-6)
    assert torch.allclose(
        picture.color, 0.5 * alpha[..., None].double().expand(-1, -1, 3), atol=1e-6
    )
    assert torch.allclose(picture.depth[alpha > 0], torch.tensor(5.0).double(), atol=1e-5)


@pytest.mark.parametrize("backend", ["ewa", "steady", "light"])
def test_nothing_to_see_is_background(backend):
    inf, nan = math.inf, math.nan
    behind = GaussianScene.make(means=CAMERA.position[None] * 1.5, scales=[0.1])
    empty = random_scene(5)[:0]
    bad = GaussianScene.make(means=[[nan, 0, 0], [inf, 0, 0], [0, 0, -inf]], scales=[0.1, 0.1, 0.1])
    invisible = GaussianScene.make(means=[[0.0, 0, 0]], scales=[0.1], opacities=[0.0])
    for scene in (behind, empty, bad, invisible):
        picture = render(scene, CAMERA, backend=backend, background=SKY)
        assert torch.equal(picture.color, torch.tensor(SKY).expand(50, 75, 3))
        assert not picture.alpha.any()
        assert not picture.depth.any()


@pytest.mark.parametrize("backend", ["ewa", "steady"])
def test_bad_gaussians_leave_the_others_alone(backend):
    scene = random_scene(200)
    bad = random_scene(4, means=torch.tensor([[math.nan, 0, 0], [0, math.inf, 0]] * 2))
    one, nan = random_scene(1), torch.tensor([math.nan])
    bad = join(bad, one.replace(log_scales=nan.expand(1, 3)), one.replace(logits=nan))
    a, b = (render(s, CAMERA, backend=backend) for s in (scene, join(bad, scene)))
    assert torch.equal(a.color, b.color)


def test_near_hides_far():
    means = [[0.0, 0, 1], [0, 0, -1]]
    scene = GaussianScene.make(means=means, scales=[5.0, 5.0], colors=[[1.0, 0, 0], [0, 1.0, 0]])
    for z, color in ((4.0, [1.0, 0, 0]), (-4.0, [0, 1.0, 0])):
        picture = render(scene, look_at((0, 0, z), (0, 0, 0), width=32, height=32), backend="ewa")
        assert torch.allclose(picture.color[16, 16], torch.tensor(color), atol=2e-3)
        assert picture.depth[16, 16] == pytest.approx(3, abs=3e-3)


@pytest.mark.parametrize("backend", ["ewa", "steady", "light"])
@pytest.mark.parametrize("up", [(0, 1, 0), (0, -1, 0), (0, 0, 1)])
def test_up_is_up(backend, up):
    """And right is right: seen along -z, +x lies on the right."""
    up = torch.tensor(up).float()
    scene = GaussianScene.make(means=up[None], scales=[0.1], colors=[[0.0, 0, 0]])
    for camera in orbit((0, 0, 0), views=3, width=64, height=64, up=up.tolist()):
        y, x = torch.nonzero(render(scene, camera, backend=backend).alpha > 0.5).float().mean(0)
        assert y < 26
        assert x == pytest.approx(31.5, abs=1)
    scene = GaussianScene.make(means=[[1.0, 0, 0]], scales=[0.1])
    alpha = render(scene, look_at((0, 0, 5), (0, 0, 0), width=64, height=64), backend=backend).alpha
    assert torch.nonzero(alpha > 0.5)[:, 1].min() > 38


def test_renderers_agree_where_a_gaussian_is():
    """To the half pixel that the paper's rounding adds."""
    for _ in range(20):
        scene = GaussianScene.make(means=torch.rand(1, 3) - 0.5, scales=[0.05])
        centres = []
        for backend in ("ewa", "light"):
            alpha = render(scene, CAMERA, backend=backend).alpha
            grid = torch.stack(torch.meshgrid(*map(torch.arange, alpha.shape), indexing="ij"))
            centres.append((alpha * grid).sum((1, 2)) / alpha.sum())
        assert (centres[1] - centres[0] - 0.5).abs().max() < 0.51


@pytest.mark.parametrize("angle", [17.0, 90.0, 233.0])
def test_turning_the_object_and_the_camera_alike_changes_nothing(angle):
    scene = random_scene(500)
    q = rotations.from_axis_angle(torch.randn(3), torch.tensor(math.radians(angle)))
    R = rotations.to_matrix(q.double())
    turned = scene.replace(
        means=rotations.rotate(q, scene.means),
        quats=rotations.multiply(q.expand(500, 4), scene.quats),
        sh=sh.rotate(scene.sh, R),
    )
    w2c = CAMERA.w2c.double().clone()
    w2c[:3, :3] = w2c[:3, :3] @ R.T
    moved = Camera(CAMERA.K, w2c.float(), CAMERA.width, CAMERA.height)
    a = render(scene, CAMERA, backend="ewa").color
    assert psnr(a, render(turned, moved, backend="ewa").color) > 60
    plain = turned.replace(sh=scene.sh)  # colours that do not turn are another picture
    assert psnr(a, render(plain, moved, backend="ewa").color) < 45


def test_threads_do_not_change_the_picture():
    scene = random_scene(500)
    expected = render(scene, CAMERA, backend="ewa")
    with ThreadPoolExecutor(4) as pool:
        for picture in pool.map(lambda _: render(scene, CAMERA, backend="ewa"), range(16)):
            assert torch.equal(picture.color, expected.color)


# --- light ----------------------------------------------------------------------------------------


def literal_light(means, colors, opacities, camera, background, sigma=1.6):
    """Appendix B, word by word, in float64: Gaussian by Gaussian, pixel by pixel."""
    radius, w2c, K = (
        math.ceil(2 * sigma),
        camera.w2c_y_up.double().numpy(),
        camera.K.double().numpy(),
    )
    sums = np.zeros((camera.height, camera.width, 5))
    for x, rgb, o in zip(*(t.double().numpy() for t in (means, colors, opacities)), strict=True):
        x = w2c[:3, :3] @ x + w2c[:3, 3]
        if x[2] <= 0:
            continue
        u = round(K[0, 0] * x[0] / x[2] + K[0, 2])
        v = round(K[1, 1] * -x[1] / x[2] + K[1, 2])
        for j in range(v - radius, v + radius + 1):
            for i in range(u - radius, u + radius + 1):
                w = math.exp(-((i - u) ** 2 + (j - v) ** 2) / (2 * sigma**2)) * o
                if w >= 1e-4 and 0 <= i < camera.width and 0 <= j < camera.height:
                    sums[j, i] += w * np.array([1, x[2], *rgb])
    weight = sums[..., :1]
    alpha, mean = weight.clip(0, 1), sums[..., 1:] / np.maximum(weight, 1e-300)
    color = alpha * mean[..., 1:] + (1 - alpha) * np.array(background)
    return tuple(torch.from_numpy(x) for x in (color, mean[..., 0], alpha[..., 0]))


@pytest.mark.parametrize("sigma", [1.6, 0.7, 2.5])
def test_light_is_the_literal_loop(sigma):
    cameras = orbit((0, 0, 0), views=2, width=45, height=33, radius=2.5)
    means, colors = 1.5 * torch.randn(3, 60, 3), torch.rand(60, 3)
    means[:, 10:20] = 0.1 * torch.randn(3, 10, 3)  # a heap, whose alpha is clamped
    opacities = torch.cat([torch.rand(20), 10 ** (-5 * torch.rand(38)), torch.tensor([0.0, 1.0])])
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        x = means.to(dtype)
        got = render_light(x, colors, opacities, cameras, background=SKY, sigma=sigma)
        for f, c in itertools.product(range(3), range(2)):
            expected = literal_light(means[f], colors, opacities, cameras[c], SKY, sigma)
            assert expected[2].max() == 1
            for a, b in zip(got, expected, strict=True):
                assert a.dtype == dtype
                assert (a[f, c] - b).abs().max() < tolerance


def test_light_shapes_and_batches():
    cameras = orbit((0, 0, 0), views=3, width=40, height=30)
    means, colors, opacities = torch.randn(5, 70, 3), torch.rand(5, 70, 3), torch.rand(5, 70)
    color, depth, alpha = render_light(means, colors, opacities, cameras)
    assert color.shape == (5, 3, 30, 40, 3)
    assert depth.shape == alpha.shape == (5, 3, 30, 40)
    one = render_light(means[3:4], colors[3], opacities[3], cameras[2:])
    assert torch.allclose(one[0][0, 0], color[3, 2], atol=1e-5)
    scene = GaussianScene.make(means=means[3], scales=torch.ones(70), colors=colors[3],
                               opacities=opacities[3])  # fmt: skip
    assert torch.allclose(render(scene, cameras[2], backend="light").color, color[3, 2], atol=1e-5)


def test_light_colours_stay_colours_under_a_heap_of_splats():
    means, rgb = 0.01 * torch.randn(1, 500, 3), torch.rand(500, 3)
    color, depth, alpha = render_light(means, rgb, torch.ones(500), [CAMERA])
    assert alpha.max() == 1
    assert color.max() <= 1 + 1e-5
    middle = alpha[0, 0].flatten() == 1
    assert (depth[0, 0].flatten()[middle] - CAMERA.position.norm()).abs().max() < 0.1


# --- sequences, names, errors ---------------------------------------------------------------------


def test_frames_of_every_kind():
    scene, cameras = (
        random_scene(80).replace(ids=torch.zeros(80)),
        orbit((0, 0, 0), width=32, height=32),
    )
    seen = []
    orbiting = list(render_frames(scene, cameras, backend="ewa", progress=seen.append))
    assert seen == [1, 2, 3, 4]
    assert torch.equal(orbiting[2].color, render(scene, cameras[2], backend="ewa").color)
    means = scene.means + torch.randn(3, 1, 3)
    moved = render_frames(scene, cameras[0], means=means, backend="ewa")
    whole = render_frames([scene.replace(means=x) for x in means], cameras[0], backend="ewa")
    for a, b in zip(moved, whole, strict=True):
        assert torch.equal(a.color, b.color)


def test_frames_of_a_scene_in_motion():
    scene = random_scene(150).replace(ids=torch.arange(150) % 2 - 1)
    z0 = make_state(p=(0.1, 0.2, 0.0), s=(0.5, 0.4, 0.3))
    z = make_state(p=torch.randn(3, 3), q=torch.nn.functional.normalize(torch.randn(3, 4), dim=-1),
                   s=torch.rand(3, 3) + 0.2)  # fmt: skip
    animated = AnimatedScene(scene, z0, z, object=0)
    pictures = render_frames(animated, CAMERA, backend="ewa")
    for t, picture in enumerate(pictures):
        assert psnr(picture.color, render(animated[t], CAMERA, backend="ewa").color) > 60


def test_frames_are_drawn_when_asked_for():
    drawn = []
    frames = render_frames((random_scene(3) for _ in range(9)), CAMERA, progress=drawn.append)
    assert not drawn
    next(frames)
    next(frames)
    assert drawn == [1]  # the second is told when the third is asked for


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda s: render(s, CAMERA, backend="ewe"), "did you mean ewa"),
        (lambda s: render_frames([s], CAMERA, backend="cuda"), "unknown renderer 'cuda'; known"),
        (lambda s: render(CAMERA, s), "takes a GaussianScene, got Camera"),
        (lambda s: render(s, None), "takes a Camera, got NoneType"),
        (lambda s: render(s, CAMERA, means=torch.zeros(4, 3)), r"means: expected shape \(5, 3\)"),
        (lambda s: render(s, CAMERA, covariances=torch.zeros(5, 3)), r"\(5, 3, 3\) or \(5, 6\)"),
        (lambda s: render(s, CAMERA, sh=torch.zeros(5, 4, 3)), r"sh: expected shape \(5, 16, 3\)"),
        (lambda s: render(s, CAMERA, colors=torch.zeros(5)), r"colors: expected shape \(5, 3\)"),
        (lambda s: render(s, CAMERA, background=(1, 1)), r"background: expected shape \(3,\)"),
        (lambda s: render(s, CAMERA, background="red"), "background: expected an array of numbers"),
        (lambda s: render_frames(s, CAMERA), "nothing changes"),
        (lambda s: render_frames([s], CAMERA, means=s.means[None]), "means go with one scene"),
        (lambda s: render_light(s.means, s.colors, s.opacities, [CAMERA]), r"\(F, N, 3\), got"),
        (lambda s: render_light(s.means[None], s.means[:2], s.opacities, [CAMERA]), "colors: expe"),
        (lambda s: render_light(s.means[None], s.means, s.opacities, []), "one picture size"),
        (lambda s: render_light(s.means[None], s.means, s.opacities, [CAMERA], sigma=0), "above 0"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(work, message):
    with pytest.raises(InputError, match=message) as error:
        work(random_scene(5))
    assert "\n" not in str(error.value)


def test_skewed_camera_is_refused():
    K = CAMERA.K.clone()
    K[0, 1] = 1
    with pytest.raises(InputError, match="without skew"):
        render(random_scene(5), Camera(K, CAMERA.w2c, 75, 50))


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_extras_are_imported_when_used_and_named_when_missing():
    code = """
import sys
from newtongs.base.errors import InputError
from newtongs.render import render
from newtongs.scene import GaussianScene, orbit
print([m for m in ("numba", "imageio", "PIL", "gsplat", "imageio_ffmpeg") if m in sys.modules])
scene = GaussianScene.make(means=[[0.0, 0, 0]], scales=[1.0])
camera = orbit((0, 0, 0), width=8, height=8)[0]
sys.modules["gsplat"] = None
try:
    render(scene, camera, backend="gsplat")
except InputError as error:
    print(error)
print(render(scene, camera).alpha.max() > 0)
"""
    lines = run_python(code).splitlines()
    assert lines[0] == "[]"
    assert "pip install 'newtongs[gpu]'" in lines[1]
    assert lines[2] == "tensor(True)"


def test_auto_fits_the_device(monkeypatch):
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    for installed, expected in (({"gsplat"}, "gsplat"), ((), "ewa")):
        monkeypatch.setattr(scenes, "find_spec", lambda name, here=installed: name in here or None)
        assert scenes.backend_for("auto", cuda) == expected
        assert scenes.backend_for("auto", cpu) == "ewa"


@pytest.mark.skipif(
    not (torch.cuda.is_available() and find_spec("gsplat")), reason="needs CUDA and gsplat"
)
@pytest.mark.parametrize("kind", SCENES)
def test_gsplat_is_ewa(kind):
    """At least 45 dB: they differ where float32 decides otherwise at 1/255 or in the order."""
    scene = SCENES[kind]()
    here = render(scene, CAMERA, backend="ewa", background=SKY)
    there = render(scene.to("cuda"), CAMERA, background=SKY)
    assert isinstance(there, Rendering)
    assert there.color.is_cuda
    assert psnr(here.color, there.color.cpu()) > 45
    assert psnr(here.alpha, there.alpha.cpu()) > 45
    given = {"covariances": scene.covariances, "colors": torch.rand(len(scene), 3)}
    there = render(scene.to("cuda"), CAMERA, **{k: x.cuda() for k, x in given.items()})
    assert psnr(render(scene, CAMERA, backend="ewa", **given).color, there.color.cpu()) > 45


def test_the_numbers_are_gsplats():
    """Both our renderers share them: no comparison between the two would notice a change."""
    numbers = (splat.EPS2D, splat.ALPHA_MIN, splat.ALPHA_CAP, splat.T_MIN)
    assert numbers == (0.3, 1 / 255, 0.999, 1e-4)
    assert (splat.NEAR, splat.VIEW_MARGIN) == (0.01, 0.3)


def test_films_of_unequal_streams_are_refused():
    scene = next(iter(SCENES.values()))()
    with pytest.raises(InputError, match="a film needs equally many scenes and cameras"):
        list(render_frames([scene, scene], [CAMERA], backend="light"))
    means, covariances = scene.means.expand(2, -1, -1), scene.covariances.expand(3, -1, -1, -1)
    with pytest.raises(InputError, match="equally many means and covariances"):
        list(render_frames(scene, CAMERA, means=means, covariances=covariances, backend="light"))
    assert len(list(render_frames(scene, [CAMERA] * 3, backend="light"))) == 3
