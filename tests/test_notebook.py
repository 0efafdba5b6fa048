"""An animation as the value of a notebook's cell."""

import html
import re
import subprocess
import sys

import pytest

import newtongs
from newtongs.exports import html as pages
from newtongs.exports import notebook


@pytest.fixture(scope="module")
def park():
    return newtongs.animate("sunny_park", seconds=0.5, fps=12)


@pytest.mark.slow
def test_it_is_a_page_that_plays_within_the_page(park):
    markup = park._repr_html_()
    assert markup.startswith('<iframe sandbox="allow-scripts"')
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', markup)[1])
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert len(markup) < 600_000  # 4,736 Gaussians and 7 frames
    assert not re.search(r"""(src|href)=["']https?:""", page)


def test_the_page_holds_the_animation(park, tmp_path):
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', park._repr_html_())[1])
    (tmp_path / "page.html").write_text(page)
    got = pages.read_html(tmp_path / "page.html")
    assert len(got) >= len(park.scene)


@pytest.mark.parametrize("limit", ["LARGEST_PAGE", "MOST_GAUSSIANS"])
def test_what_is_too_large_stands_still_and_says_so(park, monkeypatch, limit):
    monkeypatch.setattr(notebook, limit, 10)
    markup = park._repr_html_()
    assert "<iframe" not in markup
    assert 'src="data:image/png;base64,iVBOR' in markup
    assert "too many for a notebook" in markup
    assert "animation.save(" in markup


@pytest.mark.slow
def test_nothing_of_it_is_imported_before_it_is_shown():
    code = (
        "import sys, newtongs.scene.animation\n"
        "print([m for m in sys.modules if m.startswith('newtongs.exports')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
