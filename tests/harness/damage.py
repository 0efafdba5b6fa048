"""Ways to damage a file, drawn from a seeded generator."""

import gzip
import io
import json
import math
import re
import tomllib
import zipfile

import numpy as np

ODD_NUMBERS = [b"1000000000000", b"-1", b"0", b"4294967296", b"9" * 30, b"1e9", b"", b"nan", b"3.5"]
ODD_VALUES = [
    None, True, 0, -1, 0.5, 2**31, 2**63, 10**30, 1e308, "", "x", "\0", "../x", "/dev/zero",
    [], {}, [[]], [0] * 50, {"a": {}}, [None], "nan", -0.0, ["\ud800"], "é" * 300,
]  # fmt: skip


def mutated(rng, content, first=None):
    """A few bytes, or one bit, of the first ``first`` changed."""
    x = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        i = int(rng.integers(min(len(x), first or len(x))))
        x[i] = x[i] ^ 1 << int(rng.integers(8)) if rng.random() < 0.5 else int(rng.integers(256))
    return bytes(x)


def other_number(rng, content):
    """One decimal number of a text header replaced by a larger, negative or senseless one."""
    numbers = list(re.finditer(rb"\d+", content[:4000])) or [re.match(rb"", content)]
    m = numbers[int(rng.integers(len(numbers)))]
    new = ODD_NUMBERS[int(rng.integers(len(ODD_NUMBERS)))]
    return content[: m.start()] + new + content[m.end() :]


def shuffled_words(rng, content):
    """A slice of the file repeated, removed or moved."""
    a, b = sorted(int(i) for i in rng.integers(len(content), size=2))
    return [content[:a] + content[b:], content[:b] + content[a:], content[b:] + content[:a]][
        int(rng.integers(3))
    ]


def huge_binary_numbers(rng, content):
    """Four or eight bytes of all ones, or a large count, near the beginning."""
    i = int(rng.integers(min(64, len(content))))
    new = [b"\xff" * 4, b"\xff" * 8, (10**12).to_bytes(8, "little"), b"\x00\x00\x00\x7f"]
    x = new[int(rng.integers(len(new)))]
    return content[:i] + x + content[i + len(x) :]


def wrong_endian(rng, content):
    """Body bytes in the other order, or the other order claimed by the header."""
    if b"little_endian" in content:
        return content.replace(b"little_endian", b"big_endian")
    if b"big_endian" in content:
        return content.replace(b"big_endian", b"little_endian")
    start = len(content) % 4
    return content[:start] + np.frombuffer(content[start:], "<u4").byteswap().tobytes()


def as_text(rng, content):
    """Through a text-mode copy: newlines changed, or a header that claims text."""
    choice = int(rng.integers(3))
    if choice == 0:
        return content.replace(b"\n", b"\r\n")
    if choice == 1:
        return content.decode("latin-1").encode("utf-8")
    return re.sub(rb"binary_\w+_endian", b"ascii", content)


DAMAGE = [
    lambda rng, x: x[: int(rng.integers(len(x)))],
    mutated,
    lambda rng, x: mutated(rng, x, 600),
    lambda rng, x: mutated(rng, x, 64),
    other_number,
    other_number,
    shuffled_words,
    huge_binary_numbers,
    wrong_endian,
    as_text,
    lambda rng, x: rng.bytes(int(rng.integers(1, 4000))),
    lambda rng, x: x[: int(rng.integers(100))] + rng.bytes(int(rng.integers(1, 4000))),
    lambda rng, x: bytes(rng.integers(32, 127, int(rng.integers(1, 2000))).astype(np.uint8)),
    lambda rng, x: b"",
]


def any_damage(rng, content):
    """One of them."""
    return DAMAGE[int(rng.integers(len(DAMAGE)))](rng, content)


# --- damage that no checksum of a container gives away -------------------------------------------


def within_gzip(rng, content):
    """To what is packed."""
    return gzip.compress(any_damage(rng, gzip.decompress(content)), compresslevel=1)


def within_zip(rng, content):
    """To one entry of an archive, with a right checksum; sometimes it is packed anew or renamed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        names = old.namelist()
        chosen = names[int(rng.integers(len(names)))]
        packed = [zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2]
        kind = packed[int(rng.integers(len(packed)))]
        with zipfile.ZipFile(out, "w") as new:
            for name in names:
                x = old.read(name)
                method = kind if name == chosen else zipfile.ZIP_STORED
                changed = any_damage(rng, x) if name == chosen and x else x
                if name == chosen and _is_json(x) and rng.random() < 0.7:
                    changed = within_json(rng, x)
                new.writestr(name, changed, method)
    return out.getvalue()


def _is_json(x):
    return x[:1] in (b"{", b"[")


def within_json(rng, content):
    """One value of a JSON text replaced, removed or repeated; the text stays JSON."""
    tree = json.loads(content)
    places = list(_places(tree))
    if not places:
        return any_damage(rng, content)
    holder, key = places[int(rng.integers(len(places)))]
    choice = rng.random()
    if choice < 0.7:
        holder[key] = ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
    elif choice < 0.85:
        del holder[key]
    else:
        other, k = places[int(rng.integers(len(places)))]
        # A copy of its text: a tree must not hold itself.
        holder[key] = json.loads(json.dumps(other[k]) if (other, k) != (holder, key) else "0")
    return json.dumps(tree).encode("utf-8", "replace")


def within_toml(rng, content):
    """The same with TOML, on a line for each key."""
    tree = json.loads(within_json(rng, json.dumps(tomllib.loads(content.decode())).encode()))
    return "".join(f"{k} = {_toml(v)}\n" for k, v in tree.items()).encode("utf-8", "replace")


def _toml(x):
    if isinstance(x, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in x.items()) + "}"
    if isinstance(x, list):
        return "[" + ", ".join(map(_toml, x)) + "]"
    if isinstance(x, float) and not math.isfinite(x):
        return str(x)
    return json.dumps(x)


def _places(tree):
    """Every holder and key, up to some thousands."""
    waiting, count = [tree], 0
    while waiting and count < 5000:
        x = waiting.pop()
        keys = list(x) if isinstance(x, dict) else range(min(len(x), 50))
        for key in keys:
            count += 1
            yield x, key
            if isinstance(x[key], dict | list):
                waiting.append(x[key])


def within_header(rng, content):
    """The JSON that stands before the numbers of a .safetensors or .glb, of its new length."""
    glb = content[:4] == b"glTF"
    start = 20 if glb else 8
    size = int.from_bytes(content[12:16] if glb else content[:8], "little")
    text = within_json(rng, content[start : start + size])
    text += b" " * (-len(text) % 4)
    rest = content[start + size :]
    if not glb:
        return len(text).to_bytes(8, "little") + text + rest
    chunk = len(text).to_bytes(4, "little") + b"JSON" + text
    total = (12 + len(chunk) + len(rest)).to_bytes(4, "little")
    return content[:8] + total + chunk + rest
