"""The state-to-Gaussian transformation: its laws, and numpy references for the congruence."""

import math

import numpy as np
import pytest
import torch
from render_reference import draw

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.base.state import State, make, replace
from newtongs.render.splat import make_splat
from newtongs.scene import sh
from newtongs.scene.cameras import Camera, orbit
from newtongs.scene.frames import AnimatedScene, frames
from newtongs.scene.gaussians import BACKGROUND, GaussianScene, join
from newtongs.scene.transform import (
    affine,
    initial_state,
    pack_symmetric,
    principal_axes,
    transform,
    transform_sequence,
    turn,
    unpack_symmetric,
)

FORMS = ("main", "impl")


def random_scene(n=200, *, degree=3, ids=0, dtype=torch.float32, spread=1.0):
    """Gaussians of many shapes around (1, 2, 3)."""
    scene = GaussianScene.make(
        means=torch.randn(n, 3) + torch.tensor([1.0, 2.0, 3.0]),
        scales=0.1 * torch.exp(spread * torch.randn(n, 3)),
        quats=rotations.normalize(torch.randn(n, 4)),
        opacities=torch.rand(n),
        sh=torch.randn(n, (degree + 1) ** 2, 3),
        ids=ids,
    )
    names = ("means", "quats", "log_scales", "logits", "sh")
    return scene.replace(**{name: getattr(scene, name).to(dtype) for name in names})


def random_state(*shape, scale=0.5, dtype=torch.float32):
    z = make(
        p=torch.randn(*shape, 3, dtype=torch.float64),
        q=rotations.normalize(torch.randn(*shape, 4, dtype=torch.float64)),
        s=torch.exp(scale * torch.randn(*shape, 3, dtype=torch.float64)),
    )
    return z.to(dtype)


def relative_error(a, b):
    """Largest difference beside the largest entry, matrix by matrix."""
    size = b.abs().amax((-2, -1))
    return float(((a - b).abs().amax((-2, -1)) / size).max())


def least_eigenvalue(covariances):
    """The lowest of all, each beside the largest of its matrix."""
    values = torch.linalg.eigvalsh(covariances.double())
    return float((values[:, 0] / values[:, 2]).min())


def reference_affine(z0, z, form):
    """Straight from the paper, in numpy and float64, one state at a time."""

    def matrix(q):
        w, x, y, z = q / np.linalg.norm(q)
        K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        return np.eye(3) + 2 * w * K + 2 * K @ K

    def product(a, b):
        w = a[0] * b[0] - a[1:] @ b[1:]
        return np.array([w, *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])

    (q0, s0), (q, s) = ((State(x).q.double().numpy(), State(x).s.double().numpy()) for x in (z0, z))
    if form == "main":
        return matrix(q) @ np.diag(s / s0) @ matrix(q0).T
    rho = np.maximum(s / np.maximum(s0, 1e-6), 1e-6)
    return matrix(product(q, q0 * [1, -1, -1, -1])) @ np.diag(rho)


