"""The numbers that the papers print, and the survey's table 1 made from rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY, Checkout
from handmade import failed, row, save

from gpuheap.answers.survey_table import families, published_in, stability_words
from gpuheap.errors import UserError
from gpuheap.formats.protocol import Allocator
from gpuheap.judging.printed import VALUE_COLUMNS, load_printed, load_survey_table, printed_for
from gpuheap.paths import Layout

LAYOUT = Layout(REPOSITORY)
PRINTED = load_printed(LAYOUT)


def test_table_2_of_the_register_efficient_allocators_is_whole() -> None:
    slowdowns = printed_for(PRINTED, "regeff", "kdtree_queue", "slowdown")
    assert len(slowdowns) == 11 * 9  # scenes; CudaMalloc, three pages of ScatterAlloc, AWMalloc and the four circular ones
    pages = [v for v in slowdowns if v.allocator == "scatteralloc" and v.at == "table 2: Sodahall"]
    assert {v.parameters.get("page", "4096"): v.value for v in pages} == {"4096": 5.08, "8192": 2.82, "16384": 1.87}
    assert all(v.machine == "NVIDIA GTX TITAN Black" and v.at.startswith("table 2: ") for v in slowdowns)
    assert {v.allocator: v.value for v in printed_for(PRINTED, "survey", "registers", "registers_pair")}["regeff_cf"] == 10


def test_the_speedup_that_the_paper_gives_is_that_of_its_table() -> None:
    """1.13 to 4.33 is, but for rounding, against pages of 4096 B; against the best page of each scene it is 1.92 at most."""
    times = {(v.allocator, v.at, v.parameters.get("page", "4096")): v.value for v in PRINTED if v.metric == "slowdown"}
    scenes = sorted({scene for _, scene, _ in times})
    fixed = [times["scatteralloc", scene, "4096"] / times["regeff_cf", scene, "4096"] for scene in scenes]
    tuned = {scene: min(times["scatteralloc", scene, page] for page in ("4096", "8192", "16384")) for scene in scenes}
    best = [tuned[scene] / times["regeff_cf", scene, "4096"] for scene in scenes]
    assert (round(min(fixed), 2), round(max(fixed), 2)) == (1.13, 4.34)
    assert (round(min(best), 2), round(max(best), 2)) == (1.13, 1.92)


def test_times_of_other_machines_are_never_drawn() -> None:
    assert printed_for(PRINTED, "regeff", "kdtree_queue", "build_ms") == ()
    assert [v for v in PRINTED if v.metric == "build_ms"]


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ({"allocator": "haloc"}, "unknown allocator 'haloc': did you mean 'halloc'"),
        ({"metric": "slow"}, "unknown metric 'slow'"),
        ({"unit": "ms"}, "unit of slowdown is 'ms', expected 'ratio'"),
        ({"value": "much"}, "value is 'much', expected a number"),
        ({"value": "inf"}, "value is not finite"),
        ({"comparable": "maybe"}, "comparable is 'maybe', expected yes or no"),
        ({"metric": "build_ms", "unit": "ms"}, "build_ms is a time of another machine"),
        ({"threads": "-1"}, "threads is '-1', expected a whole number"),
        ({"machine": ""}, "machine is empty"),
        ({}, "the same number is in line 2"),
        ({"at": "table 2,"}, "expected 13 fields, got 14"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, cells: dict[str, str], complaint: str) -> None:
    line = "regeff,table 2,m,regeff,kdtree,halloc,,,scene=a,slowdown,ratio,1.5,yes"
    good = dict(zip(VALUE_COLUMNS, line.split(","), strict=True))
    path = tmp_path / "benchmarks" / "claims" / "tables" / "values.csv"
    path.parent.mkdir(parents=True)
    lines = [",".join(VALUE_COLUMNS), ",".join(good.values()), ",".join({**good, **cells}.values())]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError) as error:
        load_printed(Layout(tmp_path))
    assert str(error.value).startswith(f"{path}:3: ")
    assert complaint in str(error.value)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks" / "claims" / "tables" / "values.csv"
    path.parent.mkdir(parents=True)
    path.write_text("paper,value\n")
    with pytest.raises(UserError, match=r"values\.csv:1: expected the columns paper,at,"):
        load_printed(Layout(tmp_path))


ALLOCATORS = [
    Allocator("regeff_c", "CMalloc", "Vinkler, Havran: Register Efficient Memory Allocator for GPUs, HPG 2014", 2014),
    Allocator("regeff_cf", "CFMalloc", "Vinkler, Havran: Register Efficient Memory Allocator for GPUs, HPG 2014", 2014),
    Allocator("atomic_malloc", "AtomicMalloc", "Vinkler, Havran: Register Efficient Memory Allocator for GPUs, HPG 2014", 2014, free="never"),
    Allocator("halloc", "Halloc", "Adinetz, Pleiter: Halloc, GTC 2014", 2014, process_wide=True),
    Allocator("sharded_spans", "ours"),
]


def test_variants_share_a_line_and_stability_is_counted() -> None:
    rows = [
        row("regeff_c", 1),
        failed("regeff_c", size=32),
        row("regeff_cf", 1),
        failed("regeff_cf", "unsupported", size=32),
        row("halloc", 1),
    ]
    rows += [row("halloc", 2, metric="free_us")]  # the same point
    found = {family.names: family for family in families(ALLOCATORS, rows, load_survey_table(LAYOUT))}
    assert list(found) == [("atomic_malloc",), ("regeff_c", "regeff_cf"), ("halloc",), ("sharded_spans",)]
    circular = found["regeff_c", "regeff_cf"]
    assert (circular.points, circular.stable, stability_words(circular)) == (3, False, "66.7% of 3 ok: 1 timeout")
    assert circular.survey is not None and circular.survey.stable == "no"
    assert (found["halloc",].over_cuda, stability_words(found["halloc",])) == (True, "1 of 1 ok")
    assert (found["sharded_spans",].stable, stability_words(found["sharded_spans",])) == (None, "no rows")
    assert found["atomic_malloc",].purpose == "no: never frees"
    assert published_in(ALLOCATORS[0]) == "Vinkler, Havran, HPG 2014"


def test_almost_all_is_not_all() -> None:
    rows = [row("halloc", 1, size=size) for size in range(1, 5000)] + [failed("halloc", "crash", size=6000)]
    (family,) = families([ALLOCATORS[3]], rows, [])
    assert stability_words(family) == "99.9% of 5000 ok: 1 crash"


def test_list_as_the_survey_does(checkout: Checkout) -> None:
    tables = checkout.root / "benchmarks" / "claims" / "tables"
    tables.mkdir(parents=True)
    (tables / "survey_table1.csv").write_text((LAYOUT.claims / "tables" / "survey_table1.csv").read_text())
    out = checkout.gpuheap("list", "--table").stdout
    assert "no rows" in out
    assert "`gpuheap bench survey` measures them on a GPU" in out
    save(checkout.root / "results" / "nvidia-h200" / "survey.csv", [row("sharded_spans", 1), failed("cuda_malloc")])
    out = checkout.gpuheap("list", "--table").stdout
    assert "yes: 1 of 1 ok" in out
    said = json.loads(checkout.gpuheap("list", "--table", "--json").stdout)
    cuda = next(family for family in said["families"] if family["allocators"] == ["cuda_malloc"])
    assert (cuda["stable"], cuda["endings"]["timeout"], cuda["survey"]) == (False, 1, {"name": "CUDA-Allocator", "stable": "yes"})
    ran = checkout.gpuheap("list", "--results", "results/nvidia-h200")
    assert (ran.returncode, ran.stderr) == (2, "gpuheap: --results needs --table: add --table, or leave out --results\n")
