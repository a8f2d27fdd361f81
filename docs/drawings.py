"""Draws the pictures of the documentation that no measurement fills, and the one of time against memory, into docs/images.

    python docs/drawings.py [FOLDER]

Each drawing is 420 units wide, so that its text stays readable on a narrow screen, and has colours for light and dark.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path

WIDTH = 420
OURS = "sharded_spans"
ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
TABLE = ROOT / "results" / "nvidia-h200" / "survey.csv"

STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1c2733 }
.small { font-size: 11px; fill: #51606f }
.card { fill: #ffffff }
.box { fill: #e8f0f9; stroke: #4673a6 }
.accent { fill: #fdeedd; stroke: #b5651d }
.plain { fill: #f1f3f5; stroke: #7b8794 }
.line { fill: none; stroke: #51606f }
.head { fill: #51606f; stroke: none }
.grid { stroke: #d5dbe1 }
.dot { fill: #4673a6; stroke: none }
.ours { fill: #d9480f; stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6ebf0 }
.small { fill: #a9b4bf }
.card { fill: #161b22 }
.box { fill: #1d3049; stroke: #7ba6d6 }
.accent { fill: #452d14; stroke: #e0964f }
.plain { fill: #262d35; stroke: #8a96a3 }
.line { stroke: #a9b4bf }
.head { fill: #a9b4bf }
.grid { stroke: #39424c }
.dot { fill: #7ba6d6 }
.ours { fill: #ff8a4c }
}
</style>"""


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" class="{kind}"/>'


def line(points: Sequence[tuple[float, float]], kind: str = "line") -> str:
    return f'<polyline class="{kind}" points="{" ".join(f"{x:g},{y:g}" for x, y in points)}"/>'


def arrow(points: Sequence[tuple[float, float]]) -> str:
    """A line with a head at its end."""
    (x0, y0), (x1, y1) = points[-2], points[-1]
    length = math.hypot(x1 - x0, y1 - y0)
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    corners = [(x1, y1), (x1 - 8 * dx + 4 * dy, y1 - 8 * dy - 4 * dx), (x1 - 8 * dx - 4 * dy, y1 - 8 * dy + 4 * dx)]
    head = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return line(points) + f'<polygon class="head" points="{head}"/>'


def picture(title: str, height: float, parts: Iterable[str]) -> str:
    label = escape(title, quote=True)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" role="img" aria-label="{label}">'
    return "\n".join([head, f"<title>{label}</title>", STYLE, box(0, 0, WIDTH, height, "card"), *parts, "</svg>", ""])


LAYERS: tuple[tuple[int, tuple[tuple[str, str], ...]], ...] = (
    (8, (("examples/, tests/", "programs, tests"),)),
    (7, (("benchmarks/", "cases, suites, claims"), ("tools/", "host, malloc, run"))),
    (6, (("containers/, mpi/", "over any heap"), ("src/, capi/", "kernels, C interface"), ("tools/coalesce/", "rewriter"))),
    (5, (("heap.hpp, heap_ref.hpp", "the host's owner, the kernels' view"),)),
    (4, (("allocator.hpp, allocators/", "the interface, one file for each allocator"),)),
    (3, (("structures/", "parts of allocators"), ("memory/", "sources of memory"))),
    (2, (("simt/", "lanes, warps, atomics, launches"),)),
    (1, (("CUDA", "a GPU"), ("simulator/", "the CPU"))),
)


def architecture() -> str:
    parts = [text(14, 24, "Each layer includes only files of the layers below it.", "small")]
    y, step = 36.0, 52.0
    for number, boxes in LAYERS:
        parts.append(text(14, y + 25, str(number), "small"))
        x = 32.0
        letters = [max(len(name) * 1.2, len(what)) + 4 for name, what in boxes]
        for size, (name, what) in zip(letters, boxes, strict=True):
            width = (WIDTH - 46 - 8 * (len(boxes) - 1)) * size / sum(letters)
            kind = "accent" if number == 5 else "plain" if number == 1 else "box"
            parts += [box(x, y, width, step - 8, kind), text(x + 8, y + 19, name), text(x + 8, y + 35, what, "small")]
            x += width + 8
        y += step
    return picture("The layers of gpuheap, from the simulator and CUDA up to programs and tests", y + 6, parts)


def row(x: float, y: float, width: float, cells: Sequence[tuple[float, str, str]]) -> list[str]:
    """Boxes side by side: (share of the width, words, kind)."""
    parts = []
    for share, words, kind in cells:
        parts.append(box(x, y, share * width, 30, kind))
        if words:
            parts.append(text(x + share * width / 2, y + 20, words, "small", "middle"))
        x += share * width
    return parts


def zoom(top: float, bottom: float, first: float, last: float, left: float, right: float) -> str:
    """Two lines from a part of one row to the ends of the row below, which shows it larger."""
    return line([(first, top), (left, bottom)], "grid line") + line([(last, top), (right, bottom)], "grid line")


