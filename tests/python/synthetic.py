"""Tables that nobody measured, as large as those of a whole evaluation, for the tests of what reads them.

`python tests/python/synthetic.py FOLDER` writes a checkout's worth of them under FOLDER, for a look at the report's pictures:
`GPUHEAP_ROOT=FOLDER gpuheap report --figures FOLDER/figures`. Never into results/.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "python")]

from gpuheap.catalogue import ALLOCATORS, BASELINES, ordered  # noqa: E402
from gpuheap.formats.points import Point, points_of  # noqa: E402
from gpuheap.formats.results import HEADER, Row, format_row, summarise  # noqa: E402
from gpuheap.formats.suites import Case, Suite, load_suites  # noqa: E402
from gpuheap.judging.judge import grids_of  # noqa: E402
from gpuheap.metrics import METRICS  # noqa: E402
from gpuheap.paths import Layout  # noqa: E402

SIZES = sorted({*range(16, 257, 16), *(2**k + d for k in range(9, 14) for d in (-4, 0, 4))})
THREADS = [2**k for k in range(21)]
CASES: dict[str, tuple[list[int], list[int], list[str]]] = {  # threads, bytes, metrics
    "alloc_single": ([10_000, 100_000], SIZES, ["malloc_us", "free_us"]),
    "alloc_mixed": ([10_000, 100_000], SIZES, ["malloc_us", "free_us"]),
    "alloc_warp": ([10_000, 100_000], SIZES, ["malloc_us", "free_us"]),
    "alloc_scaling": (THREADS, [16, 64, 512, 8192], ["malloc_us", "free_us"]),
    "fragmentation": ([100_000], SIZES, ["address_range_ratio"]),
    "utilisation": ([100_000], SIZES, ["utilisation"]),
    "memory_access": ([131_072], SIZES, ["slowdown", "kernel_us"]),
    "work_generation": (THREADS, [64, 4096], ["total_ms"]),
}


def write_evaluation(root: Path) -> int:
    """A suite and a table of it for a GPU: every allocator at every point. Returns the number of rows."""
    suites, results = root / "benchmarks" / "suites", root / "results" / "nvidia-h200"
    results.mkdir(parents=True)
    source = random.Random(1)
    text = '[suite]\nname = "whole"\n'
    lines: list[str] = []
    for case, (threads, sizes, metrics) in CASES.items():
        text += f'\n[[case]]\nname = "{case}"\nheap_bytes = "8GiB"\nmetrics = {metrics}\n'
        text += f"axes = {{ threads = {threads}, bytes = {sizes} }}\n"
        every = itertools.product(enumerate([*ALLOCATORS, *BASELINES], start=1), threads, sizes, metrics)
        for (number, name), count, size, metric in every:
            middle = number * (1 + size / 1000) * (1 + count / 1e5)
            values = [middle * (1 + source.random() / 10) for _ in range(5)]
            row = Row(
                "whole",
                case,
                name,
                "cuda",
                count,
                size,
                "",
                metric,
                METRICS[metric].unit,
                summarise(values),
                5,
                "ok",
            )
            lines.append(format_row(row))
    (suites / "whole.toml").write_text(text)
    (results / "whole.csv").write_text(HEADER + "".join(lines))
    return len(lines)


# Those that do not tell how many bytes a request takes.
TELL_NO_BYTES = (
    *("atomic_malloc", "coalesce_block_map", "coalesce_warp_map", "cuda_malloc", "dynasoar", "halloc"),
    *(name for name in ALLOCATORS if name.startswith("ouroboros")),
)
Value = Callable[[str, Mapping[str, str], str], Sequence[float]]  # of an allocator, at a point, of a metric


def allocators_of(suite: Suite, case: Case) -> list[str]:
    """Those that take part, of an executable that has all."""
    return ordered([*(suite.allocators or ALLOCATORS), *case.baselines])


def cannot(case: str, allocator: str, fields: Mapping[str, str]) -> bool:
    """Whether an allocator does not support a point."""
    if allocator == "atomic_wrap_malloc" and case.startswith(("fragmentation", "utilisation", "graph")):
        return True
    if fields.get("upstream") == "sharded_spans" and not allocator.startswith("coalesce"):
        return True
    return allocator == "fdgmalloc" and case.startswith(("graph", "kdtree", "churn"))


def metrics_at(case: Case, allocator: str, fields: Mapping[str, str]) -> list[str]:
    """Those of a case that a point has: some belong to one phase of the case, and some to the allocators that tell them."""
    if case.name == "fragmentation" and allocator in TELL_NO_BYTES:
        return [metric for metric in case.metrics if metric != "internal_fragmentation"]
    if case.name == "registers":
        return [metric for metric in case.metrics if metric in (f"registers_{fields['which']}", "stack_bytes", "spill_bytes")]
    if case.name == "graph_skewed":
        other = "kernel_us" if fields["phase"] == "init" else "build_ms"
        return [metric for metric in case.metrics if metric != other]
    return list(case.metrics)


def rows_of_suites(suites: Mapping[str, Suite], value: Value, late: Callable[[str, str, Point], bool] | None = None) -> list[Row]:
    """A row for every metric at every point of every suite on a GPU, but where an allocator cannot do the case.

    `late`: which points of a case ran out of time, for an allocator; three in a row end its sweep.
    """
    rows: list[Row] = []
    for suite in suites.values():
        for backends in suite.cases.values():
            case = backends["cuda"]
            for name in allocators_of(suite, case):
                failures = 0
                for point in points_of(grids_of(case, (name,)), 1):
                    where = (suite.name, case.name, name, "cuda", point.threads, point.bytes)
                    if failures == 3:
                        break
                    if cannot(case.name, name, point.fields):
                        rows.append(Row(*where, _with(point.parameter, "reason=why"), "", "", None, 0, "unsupported"))
                        continue
                    if late is not None and late(case.name, name, point):
                        failures += 1
                        rows.append(Row(*where, _with(point.parameter, "reason=no result within 60 s"), "", "", None, 0, "timeout"))
                        continue
                    failures = 0
                    for metric in metrics_at(case, name, point.fields):
                        values = tuple(float(f"{each:.6g}") for each in value(name, point.fields, metric))
                        rows.append(Row(*where, point.parameter, metric, METRICS[metric].unit, summarise(values), len(values), "ok", values))
    return rows


def _with(parameter: str, more: str) -> str:
    return ";".join(sorted(part for part in (*parameter.split(";"), more) if part))


def plausible(name: str, fields: Mapping[str, str], metric: str) -> list[float]:
    """Five runs of something that grows with threads and sizes, in a way of each allocator's own."""
    own = random.Random(zlib.crc32(name.encode()))
    speed, by_size, by_threads, noise = own.uniform(0.3, 3) ** 4, own.uniform(0, 0.8), own.uniform(0.2, 1), own.choice([0.01, 0.05, 0.4])
    here = random.Random(zlib.crc32(f"{name} {sorted(fields.items())} {metric}".encode()))
    size, threads = float(fields.get("bytes", fields.get("floats", 64))), float(fields.get("threads", 1000))
    times = 1 + here.random() / 5
    if metric == "failed_requests":
        middle = 0.0
    elif metric in ("utilisation", "internal_fragmentation", "metadata_ratio"):
        middle = min(1.0, own.uniform(0.2, 0.9) * times)
    elif METRICS[metric].unit == "ratio":
        middle = 1 + speed * times / 4
    elif METRICS[metric].unit == "count":
        middle = float(round(10 + 90 * own.random()))
    else:
        middle = speed * times * (1 + size / 100) ** by_size * (1 + threads / 1000) ** by_threads
    return [middle * (1 + noise * (here.random() - 0.5)) if middle else 0.0 for _ in range(5)]


