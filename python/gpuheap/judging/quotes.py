"""Numbers of recorded tables that pages of the documentation quote. docs/quotes.toml names their rows, and docs/refresh.py puts them in place.

A sentence stands on its page as in the file, with a number and its unit in place of each `{}`. A table stands there with its header, and its
lines are replaced. References to numbers are words:

    SUITE CASE ALLOCATOR KEY=VALUE... METRIC   the median of a row; the keys are all those that distinguish its point
    cap SUITE CASE ALLOCATOR                   the bound on registers that the sweep's executable was compiled with; 0: none
    standing points | best | over TIMES        of the default allocator in docs/standing.md
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap import toml_checks
from gpuheap.answers.measured import Measured
from gpuheap.answers.standing import Score
from gpuheap.errors import UserError
from gpuheap.formats.results import Row
from gpuheap.units import format_value

STATUS_WORDS = {"timeout": "timed out", "crash": "crashed", "wrong": "wrong result", "unsupported": "unsupported"}
_NUMBER = r"([\d,]*\d(?:\.\d+)?(?:e-\d+)?(?: (?:ns|µs|ms|s|B|[KMGT]iB))?)"
_CONDITION = re.compile(r"(\S+) ([<>]=?|==) (\S+)")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}


@dataclass(frozen=True)
class Sentence:
    """Each condition of `holds` compares references, by their places in `rows` (#1 is the first), or constants.

    The first references fill the `{}` of the text, in order. The others serve conditions only.
    """

    page: str
    text: str
    rows: tuple[str, ...]
    holds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A line for each entry of `lines` (its label, and the row without allocator and metric), a column for each allocator."""

    page: str
    header: str
    allocators: tuple[str, ...]
    metrics: tuple[str, ...]
    lines: Mapping[str, str]


@dataclass(frozen=True)
class Quotes:
    sentences: tuple[Sentence, ...]
    tables: tuple[Table, ...]

    @property
    def pages(self) -> list[str]:
        return sorted({one.page for one in self.sentences} | {one.page for one in self.tables})


def read_quotes(path: Path) -> Quotes:
    """Raises UserError, which names the file and the entry."""
    said = toml_checks.table(toml_checks.read(path)[0], path, "the file", ("sentence", "table"))
    sentences = toml_checks.tables(said.get("sentence", []), path, "sentence", ("page", "text", "rows", "holds"))
    tables = toml_checks.tables(said.get("table", []), path, "table", ("page", "header", "allocators", "metrics", "lines"))
    return Quotes(
        tuple(_sentence(one, path, f"sentence {number}") for number, one in enumerate(sentences, start=1)),
        tuple(_table(one, path, f"table {number}") for number, one in enumerate(tables, start=1)),
    )


def _sentence(said: dict[str, Any], path: Path, where: str) -> Sentence:
    page, text = (toml_checks.text(said.get(key), path, f"{where}, {key}") for key in ("page", "text"))
    rows, holds = (toml_checks.names(said.get(key, []), path, f"{where}, {key}") for key in ("rows", "holds"))
    if text.count("{}") > len(rows):
        raise UserError(f"{path}: {where}: 'text' has {text.count('{}')} places for numbers, and 'rows' names {len(rows)}")
    for condition in holds:
        _sides(condition, len(rows), f"{path}: {where}")
    return Sentence(page, text, rows, holds)


def _table(said: dict[str, Any], path: Path, where: str) -> Table:
    page, header = (toml_checks.text(said.get(key), path, f"{where}, {key}") for key in ("page", "header"))
    allocators, metrics = (toml_checks.names(said.get(key), path, f"{where}, {key}") for key in ("allocators", "metrics"))
    lines = toml_checks.table(said.get("lines"), path, f"{where}, lines", None)
    if header.count("|") != len(allocators) + 2:
        raise UserError(f"{path}: {where}: 'header' has {header.count('|') - 1} columns; {len(allocators)} allocators need {len(allocators) + 1}")
    return Table(page, header, allocators, metrics, {label: toml_checks.text(row, path, f"{where}, lines") for label, row in lines.items()})


class Numbers:
    """What references refer to, in the tables of one folder."""

    def __init__(self, measured: Measured, own: Score) -> None:
        self._environment = measured.environment
        self._own = own
        self._rows: dict[tuple[str, str, str], list[Row]] = {}
        for row in measured.rows:
            self._rows.setdefault((row.suite, row.case, row.allocator), []).append(row)

    def of(self, reference: str) -> tuple[float, str] | None:
        """The number and its unit; None if there is no such row or bound, or if the row's point failed."""
        words = reference.split()
        if words[:1] == ["standing"]:
            return self._of_standing(words[1:], reference), ""
        if words[:1] == ["cap"] and len(words) == 4:
            flags = self._flags(*words[1:])
            cap = re.search(r"-maxrregcount=(\d+)", flags)
            return (float(cap[1]) if cap else 0.0, "") if flags else None
        rows = [row for row in self.rows(" ".join(words[:-1])) if row.metric == words[-1]]
        found = rows[0].statistics if len(rows) == 1 and rows[0].ok else None
        return (found.median, rows[0].unit) if found else None

    def rows(self, point: str) -> list[Row]:
        """All rows of a point: SUITE CASE ALLOCATOR KEY=VALUE..."""
        words = point.split()
        if len(words) < 3 or not all("=" in word for word in words[3:]):
            raise UserError(f"'{point}' is no point: write a suite, a case, an allocator, and KEY=VALUE for each key of the point")
        fields = dict(word.split("=", 1) for word in words[3:])
        return [row for row in self._rows.get((words[0], words[1], words[2]), []) if row.fields == fields]

    def _flags(self, suite: str, case: str, allocator: str) -> str:
        sweep = (self._environment.get("sweeps") or {}).get(suite, {}).get(case, {}).get(allocator)
        build: dict[str, Any] = (self._environment.get("builds") or {}).get(sweep) or {}
        return str(build.get("flags", ""))

    def _of_standing(self, words: Sequence[str], reference: str) -> float:
        if words == ["points"]:
            return self._own.points
        if words == ["best"]:
            return self._own.best
        if len(words) == 2 and words[0] == "over":
            return self._own.beyond(float(words[1]))
        raise UserError(f"'{reference}' is no number of the standing: write points, best, or over and how many times the best")


def with_quotes(name: str, page: str, quotes: Quotes, numbers: Numbers) -> str:
    """The page with the numbers of today's tables. A sentence keeps its numbers if one of the new ones is missing; `problems` names the sentence.

    Raises UserError if the page has a sentence or a table of docs/quotes.toml not exactly once.
    """
    for table in quotes.tables:
        if table.page == name:
            found = _only(re.compile(re.escape(table.header) + r"\n(?:\|.*\n)*"), page, name, table.header)
            text = "\n".join([table.header, "|---" * (len(table.allocators) + 1) + "|", *_lines(table, numbers), ""])
            page = page[: found.start()] + text + page[found.end() :]
    for sentence in quotes.sentences:
        if sentence.page == name:
            pieces = sentence.text.split("{}")
            found = _only(re.compile(_NUMBER.join(map(re.escape, pieces))), page, name, sentence.text)
            values = [value for row in sentence.rows[: len(pieces) - 1] if (value := numbers.of(row)) is not None]
            if len(values) == len(pieces) - 1:
                text = "".join(piece + shown for piece, shown in zip(pieces, [*(format_value(*value) for value in values), ""], strict=True))
                page = page[: found.start()] + text + page[found.end() :]
    return page


def _only(pattern: re.Pattern[str], page: str, name: str, text: str) -> re.Match[str]:
    found = list(pattern.finditer(page))
    if len(found) != 1:
        raise UserError(f"{name} has this text {len(found)} times, not once; change docs/quotes.toml with the page: {text}")
    return found[0]


def problems(quotes: Quotes, numbers: Numbers) -> Iterator[str]:
    """Sentences that a person has to write anew, and why."""
    for one in quotes.sentences:
        values = [numbers.of(row) for row in one.rows]
        missing = [row for row, value in zip(one.rows, values, strict=True) if value is None]
        if missing:
            names = "', '".join(missing)
            yield f"{one.page}: no number for '{names}': {one.text}"
            continue
        for condition in one.holds:
            left, sign, right = _sides(condition, len(values), one.page)
            if not _OPERATORS[sign](_side(left, values), _side(right, values)):
                yield f"{one.page}: not {condition}, where {_told(one.rows, values)}: {one.text}"


def _lines(table: Table, numbers: Numbers) -> Iterator[str]:
    for label, point in table.lines.items():
        suite, case, *fields = point.split()
        cells = [_cell(numbers.rows(" ".join([suite, case, allocator, *fields])), table.metrics) for allocator in table.allocators]
        yield f"| {' | '.join([label, *cells])} |"


def _cell(rows: Sequence[Row], metrics: Sequence[str]) -> str:
    by_metric = {row.metric: row.statistics for row in rows if row.ok and row.statistics is not None}
    medians = [by_metric[metric].median for metric in metrics if metric in by_metric]
    if len(medians) != len(metrics):
        return next((STATUS_WORDS[row.status] for row in rows if not row.ok), "not measured")
    failed = by_metric.get("failed_requests")
    note = " (requests failed)" if failed is not None and failed.max > 0 else ""
    return " / ".join(f"{median:,.0f}" if median >= 99.95 else f"{median:.1f}" for median in medians) + note


def _sides(condition: str, num_rows: int, where: str) -> tuple[str, str, str]:
    match = _CONDITION.fullmatch(condition)
    sides = (match[1], match[3]) if match else ()
    if not match or not all(_is_side(side, num_rows) for side in sides):
        raise UserError(f"{where}: '{condition}' is no condition: write #1 > #2, or #1 < 0.5, with the rows' numbers from 1")
    return match[1], match[2], match[3]


def _is_side(side: str, num_rows: int) -> bool:
    if side.startswith("#"):
        return side[1:].isdigit() and 1 <= int(side[1:]) <= num_rows
    return re.fullmatch(r"\d+(?:\.\d+)?", side) is not None


def _side(side: str, values: Sequence[tuple[float, str] | None]) -> float:
    if not side.startswith("#"):
        return float(side)
    value = values[int(side[1:]) - 1]
    assert value is not None
    return value[0]


def _told(rows: Sequence[str], values: Sequence[tuple[float, str] | None]) -> str:
    return ", ".join(f"#{number} is {format_value(*value)} ({row})" for number, (row, value) in enumerate(zip(rows, values, strict=True), start=1) if value)
