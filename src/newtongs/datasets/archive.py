"""Tensors written piece by piece into the archive that ``torch.save`` laid out for them."""

import errno
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from torch import Tensor


@dataclass(frozen=True)
class Storage:
    """Offsets of one tensor's storage in a ``torch.save`` archive: its bytes, its entry."""

    data: int
    entry: int  # in the central directory


def locate(path: Path, size: int) -> Storage:
    """The one storage of ``size`` bytes."""
    with zipfile.ZipFile(path) as archive:
        entry = archive.start_dir
        for info in archive.infolist():
            if info.file_size == size and "/data/" in info.filename:
                break
            entry += 46 + len(info.filename) + len(info.extra) + len(info.comment)
        else:
            raise OSError(errno.EIO, "torch.save laid the archive out in an unknown way")
    with path.open("rb") as f:
        # A local header is 30 bytes, then a name and an extra field of the lengths it ends with.
        f.seek(info.header_offset + 26)
        lengths = f.read(4)
    name, extra = (int.from_bytes(lengths[i : i + 2], "little") for i in (0, 2))
    return Storage(info.header_offset + 30 + name + extra, entry)


def set_crc(path: Path, size: int, crc: int) -> None:
    """Store the checksum of the storage of ``size`` bytes, which ``skip_data`` left at zero.

    It stands twice, at the same place in zip and zip64: 4 bytes into the descriptor behind the
    data and 16 bytes into the directory's entry.
    """
    at = locate(path, size)
    with path.open("rb+") as f:
        for start, signature, skip in ((at.data + size, b"PK\7\10", 4), (at.entry, b"PK\1\2", 16)):
            f.seek(start)
            if f.read(4) != signature:
                raise OSError(errno.EIO, "torch.save laid the archive out in an unknown way")
            f.seek(start + skip)
            f.write(crc.to_bytes(4, "little"))
        sync(f)


def write_at(path: Path, offset: int, block: Tensor, crc: int = 0) -> int:
    """Overwrite bytes of a file, and have them on the disk before anything relies on them.

    Returns the CRC32 of what ``crc`` stands for, followed by these bytes.
    """
    content = block.contiguous().numpy().data.cast("B")
    with path.open("rb+") as f:
        f.seek(offset)
        f.write(content)
        sync(f)
    return zlib.crc32(content, crc)


def sync(f: IO[Any]) -> None:
    """Have everything written so far on the disk."""
    f.flush()
    os.fsync(f.fileno())
