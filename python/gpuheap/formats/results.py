"""The results format: one CSV row per measurement, read strictly, appended a point at a time."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.files import append, make_folder, read_text, replace_file
from gpuheap.formats.points import Point
from gpuheap.formats.protocol import STATUSES, Measurement, PointResult
from gpuheap.metrics import METRICS

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")  # of a suite, a case or an allocator
COLUMNS = tuple("suite,case,allocator,backend,threads,bytes,parameter,metric,unit,mean,median,stddev,p5,p95,min,max,runs,status".split(","))
RUNS_COLUMN = "values"  # each run's value; tables of earlier versions lack it
HEADER = ",".join([*COLUMNS, RUNS_COLUMN]) + "\n"
ELSEWHERE = "name another folder with --output"  # for tables that cannot be written
EXPLAINING = ("reason", "reached")  # keys of `parameter` that describe an outcome, and are no part of the point
MOST_RUNS = 1_000_000  # ten times what the executable accepts

_NUMBERS = ("mean", "median", "stddev", "p5", "p95", "min", "max")
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs"}  # those of spreadsheets whose locale has a decimal comma
_SAVE_WITH_COMMAS = "save the table with commas between the fields, and numbers with a decimal point"

Key = tuple[str, str, str, str, int | None, int | None, str]
Sweep = tuple[str, str, str]  # case, allocator, backend


@dataclass(frozen=True)
class Statistics:
    mean: float
    median: float
    stddev: float
    p5: float
    p95: float
    min: float
    max: float


@dataclass(frozen=True)
class Row:
    """One line of a table. A row that is not `ok` may have no metric and no numbers."""

    suite: str
    case: str
    allocator: str
    backend: str
    threads: int | None
    bytes: int | None
    parameter: str
    metric: str
    unit: str
    statistics: Statistics | None
    runs: int
    status: str
    values: tuple[float, ...] = ()  # the value of each run; empty if the table lacks them

    @cached_property
    def key(self) -> Key:
        """The fields that distinguish this row's point from all others."""
        kept = [f"{name}={value}" for name, value in self.parameters.items() if name not in EXPLAINING]
        return (self.suite, self.case, self.allocator, self.backend, self.threads, self.bytes, ";".join(kept))

    @property
    def sweep(self) -> Sweep:
        return (self.case, self.allocator, self.backend)

    @cached_property
    def parameters(self) -> dict[str, str]:
        return split_parameter(self.parameter)

    @cached_property
    def fields(self) -> dict[str, str]:
        """The values that distinguish the row's point from others of its case, as text by their key."""
        pairs = [("threads", self.threads), ("bytes", self.bytes)]
        named = {key: str(value) for key, value in pairs if value is not None}
        return named | {key: value for key, value in self.parameters.items() if key not in EXPLAINING}

    @cached_property
    def line(self) -> str:
        """The row's line in a file, with its line end. A row that was read keeps its line unchanged.

        The line is cached, because a long table is written again for each sweep that replaces old rows.
        """
        values = self.statistics
        numbers = [_number(getattr(values, name)) if values else "" for name in _NUMBERS]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            [
                self.suite,
                self.case,
                self.allocator,
                self.backend,
                _optional(self.threads),
                _optional(self.bytes),
                self.parameter,
                self.metric,
            ]
            + [self.unit, *numbers, str(self.runs), self.status, _values_text(self.values)]
        )
        return out.getvalue()

    @property
    def reason(self) -> str:
        return self.parameters.get("reason", "")

    @property
    def ok(self) -> bool:
        return self.status == "ok"


class ResultsError(UserError):
    """A table is not in the format. The message names the file and the line."""


def summarise(samples: Sequence[float]) -> Statistics:
    """Percentiles use linear interpolation. The standard deviation is that of a sample, with n - 1 in the denominator; it is 0 for one value."""
    ordered = sorted(samples)
    mean = statistics.fmean(ordered)
    return Statistics(
        mean=mean,
        median=statistics.median(ordered),
        # Computed in doubles: statistics.stdev computes with fractions and is a hundred times slower.
        stddev=math.sqrt(math.fsum((sample - mean) ** 2 for sample in ordered) / (len(ordered) - 1)) if len(ordered) > 1 else 0.0,
        p5=_percentile(ordered, 0.05),
        p95=_percentile(ordered, 0.95),
        min=ordered[0],
        max=ordered[-1],
    )


