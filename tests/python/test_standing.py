"""The standing: who counts, what a failure costs, and that the page of the documentation says what the tables say."""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_checkout import REPOSITORY, Checkout
from handmade import failed, row, save

from gpuheap.answers.standing import standing
from gpuheap.answers.standing_view import with_score
from gpuheap.formats.results import Row, summarise
from gpuheap.paths import Layout
from gpuheap.report.profile import profile_svg

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]
TRAITS = {name: {"free": "individually"} for name in ("sharded_spans", "halloc", "cuda_malloc")} | {
    "atomic_malloc": {"free": "never"},
    "fdgmalloc": {"free": "collectively"},
    "atomic_wrap_malloc": {"free": "individually", "overwrites": True},
}


def times(rows: list[Row]) -> list[dict[str, float]]:
    return [{entry.allocator: entry.times for entry in contest.entries} for contest in standing(rows, TRAITS).contests]


def test_the_best_is_one_and_others_are_so_many_times_that() -> None:
    assert times([row("sharded_spans", 3), row("halloc", 2), row("cuda_malloc", 8)]) == [{"halloc": 1, "sharded_spans": 1.5, "cuda_malloc": 4}]
    # Higher values are better; equal ones share a rank.
    rows = [row("sharded_spans", 0.5, metric="utilisation"), row("halloc", 1, metric="utilisation"), row("cuda_malloc", 1, metric="utilisation")]
    assert times(rows) == [{"halloc": 1, "cuda_malloc": 1, "sharded_spans": 2}]
    assert [entry.rank for entry in standing(rows, TRAITS).contests[0].entries] == [1, 1, 3]


def test_those_that_never_free_or_overwrite_take_no_part() -> None:
    rows = [row(name, 1) for name in ("atomic_malloc", "fdgmalloc", "atomic_wrap_malloc", "store_only")] + [row("sharded_spans", 3), row("halloc", 2)]
    assert times(rows) == [{"halloc": 1, "sharded_spans": 1.5}]
    assert standing(rows, TRAITS).left_out == {
        "atomic_malloc": "never frees", "atomic_wrap_malloc": "overwrites live memory", "fdgmalloc": "frees collectively", "store_only": "no allocator"
    }  # fmt: skip


@pytest.mark.parametrize("status", ["timeout", "crash", "wrong"])
def test_a_failure_loses_its_point(status: str) -> None:
    found = standing([failed("sharded_spans", status), row("halloc", 2)], TRAITS)
    assert times([failed("sharded_spans", status), row("halloc", 2)]) == [{"halloc": 1, "sharded_spans": float("inf")}]
    assert (found.score("sharded_spans").best, found.score("sharded_spans").failed, found.score("sharded_spans").beyond(1.5)) == (0, 1, 1)


def test_a_time_out_loses_only_what_its_limit_shows() -> None:
    rows = [row("sharded_spans", 3), row("halloc", 2), row("sharded_spans", 30, metric="free_us"), row("halloc", 20, metric="free_us"), failed("cuda_malloc")]
    assert times(rows) == [{"halloc": 1, "sharded_spans": 1.5, "cuda_malloc": float("inf")}, {"halloc": 1, "sharded_spans": 1.5}]
    # 60 s bound a malloc by 1.2 s, which is no worse than 2 s.
    assert times([row("sharded_spans", 3e6), row("halloc", 2e6), failed("cuda_malloc")]) == [{"halloc": 1, "sharded_spans": 1.5}]
    assert times([row("sharded_spans", 3, metric="free_us"), failed("cuda_malloc")]) == []


def test_a_value_that_is_infinitely_worse_is_no_failure() -> None:
    rows = [row("sharded_spans", 0, metric="internal_fragmentation"), row("halloc", 0.1, metric="internal_fragmentation")]
    assert times(rows) == [{"sharded_spans": 1, "halloc": float("inf")}]
    assert standing(rows, TRAITS).score("halloc").failed == 0


def test_a_time_in_which_requests_failed_is_no_result_and_memory_is() -> None:
    rows = [row("sharded_spans", 1), row("sharded_spans", 4, metric="failed_requests"), row("sharded_spans", 0.8, metric="utilisation")]
    rows += [row("halloc", 2), row("halloc", 0.4, metric="utilisation")]
    assert times(rows) == [{"halloc": 1, "sharded_spans": float("inf")}, {"sharded_spans": 1, "halloc": 2}]


