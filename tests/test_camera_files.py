"""Cameras from files: the same pose in both conventions, intrinsics, and what is refused."""

import json
import math

import pytest
import torch

from newtongs.base import rotations
from newtongs.base.errors import InputError
from newtongs.formats import load_cameras
from newtongs.scene import orbit


def opengl(camera):
    """Camera to world with y up and z backward, as nerfstudio and Blender have it."""
    return (camera.c2w.double() @ torch.diag(torch.tensor([1.0, -1, -1, 1]).double())).tolist()


def write_transforms(path, cameras, *, frames=None, **shared):
    frames = frames or [{}] * len(cameras)
    content = [
        {"file_path": f"{i}.png", "transform_matrix": opengl(camera), **extra}
        for i, (camera, extra) in enumerate(zip(cameras, frames, strict=True))
    ]
    path.write_text(json.dumps({**shared, "frames": content}))
    return path


def write_colmap(folder, cameras, lenses, *, names=None, points="10.5 20.5 -1 1 2 7"):
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Camera list with one line of data per camera:", *lenses]
    (folder / "cameras.txt").write_text("\n".join(lines) + "\n")
    lines = ["# Image list with two lines of data per image:"]
    for i, camera in enumerate(cameras):
        q = rotations.from_matrix(camera.w2c[:3, :3].double())
        pose = " ".join(repr(x) for x in (*q.tolist(), *camera.w2c[:3, 3].tolist()))
        name = names[i] if names else f"{i:03d}.png"
        lines += [f"{i + 1} {pose} {1 + i % len(lenses)} {name}", points if i % 2 else ""]
    (folder / "images.txt").write_text("\n".join(lines) + "\n")
    return folder


def pinhole(camera, key=1):
    f, cx, cy = camera.K[0, 0], camera.K[0, 2], camera.K[1, 2]
    return f"{key} PINHOLE {camera.width} {camera.height} {f} {f} {cx} {cy}"


def assert_same_cameras(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x.K, y.K, rtol=1e-5, atol=1e-3)
        torch.testing.assert_close(x.w2c, y.w2c, rtol=0, atol=2e-6)
        assert (x.width, x.height) == (y.width, y.height)


@pytest.fixture
def ring():
    return orbit((0.2, 0.4, -0.1), views=5, width=640, height=480, start=13)


def test_transforms_and_colmap_give_the_cameras_they_were_made_of(tmp_path, ring):
    f = float(ring[0].K[0, 0])
    json_path = write_transforms(tmp_path / "transforms.json", ring, fl_x=f, w=640, h=480)
    colmap = write_colmap(tmp_path / "model", ring, [pinhole(ring[0])])
    for path in (json_path, tmp_path, colmap, colmap / "images.txt", colmap / "cameras.txt"):
        assert_same_cameras(load_cameras(path), ring)


def test_a_point_in_front_and_above_lands_in_the_upper_half(tmp_path):
    """Blender's camera at rest looks down -z with y up."""
    identity = torch.eye(4).tolist()
    content = {"fl_x": 100.0, "w": 80, "h": 60, "frames": [{"transform_matrix": identity}]}
    (tmp_path / "transforms.json").write_text(json.dumps(content))
    (camera,) = load_cameras(tmp_path)
    pixel, depth = camera.project(torch.tensor([0.1, 0.2, -2.0]))
    assert depth == 2
    torch.testing.assert_close(pixel, torch.tensor([40 + 5.0, 30 - 10.0]))


def test_intrinsics_of_a_frame_win_over_shared_ones(tmp_path, ring):
    frames = [{}, {"fl_x": 111.0, "fl_y": 112.0, "cx": 3.0, "cy": 4.0, "w": 32, "h": 16}]
    path = write_transforms(
        tmp_path / "a.json", ring[:2], frames=frames, fl_x=500, fl_y=501, cx=320, cy=240, w=640,
        h=480,
    )  # fmt: skip
    first, second = load_cameras(path)
    assert first.K.tolist() == [[500, 0, 320], [0, 501, 240], [0, 0, 1]]
    assert second.K.tolist() == [[111, 0, 3], [0, 112, 4], [0, 0, 1]]
    assert (second.width, second.height) == (32, 16)


