"""The drawings of the documentation are those that docs/drawings.py makes, stay readable in dark and on narrow screens, and are shown."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE = runpy.run_path(str(ROOT / "docs" / "drawings.py"))
NAMES = sorted(MODULE["DRAWINGS"])


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_is_the_one_that_the_script_makes(name: str) -> None:
    assert (ROOT / "docs" / "images" / name).read_text() == MODULE["DRAWINGS"][name](), "run: python docs/drawings.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_keeps_its_text_inside(name: str) -> None:
    svg = ElementTree.fromstring(MODULE["DRAWINGS"][name]())
    _x, _y, width, height = map(float, svg.attrib["viewBox"].split())
    assert width <= 430, "text of a wider drawing is unreadable on a screen of 390 pixels"
    for words in svg.iter("{http://www.w3.org/2000/svg}text"):
        x, y, length = float(words.attrib["x"]), float(words.attrib["y"]), 6.5 * len(words.text or "")
        start = {"start": x, "middle": x - length / 2, "end": x - length}[words.attrib["text-anchor"]]
        assert start >= -2 and start + length <= width + 25 and 0 < y < height, words.text


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_has_colours_for_dark_and_a_page_that_shows_it(name: str) -> None:
    assert "prefers-color-scheme: dark" in MODULE["DRAWINGS"][name]()
    pages = [page for page in (ROOT / "docs").rglob("*.md") if re.search(rf"!\[[^\]]+\]\([^)]*\b{re.escape(name)}\)", page.read_text())]
    assert pages, f"no page shows {name}"
