"""The map of a heap as an SVG file: each cell is a part of the heap, the darker the more of it is live."""

from __future__ import annotations

from xml.sax.saxutils import escape

from gpuheap.inspection.summary import Summary
from gpuheap.units import format_bytes

_COLUMNS, _SIDE, _TOP = 64, 10, 44
_SHADES = 8


def picture(summary: Summary) -> str:
    """The map as the text of an SVG file."""
    cells = [min(_SHADES, -int(-share * _SHADES // 1)) for share in summary.cells.tolist()]
    rows = -(-len(cells) // _COLUMNS)
    width, height = _COLUMNS * _SIDE + 20, rows * _SIDE + _TOP + 34
    head = f"{summary.blocks:,} live blocks, {format_bytes(summary.bytes)}, in {format_bytes(summary.dump.region_bytes)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif">',
        f"<title>{escape(head)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="18" font-size="13">{escape(head)}</text>',
        f'<text x="10" y="35" font-size="11" fill="#555">each square is {format_bytes(summary.cell_bytes)}, addresses rise to the right and down</text>',
    ]
    # Squares of one shade that follow one another are one rectangle.
    for row in range(rows):
        line = cells[row * _COLUMNS : (row + 1) * _COLUMNS]
        column = 0
        while column < len(line):
            last = column
            while last + 1 < len(line) and line[last + 1] == line[column]:
                last += 1
            place = f'x="{10 + column * _SIDE}" y="{_TOP + row * _SIDE}" width="{(last - column + 1) * _SIDE}" height="{_SIDE}"'
            parts.append(f'<rect {place} fill="{_colour(line[column])}"/>')
            column = last + 1
    y = _TOP + rows * _SIDE + 22
    parts.append(f'<text x="10" y="{y}" font-size="11">live share of a square:</text>')
    for shade in range(_SHADES + 1):
        parts.append(f'<rect x="{150 + shade * 22}" y="{y - 10}" width="20" height="12" fill="{_colour(shade)}" stroke="#999" stroke-width="0.5"/>')
    parts.append(f'<text x="{155 + 22 * (_SHADES + 1)}" y="{y}" font-size="11">0 to 100 %</text></svg>\n')
    return "\n".join(parts)


def _colour(shade: int) -> str:
    """The colour of a cell: from nearly white for shade 0 to dark blue for the last shade."""
    share = shade / _SHADES
    light, dark = (238, 240, 243), (18, 62, 120)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(light, dark, strict=True))
