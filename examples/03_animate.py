"""Throw the ball of a park scene, print its path, and write a contact sheet, a glb and a web page.

Run with: python examples/03_animate.py [FOLDER]
"""

import sys
import tempfile

import newtongs
from newtongs.samples import template

# A scene made by code. A file name works too: newtongs.animate("scene.ply", ...).
scene = template("sunny_park").scene()
animation = newtongs.animate(
    scene, velocity=(1.0, 3.5, 0.0), spin=(0.0, 0.0, -5.0), restitution=0.7, seconds=2.0
)

# States are in scene coordinates; `world` maps them to the physics frame.
height = newtongs.State(animation.states[0]).p @ animation.world.up - animation.world.floor
for t, y in zip(animation.times[::8].tolist(), height[::8].tolist(), strict=True):
    print(f"{t:4.2f} s  centre {y:5.2f} above the floor")

with tempfile.TemporaryDirectory() as folder:
    out = sys.argv[1] if len(sys.argv) > 1 else folder
    formats = ["png", "glb", "html"]
    files = animation.save(f"{out}/park", formats=formats, size=(256, 192))
    for name, path in files.items():
        print(f"{name}: {path.stat().st_size / 1e3:.0f} kB")