def test_an_unsupported_point_and_one_without_a_rival_are_no_contest() -> None:
    assert times([row("sharded_spans", 1), failed("halloc", "unsupported")]) == []
    assert times([row("sharded_spans", 1), row("halloc", 1, size=64)]) == []
    assert times([failed("sharded_spans"), failed("halloc")]) == []


def test_metrics_that_are_no_score_stay_out() -> None:
    rows = [row(name, value, metric=metric) for metric in ("total_ms", "slowdown", "registers_pair") for name, value in (("sharded_spans", 3), ("halloc", 1))]
    assert times(rows) == []


def test_worst_comes_first_and_wins_do_not_come() -> None:
    rows = [row(name, value, size=size) for size, mine in ((16, 1), (32, 5), (64, 3)) for name, value in (("sharded_spans", mine), ("halloc", 2))]
    assert [(contest.point[1], entry.times) for contest, entry in standing(rows, TRAITS).worst("sharded_spans")] == [(32, 2.5), (64, 1.5)]


def test_a_ratio_has_an_interval_where_runs_are_known() -> None:
    source = random.Random(1)
    noisy = [[source.gauss(middle, 1.0) for _ in range(20)] for middle in (20, 10)]
    names = ("sharded_spans", "halloc")
    rows = [replace(row(name, 1), statistics=summarise(runs), values=tuple(runs), runs=20) for name, runs in zip(names, noisy, strict=True)]
    (contest,) = standing(rows, TRAITS).contests
    best, other = contest.entries
    assert best.interval is None and other.interval is not None
    low, high = other.interval
    assert 1.7 < low < other.times < high < 2.3 and high - low < 0.4
    assert all(entry.interval is None for entry in standing([rows[0], row("cuda_malloc", 9)], TRAITS).contests[0].entries)


def results_of(checkout: Checkout, rows: list[Row]) -> Path:
    folder = checkout.root / "elsewhere"
    save(folder / "survey.csv", rows)
    (folder / "environment.json").write_text(
        json.dumps({"gpu": {"name": "A GPU"}, "allocators": [{"name": name, **traits} for name, traits in TRAITS.items()]})
    )
    return folder


def test_a_page_gets_its_score_again(checkout: Checkout) -> None:
    folder = results_of(checkout, [row("sharded_spans", 3), row("halloc", 2)])
    (checkout.root / "page.md").write_text("# Mine\n\n## Score\n\nold\n\n## What counts\n\nkept\n")
    ran = checkout.gpuheap("standing", "--results", str(folder), "--page", "page.md")
    assert ran.returncode == 0, ran.stderr
    page = (checkout.root / "page.md").read_text()
    assert page.startswith("# Mine\n\n## Score\n\nThe score is of the recorded tables of A GPU, suites `survey`. Of 1 points `sharded_spans` is the best at 0,")
    assert page.endswith("| `halloc` | 1 | 1 | 1 | 0 | 0 |\n| `sharded_spans` | 1 | 0 | 0 | 1 | 0 |\n\n## What counts\n\nkept\n")


def test_the_picture_replaces_no_table(checkout: Checkout, error_line: ErrorLine) -> None:
    folder = results_of(checkout, [row("sharded_spans", 3), row("halloc", 2)])
    table = folder / "survey.csv"
    before = table.read_bytes()
    assert "is read by this command" in error_line(checkout.gpuheap("standing", "--results", str(folder), "--picture", str(table)))
    assert table.read_bytes() == before


