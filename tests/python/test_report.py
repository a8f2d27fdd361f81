"""The report: what it shows, that it needs nothing else, and that simulated times stay away from measured ones."""

from __future__ import annotations

import itertools
import math
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_checkout import Checkout

from gpuheap.catalogue import ALLOCATORS, BASELINES, is_rival
from gpuheap.errors import UserError
from gpuheap.paths import Layout
from gpuheap.report import write_report
from gpuheap.report.style import MARKER_PATHS, family_of, look
from gpuheap.report.tables import Cell, Column, ColumnGroup, Grid, Line, chip, pieces

VOID = {"meta", "link", "br", "img", "input", "path", "use", "hr"}


class Page(HTMLParser):
    """The parts of a page that the tests look at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.references: list[str] = []
        self.words: dict[str, str] = {"": ""}
        self.svgs_in: dict[str, int] = {}
        self.open: list[str] = []
        self._section = ""
        self.feed(text)
        assert self.open == [], f"unclosed: {self.open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        found = dict(attributes)
        self.ids += [found["id"] or ""] if "id" in found else []
        if tag == "section":
            self._section = found.get("id") or ""
        if tag == "figure":
            self.svgs_in[self._section] = self.svgs_in.get(self._section, 0) + 1
        for name in ("href", "xlink:href", "src", "srcset", "data", "action"):
            if found.get(name):
                (self.links if tag == "a" else self.references).append(found[name] or "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words[self._section] = self.words.get(self._section, "") + " ".join(data.split()) + " "


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a GPU, one point of them failed, and of the simulator."""
    checkout = Checkout(tmp_path_factory.mktemp("results"))
    checkout.settings["backend"] = "cuda"
    checkout.fail(**{"cuda_malloc/256": "crash"})
    assert checkout.gpuheap("bench", "mini").returncode == 0
    checkout.settings.clear()
    checkout.fail(**{"atomic_malloc/32": "wrong"})
    assert checkout.gpuheap("bench", "mini").returncode == 0
    return checkout.root


@pytest.fixture
def filled(checkout: Checkout, results: Path) -> Checkout:
    """A checkout that holds them."""
    for folder in ("results", "build"):
        shutil.copytree(results / folder, checkout.root / folder)
    return checkout


def report(checkout: Checkout) -> Page:
    ran = checkout.gpuheap("report")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "report: build/report.html\n"
    return Page((checkout.root / "build" / "report.html").read_text())


def test_the_page_is_well_formed_and_needs_nothing_else(filled: Checkout) -> None:
    page = report(filled)
    text = (filled.root / "build" / "report.html").read_text()
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", text.replace("// Shows", ""))
    assert all(reference.startswith("#") for reference in page.references + page.links)
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links} <= set(page.ids)


def test_answers_come_first_then_this_machine_then_recorded_tables(filled: Checkout) -> None:
    page = report(filled)
    assert list(page.words)[1:4] == ["nvidia-h200-answers", "simulated", "nvidia-h200"]
    words = page.words["nvidia-h200-answers"]
    assert "The fastest allocator for each kind of kernel, NVIDIA H200" in words and "blocks of one size: malloc" in words
    assert "store_only" not in words and "atomic_wrap_malloc" not in words, "baselines, and what never frees, are no answers"


def test_gpu_results_have_medians_and_ratios(filled: Checkout) -> None:
    page = report(filled)
    words = page.words["nvidia-h200"]
    assert "NVIDIA H200" in words
    assert "measured on a GPU" in words
    assert re.search(r"[0-9.]+× (faster|slower)", words)
    assert re.search(r"[0-9.]+ µs", words)
    assert all(name in words for name in ("alloc_single", "churn", "graph_update", "store_only"))


def test_failures_are_listed_not_hidden(filled: Checkout) -> None:
    page = report(filled)
    assert "cuda_malloc, alloc_single 100 threads, 256 B, state=warm: SIGSEGV" in page.words["nvidia-h200"]
    assert "atomic_malloc, alloc_single 100 threads, 32 B, state=warm: wrong, as asked" in page.words["simulated"]


