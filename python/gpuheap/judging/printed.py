"""The numbers that the papers print, kept as data with their source: `benchmarks/claims/tables/`.

`values.csv` has one line for each number, with the case, allocator, point and metric that a row of results with this number would have.
`comparable` is `yes` if the number can be compared with one of another machine: ratios, shares, counts, registers, but not times.
`survey_table1.csv` is table 1 of the survey.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuheap.catalogue import ALLOCATORS, BASELINES, MODES
from gpuheap.errors import UserError, unknown_name
from gpuheap.files import read_text
from gpuheap.formats.results import split_parameter
from gpuheap.metrics import METRICS
from gpuheap.paths import Layout

VALUE_COLUMNS = tuple("paper,at,machine,suite,case,allocator,threads,bytes,parameter,metric,unit,value,comparable".split(","))
SURVEY_COLUMNS = tuple("name,allocators,year,availability,build,variants,over_cuda,general_purpose,results,stable".split(","))


@dataclass(frozen=True)
class PrintedValue:
    """One number of a paper."""

    paper: str
    at: str  # section, figure or table
    machine: str
    suite: str
    case: str
    allocator: str
    threads: int | None
    bytes: int | None
    parameter: str
    metric: str
    unit: str
    value: float
    comparable: bool

    @property
    def parameters(self) -> dict[str, str]:
        return split_parameter(self.parameter)


@dataclass(frozen=True)
class SurveyEntry:
    """A line of the survey's table 1, in its words."""

    name: str
    allocators: tuple[str, ...]
    year: int
    availability: str
    build: str
    variants: int
    over_cuda: str
    general_purpose: str
    results: str
    stable: str


def load_printed(layout: Layout) -> tuple[PrintedValue, ...]:
    """All numbers. Raises UserError with file and line."""
    path = layout.claims / "tables" / "values.csv"
    found: list[PrintedValue] = []
    lines: dict[tuple[object, ...], int] = {}
    for number, cell in _lines(path, VALUE_COLUMNS):
        try:
            value = _value(cell)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        key = (value.paper, value.suite, value.case, value.allocator, value.threads, value.bytes, value.parameter, value.metric)
        if lines.setdefault(key, number) != number:
            raise UserError(f"{path}:{number}: the same number is in line {lines[key]}")
        found.append(value)
    return tuple(found)


def printed_for(printed: Iterable[PrintedValue], suite: str, case: str, metric: str) -> tuple[PrintedValue, ...]:
    """The numbers of papers that a picture of a case may show next to the measurements."""
    return tuple(v for v in printed if v.comparable and (v.suite, v.case, v.metric) == (suite, case, metric))


def load_survey_table(layout: Layout) -> tuple[SurveyEntry, ...]:
    path = layout.claims / "tables" / "survey_table1.csv"
    found: list[SurveyEntry] = []
    for number, cell in _lines(path, SURVEY_COLUMNS):
        names = tuple(cell["allocators"].split())
        for name in names:
            if name not in ALLOCATORS:
                raise UserError(f"{path}:{number}: {unknown_name('allocator', name, ALLOCATORS)}")
        if not cell["year"].isdigit() or not cell["variants"].isdigit() or not names:
            raise UserError(f"{path}:{number}: expected allocators, and whole numbers as year and variants")
        rest = {key: cell[key] for key in ("name", "availability", "build", "over_cuda", "general_purpose", "results", "stable")}
        found.append(SurveyEntry(allocators=names, year=int(cell["year"]), variants=int(cell["variants"]), **rest))
    return tuple(found)


def _lines(path: Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    lines = read_text(path).splitlines()
    if not lines or lines[0] != ",".join(columns):
        raise UserError(f"{path}:1: expected the columns {','.join(columns)}")
    found: list[tuple[int, dict[str, str]]] = []
    for number, line in enumerate(lines[1:], start=2):
        fields = next(csv.reader([line]), [])
        if len(fields) != len(columns):
            raise UserError(f"{path}:{number}: expected {len(columns)} fields, got {len(fields)}")
        found.append((number, dict(zip(columns, fields, strict=True))))
    return found


def _value(cell: dict[str, str]) -> PrintedValue:
    """Reads a line. Raises a ValueError that names the expected form."""
    if cell["allocator"] not in (*ALLOCATORS, *BASELINES, *MODES):
        raise ValueError(unknown_name("allocator", cell["allocator"], [*ALLOCATORS, *BASELINES, *MODES]))
    if cell["metric"] not in METRICS:
        raise ValueError(unknown_name("metric", cell["metric"], METRICS))
    unit = METRICS[cell["metric"]].unit
    if cell["unit"] != unit:
        raise ValueError(f"unit of {cell['metric']} is '{cell['unit']}', expected '{unit}'")
    if cell["comparable"] not in ("yes", "no"):
        raise ValueError(f"comparable is '{cell['comparable']}', expected yes or no")
    if cell["comparable"] == "yes" and METRICS[cell["metric"]].is_time:
        raise ValueError(f"{cell['metric']} is a time of another machine, which is not comparable")
    for name in ("threads", "bytes"):
        if cell[name] and not cell[name].isdigit():
            raise ValueError(f"{name} is '{cell[name]}', expected a whole number")
    for name in ("paper", "at", "machine", "suite", "case"):
        if not cell[name]:
            raise ValueError(f"{name} is empty")
    try:
        number = float(cell["value"])
    except ValueError:
        raise ValueError(f"value is '{cell['value']}', expected a number") from None
    if not math.isfinite(number):
        raise ValueError("value is not finite")
    return PrintedValue(
        paper=cell["paper"],
        at=cell["at"],
        machine=cell["machine"],
        suite=cell["suite"],
        case=cell["case"],
        allocator=cell["allocator"],
        threads=int(cell["threads"]) if cell["threads"] else None,
        bytes=int(cell["bytes"]) if cell["bytes"] else None,
        parameter=cell["parameter"],
        metric=cell["metric"],
        unit=unit,
        value=number,
        comparable=cell["comparable"] == "yes",
    )