def test_angle_of_view_of_nerf_synthetic_scenes(tmp_path, ring):
    path = write_transforms(tmp_path / "a.json", ring, camera_angle_x=0.6911112070083618)
    with pytest.raises(InputError, match=r"size=\(width, height\)"):
        load_cameras(path)
    camera = load_cameras(path, size=(800, 800))[0]
    assert abs(camera.K[0, 0] - 1111.1111) < 1e-3  # the figure known of these scenes
    assert camera.K[0, 0] == camera.K[1, 1]
    assert camera.K[:2, 2].tolist() == [400, 400]


def test_both_angles(tmp_path, ring):
    path = write_transforms(
        tmp_path / "a.json", ring, camera_angle_x=1.0, camera_angle_y=0.8, w=64, h=48
    )
    K = load_cameras(path)[0].K
    assert abs(K[0, 0] - 32 / math.tan(0.5)) < 1e-4
    assert abs(K[1, 1] - 24 / math.tan(0.4)) < 1e-4


def test_a_scaled_pose_keeps_rotation_and_place(tmp_path, ring):
    path = write_transforms(tmp_path / "a.json", ring, fl_x=10, w=8, h=8)
    content = json.loads(path.read_text())
    for frame in content["frames"]:
        for row in frame["transform_matrix"][:3]:
            row[:3] = [2.5 * x for x in row[:3]]
        del frame["transform_matrix"][3]  # three rows do
    path.write_text(json.dumps(content))
    for camera, expected in zip(load_cameras(path), ring, strict=True):
        torch.testing.assert_close(camera.w2c, expected.w2c, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("lens", "fx", "fy", "distorted"),
    [
        ("1 SIMPLE_PINHOLE 640 480 500 320 240", 500, 500, False),
        ("1 PINHOLE 640 480 500 510 320 240", 500, 510, False),
        ("1 SIMPLE_RADIAL 640 480 500 320 240 0", 500, 500, False),
        ("1 SIMPLE_RADIAL 640 480 500 320 240 0.01", 500, 500, True),
        ("1 RADIAL 640 480 500 320 240 0 -0.01", 500, 500, True),
        ("1 OPENCV 640 480 500 510 320 240 0 0 0 0", 500, 510, False),
        ("1 OPENCV 640 480 500 510 320 240 0 0 1e-4 0", 500, 510, True),
    ],
)
def test_colmap_models(tmp_path, ring, recwarn, lens, fx, fy, distorted):
    camera = load_cameras(write_colmap(tmp_path, ring, [lens]))[0]
    assert camera.K.tolist() == [[fx, 0, 320], [0, fy, 240], [0, 0, 1]]
    assert [("distortion is ignored" in str(w.message)) for w in recwarn] == [True] * distorted


def test_distortion_in_transforms_warns_once(tmp_path, ring):
    path = write_transforms(tmp_path / "a.json", ring, fl_x=10, w=8, h=8, k1=0.1, p2=0)
    with pytest.warns(UserWarning, match="distortion is ignored") as caught:
        load_cameras(path)
    assert len(caught) == 1


def test_colmap_images_are_sorted_by_name_and_may_have_spaces(tmp_path, ring):
    names = ["e.png", "my picture d.png", "c.png", "b.png", "a.png"]
    lenses = [pinhole(ring[0]), pinhole(ring[0], 2)]
    cameras = load_cameras(write_colmap(tmp_path, ring, lenses, names=names))
    order = sorted(range(5), key=lambda i: names[i])
    assert_same_cameras(cameras, [ring[i] for i in order])


def test_a_capture_folder_with_sparse_0(tmp_path, ring):
    write_colmap(tmp_path / "sparse" / "0", ring, [pinhole(ring[0])])
    for path in (tmp_path, tmp_path / "sparse"):
        assert_same_cameras(load_cameras(path), ring)


