"""What a file may ask of the machine: memory by its size, and room on the disk before the work."""

import pytest
from export_samples import park
from small_disks import files_up_to

from newtongs.base.errors import InputError
from newtongs.base.files import SMALL, afford, allowance, parsed_json, read_json
from newtongs.exports import default_camera, export


def test_a_file_may_unfold_to_a_multiple_of_its_size():
    assert allowance(10) == SMALL
    assert allowance(SMALL) == 100 * SMALL
    afford("x", SMALL, 10, "much")
    with pytest.raises(
        InputError, match=r"^x declares 7 moons but has only 10 bytes; it is damaged$"
    ):
        afford("x", SMALL + 1, 10, "7 moons")


@pytest.mark.parametrize("text", [b"", b"[" * 100_000, b"\xff\xfe", b'{"a": ', b" " * 100])
def test_what_is_no_json_is_one_line(tmp_path, text):
    (tmp_path / "x.json").write_bytes(text)
    with pytest.raises(InputError, match=r"JSON.*; it is damaged$"):
        read_json(tmp_path / "x.json", most=99 if not text.strip() else 1 << 20)
    with pytest.raises(InputError):
        parsed_json("x", text)


def test_pictures_that_do_not_fit_on_the_disk_are_one_line(tmp_path):
    """Not a signal that kills: a mapped file would meet the full disk in the middle of a copy."""
    animation = park(5)
    camera = default_camera(animation, (128, 128))
    with (
        files_up_to(1 << 16),
        pytest.raises(InputError, match=r"^not enough space for 5 pictures: .* GB free; name"),
    ):
        export(animation, tmp_path, "png", camera=camera)
    assert not list(tmp_path.iterdir())
