"""Tables of two folders as one: which sweeps are taken, in which order they stand, and what is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, Checkout

from gpuheap.formats.points import make_point
from gpuheap.formats.protocol import Measurement, PointResult
from gpuheap.formats.results import Table, read_table, rows_of
from gpuheap.formats.suites import load_suites
from gpuheap.paths import Layout
from gpuheap.running.merge import merge

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]


@pytest.fixture
def two(checkout: Checkout) -> Checkout:
    """`one` has two cases of two allocators, `two` a case of those and a third one, by another build."""
    checkout.settings["backend"] = "cuda"
    assert checkout.gpuheap("bench", "alloc_single", "churn", "-a", "sharded_spans,cuda_malloc", "--no-baselines", "--output", "one").returncode == 0
    checkout.build("another")
    assert checkout.gpuheap("bench", "alloc_single", "-a", "sharded_spans,cuda_malloc,atomic_malloc", "--no-baselines", "--output", "two").returncode == 0
    return checkout


def sweeps(checkout: Checkout, folder: str) -> dict[str, dict[str, str]]:
    return json.loads((checkout.root / folder / "environment.json").read_text())["sweeps"]["mini"]


def points(checkout: Checkout, folder: str) -> list[tuple[str, str, int | None]]:
    rows = read_table(checkout.root / folder / "mini.csv")
    return list(dict.fromkeys((row.case, row.allocator, row.key[5]) for row in rows))


def test_a_table_of_another_build_takes_the_place_of_that_here(two: Checkout) -> None:
    there = sweeps(two, "two")
    ran = two.gpuheap("merge", "two", "--output", "one")
    assert ran.returncode == 0, ran.stderr
    assert "mini: 15 points into one/mini.csv, in place of 12 of another build" in ran.stdout
    after = sweeps(two, "one")
    assert after == there and set(after["alloc_single"]) == {"sharded_spans", "cuda_malloc", "atomic_malloc"}
    facts = json.loads((two.root / "one" / "environment.json").read_text())
    assert set(facts["builds"]) == set(after["alloc_single"].values()) and len(facts["builds"]) == 1
    # In the order of the suite and of allocators, and nothing twice.
    sizes = (16, 32, 64, 128, 256)
    single = [("alloc_single", name, size) for name in ("sharded_spans", "cuda_malloc", "atomic_malloc") for size in sizes]
    assert points(two, "one") == single
    rows = [row.key for row in read_table(two.root / "one" / "mini.csv") if row.metric == "malloc_us"]
    assert len(rows) == len(set(rows))


def test_only_the_named_tables_are_taken(two: Checkout, error_line: ErrorLine) -> None:
    before = (two.root / "one" / "mini.csv").read_text()
    wrong = two.gpuheap("merge", "two", "minis", "--output", "one")
    assert wrong.returncode == 2
    assert "unknown table of two 'minis': did you mean 'mini'?" in error_line(wrong)
    assert (two.root / "one" / "mini.csv").read_text() == before
    suite = two.root / "benchmarks" / "suites" / "mini.toml"
    suite.with_name("other.toml").write_text(suite.read_text().replace('name = "mini"', 'name = "other"'))
    assert two.gpuheap("bench", "other", "-a", "sharded_spans", "--no-baselines", "--output", "two").returncode == 0
    ran = two.gpuheap("merge", "two", "mini", "--output", "one")
    assert ran.returncode == 0, ran.stderr
    assert set(sweeps(two, "one")["alloc_single"]) == {"sharded_spans", "cuda_malloc", "atomic_malloc"}
    assert "other" not in json.loads((two.root / "one" / "environment.json").read_text())["sweeps"]
    assert not (two.root / "one" / "other.csv").exists()


def test_the_same_build_goes_on(two: Checkout) -> None:
    text = (two.root / "two" / "mini.csv").read_text().splitlines(keepends=True)
    part = two.root / "part"
    part.mkdir()
    (part / "environment.json").write_text((two.root / "two" / "environment.json").read_text())
    (part / "mini.csv").write_text("".join(line for line in text if ",16," not in line))
    assert two.gpuheap("merge", "two", "--output", "part").returncode == 0
    assert (part / "mini.csv").read_text() == "".join(text)
    # Again: nothing changes.
    assert two.gpuheap("merge", "two", "--output", "part").returncode == 0
    assert (part / "mini.csv").read_text() == "".join(text)


def test_a_table_with_fewer_points_of_another_build_is_left(two: Checkout) -> None:
    table = two.root / "two" / "mini.csv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if ",atomic_malloc," not in line))
    before = (two.root / "one" / "mini.csv").read_bytes()
    ran = two.gpuheap("merge", "two", "--output", "one")
    assert ran.returncode == 0 and "not taken: mini: 10 points, and there are 12 of another build here" in ran.stdout
    assert (two.root / "one" / "mini.csv").read_bytes() == before
    ran = two.gpuheap("merge", "two", "--output", "one", "--anew")
    assert ran.returncode == 0 and "in place of 12 of another build" in ran.stdout
    assert (two.root / "one" / "mini.csv").read_bytes() == table.read_bytes()


def test_an_older_table_is_left(two: Checkout) -> None:
    for folder, date in (("one", "2026-11-20T10:00:00Z"), ("two", "2026-11-20T10:00:01Z")):
        facts = json.loads((two.root / folder / "environment.json").read_text())
        facts["builds"] = {name: {**build, "date": date} for name, build in facts["builds"].items()}
        (two.root / folder / "environment.json").write_text(json.dumps(facts))
    old, new = ((two.root / folder / "mini.csv").read_bytes() for folder in ("one", "two"))
    # Fewer points here, so that only the date decides.
    (two.root / "two" / "mini.csv").write_bytes(b"".join(line for line in new.splitlines(keepends=True) if b",atomic_malloc," not in line))
    before = (two.root / "two" / "mini.csv").read_bytes()
    ran = two.gpuheap("merge", "one", "--output", "two")
    assert ran.returncode == 0 and "not taken: mini: measured before the table here, which --anew drops" in ran.stdout
    assert (two.root / "two" / "mini.csv").read_bytes() == before
    assert two.gpuheap("merge", "one", "--output", "two", "--anew").returncode == 0
    assert (two.root / "two" / "mini.csv").read_bytes() == old


def test_a_folder_that_began_as_a_copy_brings_only_what_was_measured_there(tmp_path: Path) -> None:
    suite = load_suites(Layout(REPOSITORY))["programs"]
    cases = list(suite.cases)[:2]

    def write(folder: Path, builds: dict[str, str], times: dict[str, float], modes: tuple[str, ...] = ("plain", "unified")) -> None:
        folder.mkdir()
        for case in cases:
            result = PointResult("ok", "", (Measurement("total_ms", "ms", (times[case],) * 3),))
            for mode in modes:
                Table(folder / "programs.csv").append(rows_of("programs", case, mode, "cuda", make_point({}), "", result))
        facts = {
            "gpu": {"name": "NVIDIA H200"},
            "date": max(builds.values()),
            "builds": {f"b{date}": {"date": date} for date in builds.values()},
            "sweeps": {"programs": {case: dict.fromkeys(modes, f"b{builds[case]}") for case in cases}},
        }
        (folder / "environment.json").write_text(json.dumps(facts))

    write(tmp_path / "here", {cases[0]: "1", cases[1]: "1"}, dict.fromkeys(cases, 1.0))
    write(tmp_path / "first", {cases[0]: "2", cases[1]: "1"}, {cases[0]: 2.0, cases[1]: 1.0})
    # A mode more, of a build before: it would stand beside modes of another build.
    write(tmp_path / "second", {cases[0]: "1", cases[1]: "3"}, {cases[0]: 1.0, cases[1]: 3.0}, ("plain", "unified", "device"))
    suites = load_suites(Layout(REPOSITORY))
    merge(tmp_path / "first", tmp_path / "here", suites)
    merged = merge(tmp_path / "second", tmp_path / "here", suites)
    assert merged.left == [f"programs/{cases[0]}: measured before those here, which --anew drops"]
    found = {(row.case, row.allocator): row.statistics.median for row in read_table(tmp_path / "here" / "programs.csv") if row.statistics}
    assert found == {(cases[0], mode): 2.0 for mode in ("plain", "unified")} | {(cases[1], mode): 3.0 for mode in ("plain", "unified", "device")}
    builds = json.loads((tmp_path / "here" / "environment.json").read_text())["sweeps"]["programs"]
    assert builds == {cases[0]: dict.fromkeys(("plain", "unified"), "b2"), cases[1]: dict.fromkeys(("plain", "unified", "device"), "b3")}


def test_a_table_of_several_builds_is_left(two: Checkout) -> None:
    facts = json.loads((two.root / "two" / "environment.json").read_text())
    facts["sweeps"]["mini"]["alloc_single"]["cuda_malloc"] = "anotherbuild"
    (two.root / "two" / "environment.json").write_text(json.dumps(facts))
    ran = two.gpuheap("merge", "two", "--output", "one")
    assert ran.returncode == 0 and "not taken: mini: two has rows of 2 builds, and a table has rows of one: measure it again" in ran.stdout


def test_a_new_folder_is_of_the_gpu(two: Checkout) -> None:
    assert two.gpuheap("merge", "two").returncode == 0
    assert (two.gpu_table).read_bytes() == (two.root / "two" / "mini.csv").read_bytes()


def test_slowdowns_are_over_the_reference_that_is_there_then(tmp_path: Path) -> None:
    def write(folder: Path, build: str, times: dict[str, float]) -> None:
        folder.mkdir()
        for name, value in times.items():
            result = PointResult("ok", "", (Measurement("build_ms", "ms", (value,) * 3),))
            Table(folder / "regeff.csv").append(rows_of("regeff", "kdtree", name, "simulator", make_point({"threads": 256}), "", result))
        facts = {"gpu": None, "date": build, "builds": {build: {}}, "sweeps": {"regeff": {"kdtree": dict.fromkeys(times, build)}}}
        (folder / "environment.json").write_text(json.dumps(facts))

    write(tmp_path / "here", "1", {"sharded_spans": 8.0, "atomic_malloc": 2.0})
    write(tmp_path / "there", "1", {"atomic_malloc": 4.0, "halloc": 12.0})
    merge(tmp_path / "there", tmp_path / "here", load_suites(Layout(REPOSITORY)))
    rows = read_table(tmp_path / "here" / "regeff.csv")
    found = {row.allocator: row.statistics.median for row in rows if row.metric == "slowdown" and row.statistics}
    assert found == {"sharded_spans": 2.0, "atomic_malloc": 1.0, "halloc": 3.0}


def test_what_cannot_be_merged_is_said(two: Checkout, error_line: ErrorLine, tmp_path: Path) -> None:
    assert "is not a folder: name one" in error_line(two.gpuheap("merge", "nowhere"))
    (two.root / "empty").mkdir()
    words = "empty has no environment.json, so gpuheap bench has not written it: name a folder"
    assert words in error_line(two.gpuheap("merge", "empty", "--output", "one"))
    assert "is the folder to merge into" in error_line(two.gpuheap("merge", "one", "--output", "one"))
    facts = json.loads((two.root / "two" / "environment.json").read_text())
    facts["gpu"]["name"] = "NVIDIA H100"
    (two.root / "two" / "environment.json").write_text(json.dumps(facts))
    before = (two.root / "one" / "mini.csv").read_bytes()
    assert "one folder is of one kind of machine" in error_line(two.gpuheap("merge", "two", "--output", "one"))
    table = two.root / "two" / "mini.csv"
    table.write_text(table.read_text()[:-20])
    assert "mini.csv" in error_line(two.gpuheap("merge", "two", "--output", "fresh"))
    assert not (two.root / "fresh").exists()
    assert (two.root / "one" / "mini.csv").read_bytes() == before
