"""The steps of `gpuheap host probe`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuheap import terminal
from gpuheap.errors import EXIT_INTERRUPTED
from gpuheap.host.folders import prepare
from gpuheap.host.html import Grid, write_html
from gpuheap.host.probe.analyse import Allocator, analyse_all
from gpuheap.host.probe.series import DRIVER, KERNEL, LINES, Asked, Machine, Series, find_program, read_lines
from gpuheap.host.probe.show import BIN_HEADS, HEADS, allocator_cells, as_json, bin_cells, notes_of, print_found, write_csv
from gpuheap.host.probe.sweep import driver_series, kernel_series
from gpuheap.paths import find_layout

ALLOCATORS = (*DRIVER, KERNEL)
REPORT, CSV = "report.html", "requests.csv"


def probed(allocators: Sequence[str], budget: int, folder: Path, source: Path | None, print_json: bool) -> int:
    """Measures the series, or reads those in the folder `source`. Then prints the analysis, and writes the page and the CSV. Returns the exit code."""
    complete = True
    if source is None:
        folder = prepare(folder, (LINES, REPORT, CSV), "the results")
        complete = _ask_all(allocators, budget, folder)
    else:
        folder = source
    machine, all_series = read_lines(folder)
    found = analyse_all(all_series)
    write_csv(folder / CSV, all_series)
    page = write_page(folder / REPORT, machine, all_series, found, allocators)
    if print_json:
        terminal.print_json(as_json(machine, found, allocators))
    else:
        console = terminal.console()
        print_found(console, machine, found, allocators)
        console.print(f"report: {find_layout().shown(page.resolve())}", soft_wrap=True)
    if not complete:
        print("gpuheap: interrupted: these are the results so far", file=sys.stderr)
    return 0 if complete else EXIT_INTERRUPTED


def _ask_all(allocators: Sequence[str], budget: int, folder: Path) -> bool:
    program = find_program(find_layout())
    with Asked(program, folder / LINES) as asked:
        try:
            for name in allocators:
                if asked.machine.lacks.get(name):
                    continue
                print(f"gpuheap: measuring {'malloc in kernels' if name == KERNEL else name}", file=sys.stderr)
                for _ in _series(asked, name, budget):
                    pass
        except KeyboardInterrupt:
            return False
    return True


def _series(asked: Asked, name: str, budget: int) -> Iterator[Series]:
    return kernel_series(asked.ask) if name == KERNEL else driver_series(asked.ask, name, budget)


def write_page(path: Path, machine: Machine, all_series: Sequence[Series], found: Sequence[Allocator], asked: Sequence[str]) -> Path:
    """Writes the page and returns its path. Raises UserError if it cannot be written."""
    from gpuheap.host.probe.pictures import all_pictures

    return write_html(
        path,
        "host_probe.html.j2",
        machine=machine,
        notes=notes_of(machine, found, asked),
        overview=Grid(HEADS, 1, tuple(allocator_cells(each) for each in found)),
        bins=tuple((allocator_cells(each)[0], Grid(BIN_HEADS, 1, tuple(bin_cells(each, one) for one in each.bins))) for each in found if each.bins),
        pictures=all_pictures(all_series),
    )
