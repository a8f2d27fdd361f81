"""The documentation site builds without a warning, its internal links lead somewhere, and it opens from the file system."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for key, value in attributes:
            if key == "id" and value:
                self.ids.add(value)
            elif key in ("href", "src") and value is not None and tag in ("a", "img", "link", "script"):
                self.targets.append(value)


@pytest.fixture(scope="module")
def site() -> Path:
    if not shutil.which("doxygen"):
        pytest.skip("the documentation site: needs Doxygen: sudo apt-get install doxygen")
    if sys.version_info < (3, 11) or not (ROOT / "build/venv-docs/.requirements").is_file():
        pytest.skip("the documentation site: needs Sphinx in build/venv-docs: run scripts/docs.sh")
    with (ROOT / "build/docs.lock").open("w") as lock:  # tests of this file that run at the same time share the folder
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([ROOT / "scripts/docs.sh"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build/docs/html"


@pytest.fixture(scope="module")
def parsed(site) -> dict[Path, Links]:
    found = {}
    for page in site.rglob("*.html"):
        found[page] = Links()
        found[page].feed(page.read_text())
    return found


def test_links_lead_somewhere(parsed):
    broken = []
    for page, links in parsed.items():
        for target in links.targets:
            if re.match(r"[a-z]+:", target):
                continue
            path, anchor = urldefrag(target.partition("?")[0])
            there = (page.parent / unquote(path)).resolve() if path else page
            if not there.is_file() or (anchor and there in parsed and unquote(anchor) not in parsed[there].ids):
                broken.append(f"{page.name}: {target}")
    assert broken == []


def test_nothing_is_fetched_from_the_network_or_the_root(parsed):
    """A page that is opened as a file has no server."""
    loaded = [(page.name, target) for page, links in parsed.items() for target in links.targets if target.startswith("/")]
    scripts = [
        (page.name, found)
        for page in parsed
        for found in re.findall(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text())
    ]
    assert loaded == [] and scripts == []


def test_the_reference_has_what_programs_call(site):
    text = (site / "reference/heap.html").read_text()
    for member in ("malloc", "free", "calloc", "realloc", "aligned_malloc", "create", "destroy", "stats", "check", "verify", "reset", "grow", "trim"):
        assert re.search(rf'<span class="n"><span class="pre">{member}</span></span>', text), member
    assert "gpuheap advise" in (site / "reference/commands.html").read_text()
