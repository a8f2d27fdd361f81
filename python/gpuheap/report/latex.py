"""Tables as LaTeX, for papers: with booktabs, cut into pieces that fit the width of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuheap.answers.patterns import Pattern, size_classes
from gpuheap.report.tables import Cell, Column, ColumnGroup, Grid
from gpuheap.units import format_factor

COLUMNS_PER_TABLE = 7
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "µ": r"\textmu{}",
    "×": r"$\times$",
    "²": r"\textsuperscript{2}",
    "≤": r"$\le$",
    "≥": r"$\ge$",
}
HEAD = "% Needs booktabs and, for µ, textcomp. Written by `gpuheap report --figures`.\n"


def escaped(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def grid_table(grid: Grid, caption: str, label: str) -> str:
    """One or more `table` environments: allocators by columns."""
    columns = [(group, column) for group in grid.groups for column in group.columns]
    pieces = [slice(first, first + COLUMNS_PER_TABLE) for first in range(0, len(columns), COLUMNS_PER_TABLE)]
    parts = []
    for number, piece in enumerate(pieces, start=1):
        of_piece = columns[piece]
        which = f" ({number} of {len(pieces)})" if len(pieces) > 1 else ""
        head = [_group_heads(of_piece), _cmidrules(of_piece)]
        head.append(" & ".join(["allocator", *(escaped(_column_words(group, column)) for group, column in of_piece)]) + r" \\")
        body = [
            " & ".join([rf"\texttt{{{escaped(line.chip.name)}}}", *(_cell(cell) for cell in line.cells[piece])]) + r" \\"
            for line in grid.lines
        ]
        parts.append(_environment("l" + "r" * len(of_piece), head, body, caption + which, label + (f"-{number}" if number > 1 else "")))
    return HEAD + "\n".join(parts)


def best_table(patterns: Sequence[Pattern], caption: str, label: str) -> str:
    """The matrix of the best allocator for each pattern."""
    sizes = size_classes(patterns)
    head = [" & ".join(["case", "metric", "where", *(escaped(size) for size in sizes)]) + r" \\"]
    body = []
    for pattern in patterns:
        cells = []
        for size in sizes:
            best = pattern.best.get(size)
            ahead = f" {format_factor(best.ahead)}$\\times$" if best is not None and best.ahead else ""
            cells.append(rf"\texttt{{{escaped(best.allocator)}}}{ahead}" if best is not None else "")
        body.append(" & ".join([escaped(pattern.case), escaped(pattern.metric), escaped(pattern.where), *cells]) + r" \\")
    return HEAD + _environment("lll" + "l" * len(sizes), head, body, caption, label)


def _environment(columns: str, head: Sequence[str], body: Sequence[str], caption: str, label: str) -> str:
    lines = [
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{escaped(caption)}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
    ]
    lines += [r"\toprule", *(line for line in head if line), r"\midrule", *body, r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _spans(columns: Sequence[tuple[ColumnGroup, Column]]) -> Iterator[tuple[ColumnGroup, int, int]]:
    """The groups with the numbers of their first and last column in LaTeX, where the column of allocators is 1."""
    first = 0
    while first < len(columns):
        group = columns[first][0]
        last = first
        while last + 1 < len(columns) and columns[last + 1][0] is group:
            last += 1
        yield group, first + 2, last + 2
        first = last + 1


def _group_heads(columns: Sequence[tuple[ColumnGroup, Column]]) -> str:
    cells = []
    for group, first, last in _spans(columns):
        words = group.case + (f", {group.point}" if group.point else "")
        cells.append(rf"\multicolumn{{{last - first + 1}}}{{c}}{{{escaped(words)}}}")
    return " & ".join(["", *cells]) + r" \\"


def _cmidrules(columns: Sequence[tuple[ColumnGroup, Column]]) -> str:
    return " ".join(rf"\cmidrule(lr){{{first}-{last}}}" for _, first, last in _spans(columns))


def _column_words(group: ColumnGroup, column: Column) -> str:
    return f"{column.metric}, {column.point}" if column.point else column.metric


def _cell(cell: Cell) -> str:
    words = escaped(cell.value or cell.status)
    return rf"\textbf{{{words}}}" if cell.best and not cell.status else words