def test_what_was_not_tried_is_listed_too(checkout: Checkout) -> None:
    checkout.settings["backend"] = "cuda"
    checkout.fail(**{f"atomic_malloc/{size}": "crash" for size in (16, 32, 64)})
    checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans,atomic_malloc")
    words = report(checkout).words["nvidia-h200"]
    assert "atomic_malloc, alloc_single 2 points: not tried: three failures in a row end a sweep over the same axes" in words


def test_simulated_results_have_no_figures_and_say_what_they_are(filled: Checkout) -> None:
    page = report(filled)
    assert page.svgs_in == {"nvidia-h200": 5}  # malloc and free, churn, build and updates
    words = page.words["simulated"]
    assert "simulated on the CPU" in words
    assert "28 of 29 points passed; 8 are unsupported in the simulator" in words
    assert "not comparable with times of a GPU" in words


def test_the_environment_is_told(filled: Checkout) -> None:
    words = report(filled).words["nvidia-h200"]
    assert "Compute capability 9.0" in words
    assert "Flags -O3" in words


def test_cases_that_several_suites_have_are_told_apart(filled: Checkout) -> None:
    words = report(filled).words
    assert "mini/churn" not in words["nvidia-h200"] and "mini/churn" not in words["simulated"]
    other = filled.gpu_table.with_name("other.csv")
    other.write_text(re.sub(r"(?m)^mini,", "other,", filled.gpu_table.read_text()))
    words = report(filled).words
    assert "mini/churn" in words["nvidia-h200"] and "other/churn" in words["nvidia-h200"]


def test_a_report_of_the_simulator_alone(checkout: Checkout) -> None:
    checkout.gpuheap("bench", "churn")
    page = report(checkout)
    assert "this checkout holds no GPU results" in page.words[""]
    assert page.svgs_in == {}


def test_a_report_of_nothing(checkout: Checkout) -> None:
    assert "There are no results yet" in report(checkout).words[""]


def test_texts_of_a_table_are_escaped(checkout: Checkout) -> None:
    checkout.settings["backend"] = "cuda"
    checkout.gpuheap("bench", "churn", "-a", "sharded_spans")
    table = checkout.gpu_table
    table.write_text(table.read_text() + "mini,churn,halloc,cuda,100,1024,reason=<script>x</script>,,,,,,,,,,0,crash,\n")
    report(checkout)
    assert "<script>x" not in (checkout.root / "build" / "report.html").read_text()


def test_a_table_out_of_format_is_named(filled: Checkout, error_line: Callable[[subprocess.CompletedProcess[str]], str]) -> None:
    filled.gpu_table.write_text(filled.gpu_table.read_text().replace(",us,", ",s,", 1))
    assert f"{filled.gpu_table}:2: unit of malloc_us is 's', expected 'us'" in error_line(filled.gpuheap("report"))


def test_the_report_replaces_no_table(filled: Checkout, error_line: Callable[[subprocess.CompletedProcess[str]], str]) -> None:
    table = next((filled.root / "results").glob("*/*.csv"))
    before = table.read_bytes()
    assert "is read by this command" in error_line(filled.gpuheap("report", "--output", str(table)))
    assert table.read_bytes() == before


def test_further_folders_of_tables(checkout: Checkout) -> None:
    checkout.settings["backend"] = "cuda"
    checkout.gpuheap("bench", "churn", "-a", "sharded_spans", "--output", "elsewhere")
    assert checkout.gpuheap("report", "--results", "elsewhere", "-o", "page.html").returncode == 0
    assert "NVIDIA H200" in (checkout.root / "page.html").read_text()