@pytest.mark.parametrize("form", FORMS)
def test_affine_is_the_papers(form):
    z0, z = random_state(2, 20, dtype=torch.float64)
    A = affine(z0, z, form)
    for k in range(20):
        np.testing.assert_allclose(A[k], reference_affine(z0[k], z[k], form), atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_affine_of_the_initial_state_is_the_identity(form):
    z = random_state(50)
    assert torch.equal(affine(z, z, form), torch.eye(3).expand(50, 3, 3))


def test_forms_agree_only_when_q0_is_the_identity():
    z0, z = random_state(2)
    upright = make(p=State(z0).p, s=State(z0).s)
    torch.testing.assert_close(affine(upright, z, "main"), affine(upright, z, "impl"))
    assert (affine(z0, z, "main") - affine(z0, z, "impl")).abs().max() > 0.05


def test_forms_share_their_rotational_part():
    z0, z = random_state(2, dtype=torch.float64)
    for form in FORMS:
        U, _, V = torch.linalg.svd(affine(z0, z, form))
        torch.testing.assert_close(U @ V, turn(z0, z))


def test_impl_clamps():
    z0, z = make(s=(0.0, 1e-9, 1.0)), make(s=(1.0, 1.0, 0.0))
    torch.testing.assert_close(affine(z0, z, "impl"), torch.tensor([1e6, 1e6, 1e-6]).diag())
    with pytest.raises(InputError, match="scale must be positive"):
        affine(z0, z)


def test_affine_of_a_sequence_has_a_gradient():
    z0, z = random_state(dtype=torch.float64), random_state(3, dtype=torch.float64)
    g, c = torch.randn(5, 3, dtype=torch.float64), torch.eye(3).double().expand(5, 3, 3)

    def loss(z):
        means, covariances = transform_sequence(g, c, z0, z)
        return (means**2).sum() + covariances.sin().sum()

    assert torch.autograd.gradcheck(loss, z.requires_grad_())


@pytest.mark.parametrize("form", FORMS)
def test_congruence_against_numpy(form):
    scene, z0, z = random_scene(dtype=torch.float64), *random_state(2, dtype=torch.float64)
    A = reference_affine(z0, z, form)
    p0, p = State(z0).p.numpy(), State(z).p.numpy()
    moved = transform(scene, z0, z, form=form)
    for k in range(len(scene)):
        g, c = scene.means[k].numpy(), scene.covariances[k].numpy()
        np.testing.assert_allclose(moved.means[k], A @ (g - p0) + p, atol=1e-12)
        wanted = A @ c @ A.T
        np.testing.assert_allclose(moved.covariances[k], wanted, atol=1e-12 * wanted.max())


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("size", [0.0, 0.5, 2.0])
def test_there_and_back(spread, size):
    """Within 1e-5, float32, for round to needle-like Gaussians and any change of scale."""
    scene, (z0, z) = random_scene(500, spread=spread), random_state(2, scale=size)
    back = transform(transform(scene, z0, z), z, z0)
    scale = max(1.0, float(affine(z, z0).abs().max()))  # errors at z grow on the way back
    assert (back.means - scene.means).abs().max() < 1e-5 * scale
    assert relative_error(back.covariances, scene.covariances) < 1e-5 * scale
    assert (back.sh - scene.sh).abs().max() < 1e-5
    assert torch.equal(back.logits, scene.logits)


def test_rigid_motion_keeps_scales_bit_for_bit():
    scene, (z0, z) = random_scene(), random_state(2)
    z = torch.where(torch.arange(22) < 13, z, z0)
    moved = transform(scene, z0, z)
    assert torch.equal(moved.log_scales, scene.log_scales)
    R = turn(z0, z).float()
    assert relative_error(moved.covariances, R @ scene.covariances @ R.T) < 1e-6


def test_no_motion_is_the_same_scene_bit_for_bit():
    scene, z = random_scene(), random_state()
    for form in FORMS:
        still = transform(scene, z, z, form=form)
        for name, x in scene.numpy().items():
            assert np.array_equal(still.numpy()[name], x), name


def test_background_stays_bit_for_bit():
    scene = join(random_scene(50, ids=BACKGROUND), random_scene(50, ids=3), random_scene(50, ids=7))
    scene = scene[torch.randperm(150)]
    moved = transform(scene, random_state(), random_state(), object=3)
    rest = scene.ids != 3
    for name, x in scene.numpy().items():
        assert np.array_equal(moved.numpy()[name][rest], x[rest]), name
    assert not torch.isclose(moved.means[~rest], scene.means[~rest]).any(-1).all()


def test_several_objects_move_as_each_alone():
    scene = join(random_scene(40, ids=1), random_scene(50, ids=BACKGROUND), random_scene(60, ids=2))
    z0, z = random_state(2, 2)
    alone = transform(transform(scene, z0[0], z[0], object=1), z0[1], z[1], object=2)
    by_ids = transform(scene, z0, z, object=[1, 2])
    by_name = transform(scene, {2: z0[1], 1: z0[0]}, {1: z[0], 2: z[1]})
    for name, x in alone.numpy().items():
        assert np.array_equal(by_ids.numpy()[name], x)
        assert np.array_equal(by_name.numpy()[name], x)


def test_fallback_without_initial_state():
    scene, z = random_scene(ids=BACKGROUND), random_state()
    moved = transform(scene, None, z, object=BACKGROUND)
    A, p = affine(make(), z), State(z).p
    centre = scene.means.mean(0)
    torch.testing.assert_close(moved.means, (scene.means - centre) @ A.T + p, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(initial_state(scene.means), make(p=centre))
    means, _ = transform_sequence(scene.means, scene.covariances, None, z[None])
    torch.testing.assert_close(means[0], moved.means, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_covariances_stay_positive_for_extreme_scales(dtype):
    """Ratios from 1e-3 to 1e3 on needle-like Gaussians; negative eigenvalues only by rounding."""
    scene, z0 = random_scene(2000, dtype=dtype, spread=2.0), random_state(dtype=dtype)
    eps = torch.finfo(dtype).eps
    for rho in ([1e-3, 1.0, 1e3], [1e3, 1e3, 1e-3], [1e-3, 1e-3, 1e-3], [0.03, 1e3, 1e-3]):
        z = random_state(dtype=dtype)
        State(z).s[:] = State(z0).s * torch.tensor(rho)
        moved = transform(scene, z0, z)
        assert torch.isfinite(moved.log_scales).all()
        assert torch.linalg.det(rotations.to_matrix(moved.quats)).min() > 0.999
        frame = next(frames(scene, z0, z[None]))
        assert least_eigenvalue(moved.covariances) > -8 * eps
        # Frames multiply Sigma in float64, which leaves the digits of float32.
        single = torch.finfo(torch.float32).eps
        assert least_eigenvalue(unpack_symmetric(frame.covariances)) > -8 * single
        # A given Sigma is rounded already, beside its own size and before A stretches it.
        _, direct = transform_sequence(scene.means, scene.covariances, z0, z[None])
        size = scene.covariances.double().diagonal(dim1=1, dim2=2).sum(-1) * max(rho) ** 2
        assert (torch.linalg.eigvalsh(direct[0].double())[:, 0] >= -8 * eps * size).all()
        # Volume grows by the cube of the ratios: the smallest scale has kept its digits too.
        grown = (moved.log_scales - scene.log_scales).double().sum(-1)
        torch.testing.assert_close(
            grown, grown.new_tensor(rho).log().sum().expand_as(grown), atol=1e-4, rtol=0
        )


def test_principal_axes_against_svd():
    B = torch.randn(3000, 3, 3, dtype=torch.float64) * torch.exp(2 * torch.randn(3000, 1, 3))
    B = torch.where(torch.linalg.det(B)[:, None, None] < 0, -B, B)
    U, s = principal_axes(B)
    torch.testing.assert_close(U @ U.mT, torch.eye(3).double().expand_as(U), atol=1e-12, rtol=0)
    assert (torch.linalg.det(U) > 0).all()
    assert relative_error((U * s[:, None] ** 2) @ U.mT, B @ B.mT) < 1e-13
    singular = torch.linalg.svdvals(B)
    torch.testing.assert_close(s.sort(-1, descending=True).values, singular, rtol=1e-9, atol=0)


def test_principal_axes_of_flat_and_no_gaussians():
    B = torch.randn(100, 3, 3, dtype=torch.float64) * torch.tensor([1.0, 1e-30, 1.0])
    U, s = principal_axes(torch.where(torch.linalg.det(B)[:, None, None] < 0, -B, B))
    assert torch.isfinite(U).all()
    assert (s.amin(-1) < 1e-25).all()
    assert [x.shape for x in principal_axes(B[:0])] == [(0, 3, 3), (0, 3)]


def test_small_steps_change_shapes_continuously():
    """Axes keep their names: no jump to another order or sign of the same ellipsoid."""
    scene, z0 = random_scene(300, spread=1.5), make()
    moved = transform(scene, z0, make(s=(1.001, 1.0, 0.999)))
    assert (moved.log_scales - scene.log_scales).abs().max() < 2e-3
    still = (scene.scales.log().sort(-1).values.diff(dim=-1) > 0.1).all(-1)  # not nearly round
    assert ((moved.quats * scene.quats).sum(-1).abs()[still] > 0.999).all()


def test_colour_turns_with_the_object():
    """Seen along R d after the motion, the colour is the one seen along d before."""
    scene, (z0, z) = random_scene(dtype=torch.float64), random_state(2, dtype=torch.float64)
    moved, d = transform(scene, z0, z), torch.randn(20, 3, dtype=torch.float64)
    d = d / d.norm(dim=-1, keepdim=True)
    before = torch.einsum("dk,nkc->dnc", sh.basis(d), scene.sh)
    after = torch.einsum("dk,nkc->dnc", sh.basis(d @ turn(z0, z).T), moved.sh)
    torch.testing.assert_close(after, before, atol=1e-11, rtol=0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packed", [False, True])
def test_sequence_is_frame_after_frame(form, packed):
    scene, z0, z = random_scene(), random_state(), random_state(9)
    given = pack_symmetric(scene.covariances) if packed else scene.covariances
    means, covariances = transform_sequence(scene.means, given, z0, z, form=form, packed=packed)
    assert covariances.shape == ((9, 200, 6) if packed else (9, 200, 3, 3))
    full = unpack_symmetric(covariances) if packed else covariances
    for t in range(9):
        moved = transform(scene, z0, z[t], form=form)
        torch.testing.assert_close(means[t], moved.means, atol=2e-5, rtol=1e-5)
        assert relative_error(full[t], moved.covariances) < 2e-6


def test_sequence_in_float64_is_exact():
    scene, z0 = random_scene(dtype=torch.float64), random_state(dtype=torch.float64)
    z = random_state(5, scale=2.0, dtype=torch.float64)
    means, covariances = transform_sequence(scene.means, scene.covariances, z0, z)
    for t in range(5):
        A = torch.from_numpy(reference_affine(z0, z[t], "main"))
        wanted = (scene.means - State(z0).p) @ A.T + State(z[t]).p
        torch.testing.assert_close(means[t], wanted, atol=1e-11, rtol=1e-11)
        assert relative_error(covariances[t], A @ scene.covariances @ A.T) < 1e-14
        assert torch.equal(covariances[t], covariances[t].mT)


def test_sequence_starts_bit_for_bit():
    scene, z = random_scene(), random_state(4)
    means, covariances = transform_sequence(scene.means, scene.covariances, z[0], z)
    assert torch.equal(means[0], scene.means)
    upper = pack_symmetric(scene.covariances)
    assert torch.equal(covariances[0], unpack_symmetric(upper))


def test_sequence_fills_given_memory():
    scene, z = random_scene(), random_state(4)
    out = torch.empty(4, 200, 3), torch.empty(4, 200, 3, 3)
    got = transform_sequence(scene.means, scene.covariances, z[0], z, out=out)
    assert [x.data_ptr() for x in got] == [x.data_ptr() for x in out]
    fresh = transform_sequence(scene.means.numpy(), scene.covariances.numpy(), z[0], z.numpy())
    assert all(map(torch.equal, fresh, out))


def test_frames_are_those_of_transform():
    scene = join(random_scene(40, ids=1), random_scene(50, ids=BACKGROUND), random_scene(60, ids=2))
    scene = scene[torch.randperm(150)]
    z0, z = random_state(2), random_state(2, 5)
    z[:, 0] = z0
    rest = scene.ids == BACKGROUND
    animated = AnimatedScene(scene, {1: z0[0], 2: z0[1]}, {1: z[0], 2: z[1]})
    assert len(animated) == 5
    seen = set()
    for t, frame in enumerate(frames(scene, z0, z, object=(1, 2))):
        seen.add(tuple(x.data_ptr() for x in frame[:3]))
        whole = animated[t]
        torch.testing.assert_close(frame.means, whole.means, atol=2e-5, rtol=1e-5)
        assert relative_error(unpack_symmetric(frame.covariances), whole.covariances) < 2e-6
        torch.testing.assert_close(frame.sh, whole.sh)
        torch.testing.assert_close(frame.turns[2], turn(z0[1], z[1, t]))
        assert torch.equal(frame.means[rest], scene.means[rest])
        assert torch.equal(frame.sh[rest], scene.sh[rest])
        if t == 0:
            assert torch.equal(frame.means, scene.means)
            assert torch.equal(frame.sh, scene.sh)
    assert t == 4
    assert len(seen) == 1  # the same memory every time


def test_iterators_do_not_share_memory():
    scene, z = random_scene(20), random_state(3)
    animated = AnimatedScene(scene, z[0], z)
    a, b = iter(animated), iter(animated)
    first = next(a)
    next(b), next(b)
    assert torch.equal(first.means, scene.means)


def follow(camera, z0, z):
    """The camera carried along with an object that moves rigidly."""
    M = torch.eye(4, dtype=torch.float64)
    M[:3, :3] = turn(z0, z)
    M[:3, 3] = State(z).p.double() - M[:3, :3] @ State(z0).p.double()
    w2c = camera.w2c.double() @ torch.linalg.inv(M)
    return Camera(camera.K, w2c.float(), camera.width, camera.height)


def psnr(a, b):
    error = (a.color.clamp(0, 1) - b.color.clamp(0, 1)).square().mean()
    return -10 * math.log10(max(float(error), 1e-30))


def picture(scene, camera, frame=None):
    """By the renderers' float64 specification, which needs no compiling."""
    moved = {} if frame is None else {k: getattr(frame, k) for k in ("means", "covariances", "sh")}
    return draw(make_splat(scene, camera, (1.0, 1.0, 1.0), **moved))


def test_object_and_camera_turned_alike_give_the_same_picture():
    scene = random_scene(600)
    scene = scene.replace(sh=0.3 * scene.sh)
    z0 = replace(random_state(), p=(1.0, 2.0, 3.0))
    camera = orbit((1.0, 2.0, 3.0), width=48, height=48)[0]
    before = picture(scene, camera)
    assert before.alpha.mean() > 0.3  # the object fills a good part of the picture
    states = torch.stack([replace(random_state(), s=State(z0).s) for _ in range(2)])
    for z, frame in zip(states, frames(scene, z0, states), strict=True):
        carried, moved = follow(camera, z0, z), transform(scene, z0, z)
        assert psnr(picture(moved, carried), before) > 45
        assert psnr(picture(scene, carried, frame), before) > 45
        assert psnr(picture(moved.replace(sh=scene.sh), carried), before) < 35


SCENE = random_scene(5)
Z = random_state()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: affine(Z, Z, "other"), "unknown form 'other'"),
        (lambda: affine(Z[:21], Z), "22 channels"),
        (lambda: affine(Z, torch.full((22,), torch.nan)), "channel p_x"),
        (lambda: transform(SCENE, Z, Z, object=4), r"no object 4 in the scene; there are \[0\]"),
        (lambda: transform(SCENE, Z, Z.expand(2, 22)), r"expected shape \(22,\)"),
        (lambda: transform(SCENE, Z, {}), "no states"),
        (lambda: transform(SCENE, {1: Z}, {0: Z}), "z0 has no state of object 0"),
        (lambda: transform(SCENE, Z, Z, object=[0, 1]), r"a state for each of \[0, 1\]"),
        (lambda: transform(random_scene(3, ids=-1), Z, Z), "no object; mark one"),
        (lambda: transform(join(SCENE, random_scene(3, ids=1)), Z, Z), "say which one moves"),
        (lambda: transform_sequence(SCENE.means, SCENE.means, Z, Z[None]), r"\(5, 3, 3\) or"),
        (lambda: transform_sequence(SCENE.quats, SCENE.means, Z, Z[None]), r"shape \(N, 3\)"),
        (lambda: transform_sequence(SCENE.means, SCENE.covariances, Z, Z), r"\(T, 22\)"),
        (lambda: AnimatedScene(SCENE, Z, Z), r"\(T, 22\)"),
        (lambda: initial_state(SCENE.means[:0]), "no Gaussians"),
    ],
)
def test_bad_input_is_one_clear_line(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_wrong_memory_is_refused():
    out = torch.empty(1, 5, 3), torch.empty(1, 5, 6)
    with pytest.raises(InputError, match="out: expected contiguous"):
        transform_sequence(SCENE.means, SCENE.covariances, Z, Z[None], out=out)


def test_an_unmoved_frame_keeps_its_bits_in_an_animation():
    scene = random_scene()
    z = random_state(3)
    z[2] = z[0]
    given = [(f.means.clone(), f.covariances.clone(), f.sh.clone()) for f in frames(scene, z[0], z)]
    start = scene.means, pack_symmetric(scene.covariances), scene.sh
    for t in (0, 2):
        for x, y in zip(given[t], start, strict=True):
            assert torch.equal(x, y)
    assert not torch.equal(given[1][0], start[0])


def test_object_ids_may_be_of_numpy_or_torch():
    scene, z = random_scene(), random_state(2)
    expected = transform(scene, z[0], z[1], object=0)
    for index in (np.int64(0), torch.tensor(0), [0]):
        states = (z[:1], z[1:]) if isinstance(index, list) else (z[0], z[1])
        assert torch.equal(transform(scene, *states, object=index).means, expected.means)