def rows_of(suite: str, case: str, allocator: str, backend: str, point: Point, extra: str, result: PointResult) -> list[Row]:
    """The rows of one point. `extra` has the values that the command line sets for the whole sweep, as `key=value;...`."""
    pairs = _pairs(point, extra)
    if result.status != "ok" and result.reason:
        pairs["reason"] = on_one_line(result.reason.replace(";", ","))
    parameter = ";".join(f"{key}={value}" for key, value in sorted(pairs.items()))

    def row(measurement: Measurement | None) -> Row:
        return Row(
            suite=suite,
            case=case,
            allocator=allocator,
            backend=backend,
            threads=point.threads,
            bytes=point.bytes,
            parameter=parameter,
            metric=measurement.metric if measurement else "",
            unit=measurement.unit if measurement else "",
            statistics=summarise(measurement.samples) if measurement else None,
            runs=len(measurement.samples) if measurement else 0,
            status=result.status,
            values=measurement.samples if measurement else (),
        )

    return [row(measurement) for measurement in result.measurements] or [row(None)]


def on_one_line(text: str) -> str:
    """The text with a blank for each line break and unprintable letter, which a line of a table cannot hold."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def split_parameter(text: str) -> dict[str, str]:
    """`state=warm;dist=pow2` as a mapping; the order is kept."""
    return dict(part.split("=", 1) for part in text.split(";") if "=" in part)


def read_table(path: Path) -> list[Row]:
    """Every row of a table. Raises ResultsError at the first line that is not in the format."""
    lines = read_text(path).split("\n")
    has_values = lines[0] + "\n" == HEADER
    if not has_values and lines[0] != ",".join(COLUMNS):
        raise ResultsError(f"{path}:1: {_header_words(lines[0])}")
    if lines[-1] != "":
        raise ResultsError(f"{path}:{len(lines)}: the line ends in the middle: delete it, its point is measured again")
    rows: list[Row] = []
    seen: dict[tuple[Key, str], int] = {}
    status_of: dict[Key, tuple[str, int]] = {}
    for number, line in enumerate(lines[1:-1], start=2):
        try:
            row = parse_row(line, has_values)
        except ValueError as error:
            raise ResultsError(f"{path}:{number}: {error}") from None
        earlier = seen.setdefault((row.key, row.metric), number)
        if earlier != number:
            raise ResultsError(f"{path}:{number}: the same measurement is in line {earlier}")
        status, first = status_of.setdefault(row.key, (row.status, number))
        if status != row.status:
            raise ResultsError(f"{path}:{number}: status is {row.status}, but {status} for the same point in line {first}")
        # A line whose row stays is written unchanged.
        row.__dict__["line"] = line + ("\n" if has_values else ",\n")
        rows.append(row)
    return rows


def parse_row(line: str, has_values: bool = True) -> Row:
    """Reads one line without its line end. `has_values`: the line has the column `values`. Raises ValueError, which names the expected form."""
    columns = (*COLUMNS, RUNS_COLUMN) if has_values else COLUMNS
    try:
        fields = next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"not a line of CSV: {error}") from None
    if len(fields) != len(columns):
        raise ValueError(f"expected {len(columns)} fields, got {len(fields)}{_why_so_many(fields, line, len(columns))}")
    cell = dict(zip(columns, fields, strict=True))
    for column in ("suite", "case", "allocator"):
        if not NAME.fullmatch(cell[column]):
            raise ValueError(f"{column} is '{cell[column]}', expected a name of letters, digits and underscores")
    if cell["backend"] not in ("cuda", "simulator"):
        raise ValueError(f"backend is '{cell['backend']}', expected cuda or simulator")
    if cell["status"] not in STATUSES:
        raise ValueError(f"status is '{cell['status']}', expected one of {', '.join(STATUSES)}")
    ok = cell["status"] == "ok"
    _check_parameter(cell["parameter"])
    _check_metric(cell["metric"], cell["unit"], may_be_empty=not ok)
    numbers = _numbers(cell, required=ok)
    runs = _whole(cell["runs"], "runs")
    if runs > MOST_RUNS:  # the value of equal runs is written once and kept for each run
        raise ValueError(f"runs is {runs}, expected at most {MOST_RUNS}")
    if (numbers is None) != (runs == 0):
        raise ValueError(f"runs is {runs}, which does not fit the numbers")
    return Row(
        suite=cell["suite"],
        case=cell["case"],
        allocator=cell["allocator"],
        backend=cell["backend"],
        threads=_whole(cell["threads"], "threads") if cell["threads"] else None,
        bytes=_whole(cell["bytes"], "bytes") if cell["bytes"] else None,
        parameter=cell["parameter"],
        metric=cell["metric"],
        unit=cell["unit"],
        statistics=numbers,
        runs=runs,
        status=cell["status"],
        values=_values(cell.get(RUNS_COLUMN, ""), runs, numbers),
    )


def format_row(row: Row) -> str:
    """The line of a row, with its end."""
    return row.line


class Table:
    """A table on disk. The file is complete after every call: a point's rows are appended in one write, other changes replace the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not a file, and the table is written there: remove it, or {ELSEWHERE}")
        # If the disk was full when the first point was written, the file is empty.
        self.rows: list[Row] = read_table(path) if self._begun() else []
        # A table of an earlier version gets the column `values` when rows are first added.
        self._lacks_values = self._begun() and not path.read_bytes().startswith(HEADER.encode())

    def status_of(self) -> dict[Key, str]:
        """The status of each point that has rows."""
        return {row.key: row.status for row in self.rows}

    def append(self, rows: Sequence[Row]) -> None:
        if self._lacks_values:
            self.replace([*self.rows, *rows])
            return
        text = "".join(format_row(row) for row in rows)
        if not self._begun():
            make_folder(self.path.parent, ELSEWHERE)
            text = HEADER + text
        append(self.path, text.encode(errors="backslashreplace"), f"{ELSEWHERE}; finished points are kept")
        self.rows.extend(rows)

    def drop(self, unwanted: Callable[[Row], bool]) -> int:
        """Removes rows. Returns the number of removed rows."""
        kept = [row for row in self.rows if not unwanted(row)]
        dropped = len(self.rows) - len(kept)
        if dropped:
            self.replace(kept)
        return dropped

    def arrange(self, order: Callable[[Row], tuple[int, ...]]) -> None:
        """Sorts the rows. Rows of equal order keep their order among themselves."""
        kept = sorted(self.rows, key=order)
        if kept != self.rows:
            self.replace(kept)

    def replace(self, rows: list[Row]) -> None:
        """Replaces all rows, in one change of the file."""
        replace_file(self.path, text_of(rows), f"{ELSEWHERE}; the old table stays")
        self.rows = rows
        self._lacks_values = False

    def _begun(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0


def text_of(rows: Iterable[Row]) -> str:
    """A whole table."""
    return HEADER + "".join(format_row(row) for row in rows)


def point_key(suite: str, case: str, allocator: str, backend: str, point: Point, extra: str) -> Key:
    """The key that the rows of this point have."""
    parameter = ";".join(f"{key}={value}" for key, value in sorted(_pairs(point, extra).items()))
    return (suite, case, allocator, backend, point.threads, point.bytes, parameter)


def _pairs(point: Point, extra: str) -> dict[str, str]:
    """The keys and values of the parameter. The point's own value takes precedence over one that the command line set for all points."""
    return split_parameter(extra) | dict(point.others)


def _percentile(ordered: Sequence[float], fraction: float) -> float:
    position = fraction * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _header_words(line: str) -> str:
    """Describes the mistake in a first line."""
    for separator, word in _OTHER_SEPARATORS.items():
        if line.count(separator) >= len(COLUMNS) - 1:
            return f"{word} separate the fields, expected commas: {_SAVE_WITH_COMMAS}"
    expected = f"expected the columns {HEADER.strip()}"
    if not line.strip():
        return f"{expected}, found an empty line"
    found = [name.strip() for name in line.removeprefix("\ufeff").split(",")]
    missing = [name for name in COLUMNS if name not in found]
    unknown = [name for name in found if name not in (*COLUMNS, RUNS_COLUMN)]
    twice = [name for name in dict.fromkeys(found) if found.count(name) > 1]
    if len(missing) == len(COLUMNS):
        return f"{expected}, found none of them: name a table that gpuheap bench has written"
    words = ["a byte order mark stands before them: save the file in UTF-8 without one"] if line.startswith("\ufeff") else []
    words += [f"no {', '.join(missing)}"] if missing else []
    words += [f"{', '.join(repr(name) for name in twice[:4])} twice"] if twice else []
    words += [f"unknown {', '.join(repr(name) for name in unknown[:4])}"] if unknown else []
    return f"{expected}: {'; '.join(words) or 'they are in another order'}"


def _why_so_many(fields: Sequence[str], line: str, expected: int) -> str:
    """The likely reason for another number of fields than the format has, and the remedy; "" if none is likely."""
    if len(fields) < expected:
        separator = next((word for separator, word in _OTHER_SEPARATORS.items() if line.count(separator) >= expected - 1), "")
        return f": {separator} separate them: {_SAVE_WITH_COMMAS}" if separator else ""
    if fields[COLUMNS.index("metric")] not in METRICS:
        return ": a field that contains a comma stands in double quotes"
    # The surplus fields stand among the numbers, if none of these is empty.
    numbers = fields[COLUMNS.index("unit") + 1 :]
    return ": a decimal comma, as in 12,5, splits a number into two fields: write numbers with a decimal point" if all(numbers) else ""


def _with_point(text: str) -> str:
    return " with a decimal point" if "," in text else ""


def _check_parameter(text: str) -> None:
    keys: list[str] = []
    for part in text.split(";") if text else []:
        key, equals, _ = part.partition("=")
        if not key or not equals:
            raise ValueError(f"parameter '{text}' is not key=value;...")
        keys.append(key)
    if len(set(keys)) != len(keys):
        raise ValueError(f"parameter '{text}' has a key twice")


def _check_metric(metric: str, unit: str, may_be_empty: bool) -> None:
    if metric == "" and may_be_empty:
        if unit:
            raise ValueError(f"unit is '{unit}' without a metric")
        return
    if metric not in METRICS:
        raise ValueError(f"unknown metric '{metric}'")
    if unit != METRICS[metric].unit:
        raise ValueError(f"unit of {metric} is '{unit}', expected '{METRICS[metric].unit}'")


def _numbers(cell: dict[str, str], required: bool) -> Statistics | None:
    if not required and not any(cell[name] for name in _NUMBERS):
        return None
    values: dict[str, float] = {}
    for name in _NUMBERS:
        try:
            values[name] = float(cell[name])
        except ValueError:
            raise ValueError(f"{name} is '{cell[name]}', expected a number{_with_point(cell[name])}") from None
        if not math.isfinite(values[name]):
            raise ValueError(f"{name} is not finite")
    found = Statistics(**values)
    if found.stddev < 0:
        raise ValueError("stddev is negative")
    if not found.min <= found.p5 <= found.median <= found.p95 <= found.max or not found.min <= found.mean <= found.max:
        raise ValueError("expected min <= p5 <= median <= p95 <= max and min <= mean <= max")
    return found


def _values(text: str, runs: int, numbers: Statistics | None) -> tuple[float, ...]:
    """Reads each run's value. A single value stands for runs that are all equal."""
    if not text:
        return ()
    try:
        values = tuple(float(part) for part in text.split(" "))
    except ValueError:
        raise ValueError(f"values is '{text[:60]}', expected numbers separated by blanks{_with_point(text)}") from None
    if not all(map(math.isfinite, values)):
        raise ValueError("values has a number that is not finite")
    if len(values) == 1:
        values *= runs
    if numbers is None or len(values) != runs:
        raise ValueError(f"values has {len(values)} numbers, and runs is {runs}")
    if (min(values), max(values)) != (numbers.min, numbers.max):
        raise ValueError(f"values goes from {min(values):g} to {max(values):g}, and min is {numbers.min:g}, max {numbers.max:g}")
    return values


def _values_text(values: Sequence[float]) -> str:
    texts = [_number(value) for value in values]
    return texts[0] if len(set(texts)) == 1 else " ".join(texts)


def _whole(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{name} is '{text}', expected a whole number")
    if len(text) > 20 or int(text) >= 1 << 64:
        raise ValueError(f"{name} is '{text[:20]}{'...' if len(text) > 20 else ''}', expected a number of 64 bits")
    return int(text)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def _optional(value: int | None) -> str:
    return "" if value is None else str(value)


def sweeps_in(rows: Iterable[Row]) -> list[Sweep]:
    """The (case, allocator, backend) that have rows, in the order of the table."""
    return list(dict.fromkeys(row.sweep for row in rows))