POSE = torch.eye(4).tolist()
FRAME = {"transform_matrix": POSE}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("nothing", "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("[]", "expected a list 'frames'"),
        ({"w": 8, "h": 8, "fl_x": 8}, "expected a list 'frames'"),
        ({"frames": []}, "expected a list 'frames'"),
        ({"frames": [3]}, "expected a list 'frames'"),
        ({"w": 8, "h": 8, "frames": [FRAME]}, "'fl_x' or 'camera_angle_x'"),
        ({"fl_x": 8, "frames": [FRAME]}, "no picture size"),
        ({"w": 8, "h": 8, "fl_x": "wide", "frames": [FRAME]}, "frame 0: expected a number"),
        ({"w": 8, "h": 8, "fl_x": 10**400, "frames": [FRAME]}, "expected a number"),
        ({"w": 8, "h": 8, "fl_x": -3, "frames": [FRAME]}, "positive focal"),
        ({"w": 8, "h": 8, "fl_x": math.nan, "frames": [FRAME]}, "positive focal"),
        ({"w": 8.5, "h": 8, "fl_x": 8, "frames": [FRAME]}, "whole pixels"),
        ({"w": 0, "h": 8, "fl_x": 8, "frames": [FRAME]}, "whole pixels"),
        ({"w": 8, "h": 8, "camera_angle_x": 4, "frames": [FRAME]}, "between 0 and pi"),
        ({"w": 8, "h": 8, "fl_x": 8, "frames": [FRAME, {}]}, "frame 1: expected a finite"),
        (
            {"w": 8, "h": 8, "fl_x": 8, "frames": [{"transform_matrix": [[1], [2, 3]]}]},
            "matrix of numbers",
        ),
        ({"w": 8, "h": 8, "fl_x": 8, "frames": [{"transform_matrix": [[0] * 4] * 4}]}, "rotation"),
        ({"w": 8, "h": 8, "fl_x": 8, "camera_model": "OPENCV_FISHEYE", "frames": [FRAME]},
         "not a pinhole"),
        ({"w": 8, "h": 8, "fl_x": 8, "camera_model": ["PINHOLE"], "frames": [FRAME]},
         "not a pinhole"),
    ],
)  # fmt: skip
def test_bad_transforms(tmp_path, content, match):
    path = tmp_path / "transforms.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError, match=match) as caught:
        load_cameras(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cameras", "images", "match"),
    [
        ("1 OPENCV_FISHEYE 8 8 1 1 4 4 0 0 0 0", "", "undistort with"),
        ("1", "", "camera model"),
        ("1 PINHOLE 8 8 1 1 4", "", "line 1: expected CAMERA_ID PINHOLE WIDTH HEIGHT and 4"),
        ("1 PINHOLE 8 8 1 1 4 x", "", "expected numbers"),
        ("1 PINHOLE 8 8 1 inf 4 4", "", "expected finite"),
        ("1 PINHOLE 8 8 0 1 4 4", "", "positive focal"),
        ("1 PINHOLE 8 8 1 1 4 4", "# only words\n", "contains no image"),
        ("1 PINHOLE 8 8 1 1 4 4", "1 1 0 0 0 0 0 0 1", "line 1: expected IMAGE_ID"),
        ("1 PINHOLE 8 8 1 1 4 4", "1 1 0 0 0 0 0 0 2 a.png", "expected IMAGE_ID"),
        ("1 PINHOLE 8 8 1 1 4 4", "1 0 0 0 0 0 0 0 1 a.png", "quaternion has length 0"),
        ("1 PINHOLE 8 8 1 1 4 4", "1 1 0 0 0 0 0 nan 1 a.png", "expected finite"),
    ],
)
def test_bad_colmap(tmp_path, cameras, images, match):
    (tmp_path / "cameras.txt").write_text(cameras)
    (tmp_path / "images.txt").write_text(images)
    with pytest.raises(InputError, match=match) as caught:
        load_cameras(tmp_path)
    assert "\n" not in str(caught.value)


def test_nothing_there(tmp_path, ring):
    model = write_colmap(tmp_path / "model", ring, [pinhole(ring[0])])
    with pytest.raises(InputError, match="no such file or folder"):
        load_cameras(model / "none.json")
    with pytest.raises(InputError, match="no such file or folder"):
        load_cameras(tmp_path / "none")
    with pytest.raises(InputError, match="no cameras in"):
        load_cameras(tmp_path)
    (tmp_path / "cameras.bin").write_bytes(b"")
    with pytest.raises(InputError, match="model_converter --output_type TXT"):
        load_cameras(tmp_path)
