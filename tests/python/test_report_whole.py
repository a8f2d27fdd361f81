"""The report of a whole evaluation: how long it takes, how large it is, and that a browser shows it."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from fake_checkout import Checkout
from synthetic import write_evaluation, write_suites

from gpuheap.catalogue import ALLOCATORS

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))),
    None,
)

# Runs in the page: presses a name, and leaves what came of it in the title.
LOOK = """
<script>
const facts = {};
const section = document.querySelector("section");
for (const fold of document.querySelectorAll("details")) fold.open = true;
facts.cut = [...document.querySelectorAll(".scroll")].filter((t) => t.scrollWidth > t.clientWidth + 1).length;
section.querySelector('button.chip[data-allocator="gallatin"]').click();
facts.focused = section.classList.contains("focused");
facts.on = section.querySelectorAll(".series.on").length;
facts.others = [...section.querySelectorAll(".series.on")].filter((s) => !s.classList.contains("s-gallatin")).length;
facts.figures = document.querySelectorAll("figure svg").length;
const boxes = [...document.querySelectorAll("figure svg")].map((s) => s.getBoundingClientRect());
facts.empty = boxes.filter((b) => b.width < 100 || b.height < 50).length;
const shown = [...document.querySelectorAll("figure svg text")].map((t) => t.getBoundingClientRect()).filter((b) => b.width > 0);
facts.outside = shown.filter((b) => b.left < 0 || b.right > innerWidth).length;
facts.tooltips = document.querySelectorAll("figure svg use title").length;
facts.wide = document.documentElement.scrollWidth > innerWidth;
document.title = JSON.stringify(facts);
</script>
"""


def all_pages(first: Path) -> list[Path]:
    return [first, *sorted(first.with_suffix("").glob("*.html"))]


def largest_suite(first: Path) -> Path:
    return max(all_pages(first)[1:], key=lambda path: path.stat().st_size)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, float]:
    """The report, the rows it is of, and the seconds of a processor that it took."""
    checkout = Checkout(tmp_path_factory.mktemp("whole"))
    rows = write_evaluation(checkout.root)
    return checkout.root / "build" / "report.html", rows, seconds_of_report(checkout)


def seconds_of_report(checkout: Checkout) -> float:
    """Of a processor, however busy the machine is."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = checkout.gpuheap("report")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_twenty_thousand_rows_take_under_ten_seconds_and_eight_megabytes(
    page: tuple[Path, int, float],
) -> None:
    path, rows, seconds = page
    assert rows >= 20_000
    assert seconds < 10
    assert path.stat().st_size < 1.5e6, "the first page"
    assert sum(one.stat().st_size for one in all_pages(path)) < 8e6


@pytest.mark.whole
def test_all_suites_with_all_allocators_fit_as_well(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    rows = write_suites(checkout.root)
    assert rows > 69_000
    assert seconds_of_report(checkout) < 10 * rows / 20_000
    first = checkout.root / "build" / "report.html"
    assert first.stat().st_size < 1.5e6
    assert sum(one.stat().st_size for one in all_pages(first)) < 8e6 * rows / 20_000 / 2.5


def test_the_best_allocator_of_each_pattern_is_found(
    page: tuple[Path, int, float],
) -> None:
    text = page[0].read_text()
    matrix = text[text.index("The best allocator for each pattern") : text.index("A cell names the allocator")]
    # The tables give every allocator times by its place in the list.
    assert set(re.findall(r'class="chip">.*?</svg>(\w+)<', matrix)) == {
        ALLOCATORS[0],
        ALLOCATORS[-1],
    }, "times, and utilisation, which is better high"


@pytest.mark.skipif(CHROMIUM is None, reason="the report in a browser: no Chromium: sudo apt-get install chromium")
@pytest.mark.parametrize("width", [1300, 500])
def test_a_browser_shows_the_page(page: tuple[Path, int, float], tmp_path: Path, width: int) -> None:
    looked_at = tmp_path / "page.html"
    looked_at.write_text(largest_suite(page[0]).read_text().replace("</body>", LOOK + "</body>"))
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={width},900",
        "--enable-logging=stderr",
    ]
    command += [
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        looked_at.as_uri(),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in ran.stderr, ran.stderr
    title = re.search(r"<title>(\{.*?\})</title>", ran.stdout)
    assert title is not None, ran.stderr[-2000:]
    facts = json.loads(title[1])
    assert facts["figures"] > 20 and facts["empty"] == 0
    assert facts["focused"] and facts["on"] > 20 and facts["others"] == 0
    assert facts["tooltips"] > 15_000
    assert facts["outside"] == 0 and not facts["wide"]
    assert width < 1280 or facts["cut"] == 0, "no table is wider than the window"


@pytest.mark.skipif(CHROMIUM is None, reason="the report in a browser: no Chromium: sudo apt-get install chromium")
def test_a_link_lands_below_the_names_that_stick(page: tuple[Path, int, float], tmp_path: Path) -> None:
    look = """<script>
    const target = document.querySelector(".case:nth-of-type(3), .case");
    target.scrollIntoView({ behavior: "instant" });
    document.title = JSON.stringify({ top: target.getBoundingClientRect().top, legend: document.querySelector(".legend").getBoundingClientRect().bottom });
    </script>"""
    looked_at = tmp_path / "page.html"
    looked_at.write_text(largest_suite(page[0]).read_text().replace("</body>", look + "</body>"))
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,900", f"--user-data-dir={tmp_path / 'profile'}"]
    ran = subprocess.run([*command, "--dump-dom", looked_at.as_uri()], capture_output=True, text=True, timeout=120)
    title = re.search(r"<title>(\{.*?\})</title>", ran.stdout)
    assert title is not None, ran.stderr[-2000:]
    facts = json.loads(title[1])
    assert facts["top"] >= facts["legend"] - 1
