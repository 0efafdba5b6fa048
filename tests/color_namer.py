"""A namer made by code: it calls things by their colour. ``python color_namer.py`` answers once."""

import base64
import io
import json
import sys

import numpy as np
from PIL import Image

COLORS = {
    "orange": (0.9, 0.5, 0.1),
    "red": (0.8, 0.1, 0.1),
    "blue": (0.1, 0.2, 0.8),
    "green": (0.1, 0.6, 0.1),
}


def color_of(picture):
    """The mean colour in the middle of a picture, where the thing is."""
    x = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture)))) / 255
    (h, w), part = x.shape[:2], 5
    return x[2 * h // part : 3 * h // part, 2 * w // part : 3 * w // part].mean((0, 1))


def answer(asked):
    """Names, or one score per thing: 1 for the nearest colour if the text has its name, else 0."""
    names = []
    for thing in asked["things"]:
        rgb = color_of(thing["picture"])
        names.append(min(COLORS, key=lambda name: np.abs(rgb - COLORS[name]).max()))
    if asked["text"] is None:
        return {"names": names}
    return {"scores": [float(name in asked["text"].split()) for name in names]}


if __name__ == "__main__":
    print(json.dumps(answer(json.load(sys.stdin))))
