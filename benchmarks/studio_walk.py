"""A new user in the studio, by a pointer in a real browser: from the page to the downloaded glb.

Choose a scene, click the object, pull its arrow, play, download. Prints the seconds after which
each was done; with --pictures a second walk draws the pictures of docs/studio.md.

Run with: NEWTONGS_BROWSER=DIR python benchmarks/studio_walk.py [--scene NAME] [--pictures FOLDER]
(DIR: npm install --prefix DIR playwright-core; needs node and chromium)
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import test_studio_browser as browser_tests  # type: ignore[import-not-found]
from PIL import Image
from studio_tabs import FOUND, MISSING, wait  # type: ignore[import-not-found]

PAGE_SIZE = 1000, 640  # pixels of the page
DRAWN = 600, 384  # pixels of a picture in the documentation
NOTICE = (288, 81)  # where a browser without a graphics card is told so; a click there closes it
PULLED = 1.0  # units a second, to the right
LOOK = 3.0  # seconds until what was sent is drawn; a person looks as long


def walk(scene: str, folder: Path, done: Callable[[str, Any], None]) -> None:
    """All steps; ``done`` is called after each, with its name and the walk."""
    walk = browser_tests.Walk(folder, None)
    try:
        page, tab = walk.page, walk.tab
        tab.until(words="choose a scene")
        done("open", walk)
        tab.choose(list=0, option=scene)
        wait(lambda: page.shown == scene and "Gaussians;" in page.panel.message.content)
        time.sleep(LOOK)
        session = page.session
        thing = session.scene.object(0).means.double().mean(0)
        x, y = walk.pixel(session.world.to_physics(thing))
        tab.click(x=x, y=y)
        walk.says("Gaussians move")
        time.sleep(LOOK)
        done("pick", walk)
        pull(walk, session)
        done("pull", walk)
        tab.press(name="Play")
        wait(lambda: 5 < page.panel.frame.value < 30)
        tab.press(name="Pause")
        done("play", walk)
        tab.unfold(name="Export")
        tab.download(name="Export and download", folder=str(folder))
        done("home", walk)
    finally:
        walk.close()


def pull(walk: Any, session: Any) -> None:
    """The arrow's handle to the right; the pointer may miss it once."""
    before = session.recipe.pushes[0].velocity
    for _ in range(3):
        walk.tab.pull(walk.handle(), walk.handle(PULLED))
        time.sleep(LOOK)
        if session.recipe.pushes[0].velocity != before:
            return
    raise SystemExit("the handle was not met")


def draw(folder: Path) -> Callable[[str, Any], None]:
    """Takes a picture after each step."""
    steps = iter(range(1, 6))

    def shoot(step: str, walk: Any) -> None:
        number = next(steps)
        if number == 1:
            walk.tab.click(x=NOTICE[0], y=NOTICE[1])
        time.sleep(2)  # what moves comes to rest
        walk.shoot(step)
        picture = Image.open(walk.folder / f"{step}.png").convert("RGB")
        small = picture.resize(DRAWN, Image.Resampling.LANCZOS)
        small.save(folder / f"studio_{number}_{step}.jpg", quality=88, subsampling=0)

    return shoot


def main() -> None:
    """Walk once for the times, and once more for the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scene", default="kitchen_table")
    parser.add_argument("--pictures", type=Path)
    args = parser.parse_args()
    if not FOUND:
        print(MISSING)
        return
    browser_tests.PAGE_SIZE = PAGE_SIZE
    start = time.perf_counter()

    def tell(step: str, _: Any) -> None:
        print(f"{step}: after {time.perf_counter() - start:.0f} s", flush=True)

    with tempfile.TemporaryDirectory() as name:
        walk(args.scene, Path(name), tell)
        if args.pictures is not None:
            walk(args.scene, Path(name), draw(args.pictures))


if __name__ == "__main__":
    main()
