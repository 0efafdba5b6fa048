"""Files: read only what is there and safe, written whole or not at all.

Untrusted files. Memory is bounded by one rule: a file may expand to a hundred times its size, and
any file to 64 MB. Every reader calls :func:`afford` before it allocates what a header promises.
Real captures expand to about ten times their size.

Torch's own loader runs no code from a file, but a few bytes of it can make arrays of any size:
expanded, sparse or quantised tensors, byte arrays. So a file may name nothing but plain tensors,
and what they span is checked against its size before anything is copied. A numpy array states its
shape in a header, which is read alone and checked first.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeAlias

from .errors import InputError
from .locks import locked_part

if TYPE_CHECKING:
    import zipfile

    import numpy as np
    from torch import Tensor

    from .types import Progress

    Header: TypeAlias = tuple[tuple[int, ...], np.dtype[Any]]

WRITABLE = (".ply", ".compressed.ply", ".spz", ".sog", ".splat", ".glb", ".compressed.glb")

SMALL = 64 << 20  # bytes that any file may expand to
RATIO = 100  # beyond that, as many times its size
MOST_COPIED = 1 << 30  # bytes of a file that is copied before it is mapped
JSON_BYTES = 64 << 20  # of a description; those of captures have some 10,000
MANY_BYTES = 20 * 10**9  # of output, beyond which a command asks before it writes
ZEROS = bytes(1 << 20)

STORED, DEFLATED = 0, 8  # how a zip may hold entries, as zipfile (slow to import) has it
# Operations of a pickle by which it names what is to be called; torch writes the first alone.
NAMING = ("GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4")
TENSORS = re.compile(
    r"torch [A-Z]\w*Storage|torch._utils _rebuild_(tensor_v2|parameter)|collections OrderedDict"
)
MOST_ARRAYS = 100_000
ADDRESS = re.compile(r"([a-zA-Z][\w+.-]+):/+")  # of the web; the drive C:/ has one letter


# --- progress -------------------------------------------------------------------------------------


def silent(what: str, done: int, of: int) -> None:
    """Report no progress."""


def under(tell: "Progress", name: str) -> "Progress":
    """Progress of a part, reported with its name in front."""
    return lambda what, done, of: tell(f"{name} {what}", done, of)


# --- paths, and writing ---------------------------------------------------------------------------


def require_ending(path: Path) -> str:
    """The ending of a splat file's name that we write, the longest that fits."""
    found = [ending for ending in WRITABLE if path.name.lower().endswith(ending)]
    if not found:
        raise InputError(f"cannot write {path}: expected a name that ends in {', '.join(WRITABLE)}")
    return max(found, key=len)


def is_address(path: Path | str) -> bool:
    """Whether a path is in fact the address of something on the web."""
    return ADDRESS.match(str(path)) is not None and not os.path.exists(path)


def web_address(path: Path | str) -> str:
    """The address as it was given: a Path has merged its slashes."""
    return ADDRESS.sub(r"\1://", str(path), count=1)


def require_local(path: Path | str) -> None:
    """Refuse the address of something on the web as a place to write to."""
    if is_address(path):
        raise InputError(
            f"cannot write to the address {web_address(path)}: expected a place on this machine; "
            "copy the result there afterwards, or mount the storage"
        )


def existing_file(path: Path | str, wanted: str = "a file") -> Path:
    """The path, if it is a readable file; ``wanted`` says what to give instead."""
    if is_address(path):
        raise InputError(
            f"expected {wanted} on this machine, got the address {web_address(path)}; "
            "download it first"
        )
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; give {wanted}")
        kernel = os.path.realpath(path).startswith(("/proc/", "/sys/"))  # these never end, or wait
        if path.exists() and (kernel or not path.is_file()):  # a pipe would be waited for too
            raise InputError(f"{path} is not a regular file; give {wanted}")
        with path.open("rb"):
            return path
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {path}: {_reason(error)}") from error