def test_a_large_report_has_a_page_for_each_suite(filled: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    other = filled.gpu_table.with_name("other.csv")
    other.write_text(re.sub(r"(?m)^mini,", "other,", filled.gpu_table.read_text()))
    monkeypatch.setattr("gpuheap.report.LARGEST_PAGE", 10_000)
    out = filled.root / "out" / "all.html"
    write_report(Layout(filled.root), out)
    first = Page(out.read_text())
    assert first.svgs_in == {}
    assert {link for link in first.links if not link.startswith("#")} == {"all/nvidia-h200-mini.html", "all/nvidia-h200-other.html"}
    for suite in ("mini", "other"):
        page = Page((out.parent / "all" / f"nvidia-h200-{suite}.html").read_text())
        assert page.svgs_in == {"nvidia-h200": 5}
        assert {link for link in page.links if not link.startswith("#")} == {"../all.html"}
        assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
        assert "simulated" not in page.words and "nvidia-h200-answers" not in page.words


def test_a_large_report_without_an_ending_has_a_folder_of_its_own(filled: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuheap.report.LARGEST_PAGE", 10_000)
    out = filled.root / "out" / "all"
    write_report(Layout(filled.root), out)
    assert {link for link in Page(out.read_text()).links if not link.startswith("#")} == {"all-suites/nvidia-h200-mini.html"}
    page = Page((out.parent / "all-suites" / "nvidia-h200-mini.html").read_text())
    assert {link for link in page.links if not link.startswith("#")} == {"../all"}


def test_a_pipe_or_a_device_takes_a_large_report_as_one_page(filled: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuheap.report.LARGEST_PAGE", 10_000)
    write_report(Layout(filled.root), Path(os.devnull))
    assert Path(os.devnull).is_char_device()
    (folder := filled.root / "folder").mkdir()
    with pytest.raises(UserError, match="it is a folder"):
        write_report(Layout(filled.root), folder)
    assert not list(folder.iterdir())


def test_wide_tables_are_cut_into_pieces() -> None:
    columns = tuple(Column("malloc", str(n)) for n in range(10))
    line = Line(chip("sharded_spans"), "", "", tuple(Cell(str(n)) for n in range(13)))
    empty = Line(chip("halloc"), "", "", tuple(Cell("x" if n > 10 else "") for n in range(13)))
    found = pieces(Grid((ColumnGroup("a", columns), ColumnGroup("b", columns[:3])), (line, empty), "cuda"))
    assert [[(group.case, len(group.columns)) for group in piece.groups] for piece in found] == [[("a", 6)], [("a", 4), ("b", 2)], [("b", 1)]]
    assert [[cell.value for cell in piece.lines[0].cells] for piece in found] == [[str(n) for n in part] for part in (range(6), range(6, 12), range(12, 13))]
    assert [len(piece.lines) for piece in found] == [1, 2, 2], "lines with nothing in a piece are left out of it"
    assert pieces(Grid((), (line,))) == [Grid((), (replace(line, cells=()),))]


def test_variants_and_baselines_are_never_the_best() -> None:
    assert is_rival("sharded_spans") and is_rival("mine")
    assert not any(map(is_rival, ("store_only", "bump_sharded", "without_shards", "plain")))


def test_figures_are_files_that_stand_alone(filled: Checkout) -> None:
    suite = filled.root / "benchmarks" / "suites" / "mini.toml"
    suite.write_text(suite.read_text().replace('name = "mini"', 'name = "quick"'))
    filled.settings["backend"] = "cuda"
    filled.gpuheap("bench", "quick")
    ran = filled.gpuheap("report", "--figures", "figures")
    assert ran.returncode == 0, ran.stderr
    paths = [filled.root / line for line in ran.stdout.splitlines()]
    assert {path.name for path in paths} >= {"quick.svg", "quick-alloc_single.svg", "quick-churn.svg"}
    for path in (path for path in paths if path.suffix == ".svg"):
        root = ET.parse(path).getroot()
        assert root.get("width") and root.get("viewBox")
        references = [value for part in root.iter() for name, value in part.attrib.items() if name.endswith("href")]
        assert all(reference.startswith("#") for reference in references)
    words = (filled.root / "figures" / "quick.svg").read_text()
    assert "sharded_spans" in words and "NVIDIA H200" in words and "churn" in words


def test_figures_do_not_change_when_drawn_again(filled: Checkout) -> None:
    for folder in ("one", "two"):
        filled.gpuheap("report", "--figures", folder)
    written = [path for path in (filled.root / "one").rglob("*") if path.is_file()]
    assert {path.suffix for path in written} == {".svg", ".pdf", ".tex"}
    for path in written:
        assert path.read_bytes() == (filled.root / "two" / path.relative_to(filled.root / "one")).read_bytes(), path


def test_figures_for_papers_come_as_pdf_and_tables_as_latex(filled: Checkout) -> None:
    filled.gpuheap("report", "--figures", "figures")
    folder = filled.root / "figures" / "nvidia-h200"
    assert (folder / "mini-alloc_single.pdf").read_bytes().startswith(b"%PDF-")
    table = (folder / "mini-alloc_single.tex").read_text()
    assert table.count(r"\begin{table}") == table.count(r"\end{table}") == 2, "ten columns in two pieces"
    assert r"\texttt{store\_only}" in table and r"\textmu{}s" in table and "crash" in table
    for line in table.splitlines():
        if line.endswith(r"\\") and "multicolumn" not in line:
            assert line.count(" & ") in (7, 3), line
    assert not re.search(r"(?<!\\)[_%#]", re.sub(r"%.*|\\label\{.*", "", table, count=0)), "a character that LaTeX takes for a command"


def test_figures_show_measured_times_only(checkout: Checkout, error_line: Callable[[subprocess.CompletedProcess[str]], str]) -> None:
    checkout.gpuheap("bench", "churn")
    assert "no GPU results in results" in error_line(checkout.gpuheap("report", "--figures", "figures"))


def test_every_allocator_has_a_look_of_its_own() -> None:
    names = [*ALLOCATORS, *BASELINES]
    assert len({(look(name).colour, look(name).marker) for name in names}) == len(names) == 31
    assert all(look(name).marker in MARKER_PATHS for name in [*names, "some_new_allocator"])
    assert look("some_new_allocator") == look("some_new_allocator")


def test_families_have_one_colour_each_that_eyes_tell_apart_on_both_grounds() -> None:
    colours: dict[str, set[str]] = {}
    for name in ALLOCATORS:
        colours.setdefault(family_of(name), set()).add(look(name).colour)
    assert all(len(found) == 1 for found in colours.values())
    assert len(colours["ouroboros"]) == 1 and len({look(name).marker for name in ALLOCATORS if name.startswith("ouroboros")}) == 6
    flat = sorted(colour for found in colours.values() for colour in found)
    assert len(flat) == len(colours) == 14
    assert min(difference(one, other) for one, other in itertools.combinations(flat, 2)) > 15
    assert all(contrast(colour, ground) > 2.4 for colour in flat for ground in ("#ffffff", "#181b1f"))


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, other: str) -> float:
    """As WCAG has it."""
    light, dark = sorted((sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(x), strict=True)) for x in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def difference(one: str, other: str) -> float:
    """CIE 1994 of two colours: about 2 is the least that is seen."""

    def lab(colour: str) -> tuple[float, float, float]:
        r, g, b = linear(colour)
        xyz = (
            (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
            0.2126 * r + 0.7152 * g + 0.0722 * b,
            (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
        )
        x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz)
        return 116 * y - 16, 500 * (x - y), 200 * (y - z)

    (l1, a1, b1), (l2, a2, b2) = lab(one), lab(other)
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    hue = max(0.0, (a1 - a2) ** 2 + (b1 - b2) ** 2 - (c1 - c2) ** 2)
    return math.sqrt((l1 - l2) ** 2 + ((c1 - c2) / (1 + 0.045 * c1)) ** 2 + hue / (1 + 0.015 * c1) ** 2)