def test_the_command_prints_text_json_and_csv(checkout: Checkout) -> None:
    folder = results_of(checkout, [row("sharded_spans", 3), row("halloc", 2), row("sharded_spans", 1, size=64), row("halloc", 2, size=64)])
    ran = checkout.gpuheap("standing", "--results", str(folder), "--picture", "standing.svg")
    assert ran.returncode == 0, ran.stderr
    assert "sharded_spans: best at 1 of 2 (50%), within 5% at 1 of 2 (50%)" in ran.stdout
    assert "1,000 threads, 16 B malloc_us" in ran.stdout and "halloc 2 µs" in ran.stdout
    labels = " ".join(ElementTree.parse(checkout.root / "standing.svg").getroot().itertext())
    assert "gpuheap (sharded_spans), 2 points" in labels and "halloc, 2 points" in labels
    twice = checkout.gpuheap("standing", "--results", str(folder), "--suite", "survey", "--suite", "survey").stdout
    assert twice.startswith("survey on ")
    said = json.loads(checkout.gpuheap("standing", "--results", str(folder), "--json", "--of", "halloc").stdout)
    assert (said["subject"], said["points"], said["worst"][0]["bytes"], said["worst"][0]["times"]) == ("halloc", 2, 64, 2.0)
    lines = list(csv.DictReader(io.StringIO(checkout.gpuheap("standing", "--results", str(folder), "--csv").stdout)))
    assert [(line["bytes"], line["allocator"], line["times"], line["rank"]) for line in lines] == [
        ("16", "halloc", "1.0", "1"), ("16", "sharded_spans", "1.5", "2"), ("64", "sharded_spans", "1.0", "1"), ("64", "halloc", "2.0", "2")
    ]  # fmt: skip


def test_a_narrow_terminal_cuts_nothing_off(checkout: Checkout) -> None:
    folder = results_of(checkout, [row("sharded_spans", 3), row("halloc", 2)])
    checkout.environment["COLUMNS"] = "60"
    ran = checkout.gpuheap("standing", "--results", str(folder))
    assert ran.returncode == 0, ran.stderr
    assert " sharded_spans " in ran.stdout and "\N{HORIZONTAL ELLIPSIS}" not in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--json", "--csv"], "--json and --csv exclude each other: choose one"),
        (["--of", "haloc"], "unknown contender 'haloc': did you mean 'halloc'?"),
        (["--of", "nobody"], "unknown contender 'nobody': there are halloc, sharded_spans"),
        (["--suite", "gallatin"], "unknown suite 'gallatin' in elsewhere: there are survey"),
        (["--results", "nowhere"], "--results: there is no folder 'nowhere': name one that gpuheap bench has written"),
        (["--page", "elsewhere/survey.csv"], "--page: the file has no section '## Score' before '## What counts', as docs/standing.md has"),
        (["--picture", "out.png"], "--picture: 'out.png' does not end in .svg, and the picture is an SVG file: name one that does"),
        (["--picture", "elsewhere"], "elsewhere cannot be written: it is a folder: name another file with --picture"),
    ],
)
def test_a_mistake_is_one_line(checkout: Checkout, error_line: ErrorLine, arguments: list[str], complaint: str) -> None:
    results_of(checkout, [row("sharded_spans", 3), row("halloc", 2)])
    given = arguments if "--results" in arguments else [*arguments, "--results", "elsewhere"]
    assert complaint in error_line(checkout.gpuheap("standing", *given))


def test_tables_without_a_contest_say_what_to_run(checkout: Checkout, error_line: ErrorLine) -> None:
    results_of(checkout, [row("sharded_spans", 3)])
    line = error_line(checkout.gpuheap("standing", "--results", "elsewhere"))
    assert line.startswith("elsewhere holds no point of survey, gallatin, regeff, stress that two allocators were measured at: run `gpuheap bench")


def test_the_page_says_what_the_recorded_tables_say() -> None:
    from gpuheap.answers.measured import find_measured
    from gpuheap.answers.standing import SUITES

    measured = find_measured(Layout(REPOSITORY), REPOSITORY / "results" / "nvidia-h200")
    traits = {entry["name"]: entry for entry in measured.environment["allocators"]}
    found = standing((row for row in measured.rows if row.suite in SUITES), traits)
    page = (REPOSITORY / "docs" / "standing.md").read_text()
    again = with_score(page, found, "sharded_spans", SUITES, measured.device)
    assert again == page, "gpuheap standing --page docs/standing.md --picture docs/images/standing.svg"
    recorded = (REPOSITORY / "docs" / "images" / "standing.svg").read_text()
    assert _texts(recorded) == _texts(profile_svg(found, "sharded_spans"))


def _texts(svg: str) -> list[str]:
    return [text for text in ElementTree.fromstring(svg).itertext() if text.strip()]