def write_atomically(
    path: Path, write: Callable[[BinaryIO], object], *, sync: bool = False, what: str = ""
) -> None:
    """Let ``write`` fill a temporary file and rename it, so that nobody sees half a file.

    Args:
        path: of the file; its folder is created.
        write: called with the open temporary file.
        sync: flush the bytes to disk before the rename, so that a power cut loses no old file.
        what: word for the file in an error, such as "picture".
    """
    require_local(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = locked_part(path)
        try:
            with os.fdopen(handle, "wb") as f:
                write(f)
                if sync:
                    f.flush()
                    os.fsync(f.fileno())
            os.chmod(part, 0o666 & ~_umask())
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        named = f"{what} {path}" if what else f"{path}"
        raise InputError(f"cannot write {named}: {_reason(error)}") from error


def _umask() -> int:
    """What the user takes from new files; it can only be read by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found


@contextmanager
def foreign(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a library raises over an untrusted file into one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read as {kind}: {first_line(error)[:160]}") from error


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its class where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _reason(error: OSError | ValueError) -> str:
    """The system's message where there is one."""
    return getattr(error, "strerror", None) or str(error)


# --- limits ---------------------------------------------------------------------------------------


def allowance(size: int, small: int = SMALL) -> int:
    """Bytes that a file of ``size`` bytes may expand to."""
    return max(small, RATIO * size)


def afford(path: Path | str, needed: int, size: int, what: str, small: int = SMALL) -> None:
    """Refuse what would take far more memory than a file of this size can mean."""
    if needed > allowance(size, small):
        raise InputError(f"{path} declares {what} but has only {size:,} bytes; it is damaged")


def parsed_json(path: Path | str, raw: bytes | str, most: int = JSON_BYTES) -> Any:
    """The content of a JSON text, refused where it is invalid, too long, or nested too deep."""
    if len(raw) > most:
        raise InputError(f"{path}: expected up to {most:,} bytes of JSON; it is damaged")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: invalid JSON; it is damaged") from error


def read_json(path: Path, most: int = JSON_BYTES) -> Any:
    """The content of a JSON file, of which no more than ``most`` bytes are read."""
    try:
        with path.open("rb") as f:
            raw = f.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    return parsed_json(path, raw, most)


def free_bytes(folder: Path | str) -> int:
    """Free space on the disk of a folder, which need not exist yet."""
    folder = Path(folder).absolute()
    there = next(p for p in (folder, *folder.parents) if os.path.lexists(p))
    return shutil.disk_usage(there).free


def reserve(file: IO[bytes], size: int, what: str) -> None:
    """Allocate a temporary file's bytes on the disk before it is mapped.

    On a full disk, writing to a mapped file that has only a size would kill the process.
    """
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
            return
        for start in range(0, size, len(ZEROS)):
            file.write(ZEROS[: size - start])
    except OSError as error:
        raise InputError(no_room(tempfile.gettempdir(), size, what)) from error


def no_room(folder: Path | str, size: int, what: str) -> str:
    """The error where temporary files do not fit."""
    return (
        f"not enough space for {what}: {size / 1e9:.2f} GB needed in {folder}, "
        f"{free_bytes(folder) / 1e9:.2f} GB free; name another folder in TMPDIR, or write less"
    )


# --- untrusted archives of torch and numpy --------------------------------------------------------


def load_torch(path: Path) -> Any:
    """A torch file's tensors, mapped, and unpickled no further than plain containers.

    Mapping also makes torch cut every storage at the file's end: a claimed size cannot overrun.
    """
    import zipfile

    import torch

    with private_copy(path) as copy:
        with zipfile.ZipFile(copy) as archive:
            if any(info.compress_type != STORED for info in archive.infolist()):
                raise InputError(f"{path}: torch files with compressed entries are not supported")
            for info in archive.infolist():
                if info.filename.endswith("data.pkl"):
                    _require_known_names(path, archive.read(info))
        content = torch.load(copy, map_location="cpu", mmap=True, weights_only=True)
    spanned = sum(x.numel() * x.element_size() for x in _tensors(content))
    afford(path, spanned, path.stat().st_size, f"tensors of {spanned:,} bytes")
    return content


@contextmanager
def private_copy(path: Path) -> Iterator[Path]:
    """A copy in memory under a path of its own, for libraries that map the files they read.

    If somebody cuts a file that is mapped, reading on kills the process. Where the system has no
    such copies it is the path itself (Windows keeps mapped files from being cut), and above 1 GB:
    data sets of the user's own, of which a part is read at a time.
    """
    possible = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")
    if not possible or path.stat().st_size > MOST_COPIED:
        yield path
        return
    with open(os.memfd_create("newtongs"), "wb") as out:
        with path.open("rb") as f:
            shutil.copyfileobj(f, out, len(ZEROS))
        out.flush()
        yield Path(f"/proc/self/fd/{out.fileno()}")


def torch_content(path: Path, unusable: Callable[[Path, str], InputError]) -> Any:
    """As :func:`load_torch`; what torch says of a damaged file becomes one line of ``unusable``."""
    try:
        return load_torch(path)
    except InputError:
        raise
    except Exception as error:  # torch raises half a dozen types for damaged archives
        reason = first_line(error).split(". ")[0][:120]
        raise unusable(path, f"it cannot be read (damaged or truncated: {reason})") from error


def _require_known_names(path: Path, pickled: bytes) -> None:
    """Refuse names from which torch would build something other than a plain tensor."""
    import pickletools

    try:
        for opcode, named, _ in pickletools.genops(pickled):
            known = opcode.name == "GLOBAL" and TENSORS.fullmatch(str(named))
            if opcode.name in NAMING and not known:
                what = str(named or opcode.name).replace(" ", ".")
                raise InputError(f"{path} holds {what:.80}; only plain tensors are read")
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: its description of tensors is damaged") from error


def _tensors(content: Any) -> Iterator["Tensor"]:
    """Every tensor within lists and mappings, without recursion."""
    from torch import Tensor

    waiting, seen = [content], set[int]()
    while waiting:
        x = waiting.pop()
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, dict | list | tuple) and id(x) not in seen:
            seen.add(id(x))
            inner = x.values() if isinstance(x, dict) else x
            waiting += [y for y in inner if isinstance(y, (Tensor, dict, list, tuple))]


