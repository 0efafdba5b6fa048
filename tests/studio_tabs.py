"""A real browser for tests of the studio: tabs that are clicked, pulled and looked at.

npm install --prefix DIR playwright-core
NEWTONGS_BROWSER=DIR pytest tests/test_studio_browser.py
"""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np

PACKAGES = os.environ.get("NEWTONGS_BROWSER", "")
CHROMIUM = os.environ.get("NEWTONGS_CHROMIUM") or shutil.which("chromium") or ""
SCRIPT = Path(__file__).parent / "browser" / "remote.mjs"
FOUND = bool(
    PACKAGES
    and (Path(PACKAGES) / "node_modules" / "playwright-core").is_dir()
    and CHROMIUM
    and shutil.which("node")
)
MISSING = "set NEWTONGS_BROWSER to a folder with playwright-core; needs node and chromium"


def wait(what, seconds=120):
    """Until something holds."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


class Browser:
    """One browser; close it when done."""

    def __init__(self):
        packages = str(Path(PACKAGES).resolve())
        self.process = subprocess.Popen(
            ["node", SCRIPT, packages, CHROMIUM], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def do(self, what, **given):
        """Send a line, and wait for the answer."""
        self.process.stdin.write(json.dumps({"do": what, **given}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["ok"]

    def tab(self, url, size, name="tab"):
        """A new one."""
        self.do("open", tab=name, url=url, width=size[0], height=size[1])
        return Tab(self, name)

    def close(self):
        """End it."""
        self.process.stdin.write('{"do": "end"}\n')
        self.process.stdin.close()
        self.process.wait(60)


class Tab:
    """One page."""

    def __init__(self, browser, name):
        self.browser, self.name = browser, name

    def __getattr__(self, what):
        return lambda **given: self.browser.do(what, tab=self.name, **given)

    def picture(self, file, still=True):
        """What is to be seen ``(H, W, 3)``."""
        from PIL import Image

        self.shot(file=str(file), still=still)
        return np.asarray(Image.open(file).convert("RGB")).astype(float)

    def pulling(self, start, end, steps=4, pause=400, before=1500):
        """A job: from a pixel to another; milliseconds between, and before the button is down."""
        (x, y), (dx, dy) = start, np.subtract(end, start).tolist()
        times = {"steps": steps, "pause": pause, "before": before}
        return {"do": "drag", "tab": self.name, "x": x, "y": y, "dx": dx, "dy": dy, **times}

    def pull(self, start, end, **times):
        """Do that."""
        job = self.pulling(start, end, **times)
        self.browser.do(job.pop("do"), **job)