def some_late(case: str, name: str, point: Point) -> bool:
    """A few allocators do not come to an end with many threads or large blocks."""
    draw = random.Random(zlib.crc32(f"{case} {name}".encode())).random()
    large = (point.bytes or 0) > 4096 or (point.threads or 0) > 500_000
    return case not in ("init", "registers") and large and draw < 0.12


def write_suites(root: Path, late: Callable[[str, str, Point], bool] | None = some_late) -> int:
    """A checkout with the repository's suites and claims and a table of each suite, from `plausible`. Returns the number of rows."""
    suites = load_suites(Layout(REPOSITORY))
    shutil.copytree(REPOSITORY / "benchmarks" / "suites", root / "benchmarks" / "suites", dirs_exist_ok=True)
    shutil.copytree(REPOSITORY / "benchmarks" / "claims", root / "benchmarks" / "claims", dirs_exist_ok=True)
    results = root / "results" / "synthetic"
    results.mkdir(parents=True, exist_ok=True)
    (results / "environment.json").write_text(json.dumps({"gpu": {"name": "synthetic rows, not measured"}}))
    rows = rows_of_suites(suites, plausible, late)
    for name in suites:
        lines = [format_row(row) for row in rows if row.suite == name]
        (results / f"{name}.csv").write_text(HEADER + "".join(lines))
    return len(rows)


if __name__ == "__main__":
    print(f"{write_suites(Path(sys.argv[1])):,} rows")