def heap_layout() -> str:
    left, width = 14.0, WIDTH - 28.0
    right = left + width
    parts = [
        text(left, 24, "region: metadata, then segments"),
        *row(left, 34, width, [(0.17, "metadata", "plain"), *((0.18, f"segment {n}", "box") for n in range(4)), (0.11, "...", "box")]),
    ]
    first = left + width * 0.17
    parts += [zoom(64, 102, first, first + 0.18 * width, left, right), text(left, 96, "segment: 64 pages")]
    pages = [(1 / 16, "", "accent")] * 4 + [(1 / 16, "", "box")] * 12
    parts += [*row(left, 104, width, pages), text(left, 150, "four pages in a row are one span; a page is 4 to 128 KiB", "small")]
    parts += [zoom(134, 182, left, left + width / 4, left, right), text(left, 176, "span: slots of one size class")]
    slots = [(1 / 8, "live", "accent"), (1 / 8, "live", "accent"), (1 / 8, "freed", "plain"), (1 / 8, "live", "accent")] + [(1 / 8, "unused", "box")] * 4
    parts += [*row(left, 184, width, slots), text(left, 230, "one bit for each slot, outside the data: 1 = freed", "small")]
    parts += [text(left, 268, "a large allocation crosses segments")]
    large = [(0.1, "", "box"), (0.13, "", "box"), (0.1, "", "accent"), (0.33, "a whole segment", "accent"), (0.12, "", "accent"), (0.22, "", "box")]
    parts += [*row(left, 278, width, large)]
    for border in (0.33, 0.66):
        parts.append(line([(left + border * width, 272), (left + border * width, 314)]))
    parts.append(text(left, 332, "It takes pages at the end of one segment, whole segments,", "small"))
    parts.append(text(left, 348, "and pages at the start of the next.", "small"))
    return picture("A heap's layout: segments of 64 pages, spans of pages, slots, and a large allocation across segments", 362, parts)


def span_life() -> str:
    def state(x: float, y: float, name: str, what: str, kind: str) -> list[str]:
        return [box(x, y, 150, 46, kind), text(x + 75, y + 20, name, "", "middle"), text(x + 75, y + 36, what, "small", "middle")]

    parts = [
        *state(24, 20, "unused", "whole segments or pages", "plain"),
        *state(24, 126, "active", "a shard claims its slots", "accent"),
        *state(24, 232, "full", "all slots claimed", "box"),
        *state(24, 338, "partial", "listed for reuse", "box"),
        arrow([(99, 66), (99, 126)]),
        text(107, 98, "a refill takes memory"),
        text(107, 114, "and publishes the span", "small"),
        arrow([(99, 172), (99, 232)]),
        text(107, 206, "claims reach its end"),
        arrow([(99, 278), (99, 338)]),
        text(107, 312, "enough slots are freed"),
        arrow([(174, 361), (282, 361), (282, 156), (174, 156)]),
        text(290, 240, "a refill reuses"),
        text(290, 256, "its freed slots", "small"),
        arrow([(174, 344), (392, 344), (392, 43), (174, 43)]),
        text(192, 62, "every slot is freed"),
        text(192, 78, "its memory serves any size again", "small"),
        arrow([(174, 142), (226, 142), (226, 134), (174, 134)]),
        text(232, 138, "all live blocks freed:", "small"),
        text(232, 151, "reset to its first slot", "small"),
    ]
    return picture("The life of a span: unused, active, full, partial, and unused again", 400, parts)


def measured() -> list[tuple[str, float, float]]:
    """(allocator, malloc and free of 64 B by 100,000 threads in us, share of 2 GiB in such blocks at the first failure)."""
    times: dict[str, float] = {}
    shares: dict[str, float] = {}
    with TABLE.open(newline="") as table:
        for cells in csv.DictReader(table):
            if cells["status"] != "ok" or (cells["threads"], cells["bytes"]) != ("100000", "64"):
                continue
            name, median = cells["allocator"], float(cells["median"])
            if cells["case"] == "alloc_single" and cells["metric"] in ("malloc_us", "free_us"):
                times[name] = times.get(name, 0) + median
            elif cells["case"] == "utilisation" and cells["metric"] == "utilisation":
                shares[name] = median
    return [(name, times[name], share) for name, share in shares.items() if name in times]


def time_against_memory() -> str:
    found = sorted(measured(), key=lambda each: -each[2])
    left, right, top, bottom = 46.0, 270.0, 44.0, 330.0
    low, high = 10.0, 10 ** math.ceil(math.log10(max(time for _name, time, _share in found)))

    def x_of(time: float) -> float:
        return left + (right - left) * math.log(time / low) / math.log(high / low)

    def y_of(share: float) -> float:
        return bottom - (bottom - top) * share

    parts = [text(14, 24, "share of the heap in blocks at the first failure", "small")]
    for percent in range(0, 101, 25):
        y = y_of(percent / 100)
        parts += [line([(left, y), (right, y)], "grid line"), text(left - 6, y + 4, f"{percent} %", "small", "end")]
    tick = low
    while tick <= high:
        parts += [line([(x_of(tick), top), (x_of(tick), bottom)], "grid line"), text(x_of(tick), bottom + 16, f"{tick:g}", "small", "middle")]
        tick *= 10
    parts.append(text((left + right) / 2, bottom + 34, "malloc and free of 64 B by 100,000 threads, us", "small", "middle"))
    label = top - 13.0
    for name, time, share in found:
        x, y = x_of(time), y_of(share)
        label = max(label + 14, y)
        kind = "ours" if name == OURS else "dot"
        parts += [line([(x, y), (right + 6, label), (right + 12, label)], "grid line"), f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{kind}"/>']
        parts.append(text(right + 16, label + 4, f"gpuheap ({name})" if name == OURS else name, "" if name == OURS else "small"))
    return picture("Time of malloc and free against the usable share of the heap, for each allocator", bottom + 46, parts)


DRAWINGS: dict[str, Callable[[], str]] = {
    "architecture.svg": architecture,
    "heap_layout.svg": heap_layout,
    "span_life.svg": span_life,
    "time_against_memory.svg": time_against_memory,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS.items():
        (folder / name).write_text(draw())


if __name__ == "__main__":
    main()