def opened_entry(path: Path, archive: "zipfile.ZipFile", name: str) -> IO[bytes]:
    """A file within a zip, of the two kinds whose expansion can be stopped at a limit."""
    if name not in archive.NameToInfo:
        raise InputError(f"{path} lacks {name}; it is damaged")
    info = archive.getinfo(name)
    if info.compress_type not in (STORED, DEFLATED):
        raise InputError(
            f"{path}: {name} uses unsupported compression; repack the archive with deflate"
        )
    return archive.open(info)


def array_header(path: Path, f: IO[bytes]) -> "Header":
    """Shape and type in front of an array's bytes; leaves the file at the bytes."""
    import numpy as np

    version = np.lib.format.read_magic(f)
    headers = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0
    }  # fmt: skip
    if version not in headers:
        raise InputError(f"{path}: npy version {version} is not supported")
    shape, fortran, dtype = headers[version](f)
    if fortran and len(shape) > 1:
        raise InputError(
            f"{path}: expected arrays in C order; convert them with numpy.ascontiguousarray"
        )
    if any(n < 0 for n in shape):
        raise InputError(f"{path}: an array has the shape {shape}; it is damaged")
    return shape, dtype


def is_numbers(header: "Header") -> bool:
    """Whether an array holds numbers of up to eight bytes, not text or objects of any size."""
    return header[1].kind in "biuf" and header[1].itemsize <= 8


def array_headers(path: Path) -> "dict[str, Header]":
    """Shape and type of every array of an ``.npz``, by name; the numbers are not read."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if len(names) > MOST_ARRAYS:
            raise InputError(f"{path} has {len(names):,} arrays; up to {MOST_ARRAYS:,} are read")
        found = {}
        for name in names:
            with opened_entry(path, archive, name) as f:
                found[name.removesuffix(".npy")] = array_header(path, f)
        return found
