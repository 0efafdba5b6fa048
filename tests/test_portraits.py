"""Close-ups of things: seen from the side of the room, and numbered on a sheet."""

import pytest
import torch
from furnished_rooms import furnished

from newtongs.scene.gaussians import color_to_sh
from newtongs.scene.world_frame import WorldFrame
from newtongs.segment.objects.clusters import Cluster
from newtongs.views.portraits import EDGE, GAP, contact_sheet, portraits

pytest.importorskip("numba")


def true_clusters(made, few):
    """The first things of a room as clusters, from the truth."""
    out, scene = [], made.scene
    for i, (one,) in enumerate(made.objects[:few]):
        rows = (scene.ids == one).nonzero().squeeze(-1)
        x = scene.means[rows]
        low, high = x.amin(0), x.amax(0)
        out.append(
            Cluster(
                i, rows, len(scene), (low + high) / 2, high - low, len(rows),
                1.0, 0.0, 0.0, 1.0,
            )
        )  # fmt: skip
    return out


def test_every_thing_in_a_bookcase_shows_the_side_of_the_room():
    """Things are red in front and blue behind, where there is a wall."""
    made = furnished("bookcase")
    found, scene = true_clusters(made, 5), made.scene
    front = scene.means[:, 2:] > -1.98
    paint = torch.where(front, torch.tensor([0.8, 0.1, 0.1]), torch.tensor([0.1, 0.1, 0.8]))
    sh = torch.where((scene.ids >= 0)[:, None], color_to_sh(paint)[:, 0], scene.sh[:, 0])
    scene = scene.replace(sh=sh.unsqueeze(1))
    for picture in portraits(scene, WorldFrame.identity(), found, size=96):
        assert picture.shape == (96, 96, 3)
        warm = picture[..., 0] - picture[..., 2]
        red = (warm > 0.3) & ((picture - torch.tensor(EDGE)).abs().amax(-1) > 1e-3)
        assert red.sum() > 400
        assert red.sum() > 3 * (warm < -0.3).sum()


def test_a_sheet_has_a_place_for_each_with_its_number():
    made = furnished("bookcase")
    found = true_clusters(made, 7)
    pictures = portraits(made.scene, WorldFrame.identity(), found, size=64)
    sheet = contact_sheet(pictures, found)
    assert sheet.shape == (2 * 64 + GAP, 6 * 64 + 5 * GAP, 3)
    edge = (sheet - torch.tensor(EDGE)).abs().amax(-1) < 1e-3
    for i in range(7):
        y, x = i // 6 * (64 + GAP), i % 6 * (64 + GAP)
        part = slice(y, y + 64), slice(x, x + 64)
        assert edge[part].any()
        assert (sheet[part] == 0).all(-1).sum() > 40  # the plate of its number
    assert (sheet[64 + GAP :, 64 + GAP :] == 1).all()  # no eighth
