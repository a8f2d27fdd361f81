"""`gpuheap run`: runs an unchanged CUDA program, and serves malloc in its kernels with an allocator of gpuheap."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuheap.errors import UserError
from gpuheap.paths import Layout, find_layout
from gpuheap.units import heap_size

if TYPE_CHECKING:
    from gpuheap.serving.start import Watch

DEFAULT_RUNS, DEFAULT_TIMEOUT_S = 5, 600.0


def register(app: typer.Typer) -> None:
    # Words after the program's name belong to the program.
    app.command("run", context_settings={"allow_interspersed_args": False})(run)


def run(
    words: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENTS ...]", show_default=False)],
    allocator: Annotated[
        str | None,
        typer.Option(
            "--allocator",
            "-a",
            metavar="NAME",
            help="The allocator that serves the program. cuda_malloc leaves the program to CUDA, hardened withstands wrong frees, and checked finds misuse. "
            "Default: sharded_spans, or the kind of heap that GPUHEAP_KIND names.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--bytes",
            metavar="SIZE",
            help="The size of each device's heap, as 4GiB, or 40% of the free memory. Default: GPUHEAP_BYTES, or the program's limit; without them it grows "
            "from an eighth of the free memory.",
        ),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print the heap's statistics at the end: failed requests, peak, blocks that were not freed.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Print what each heap holds, every second while the program runs.")] = False,
    every: Annotated[float | None, typer.Option(metavar="S", help="With --watch or --watch-file: the seconds between two samples. Default: 1.")] = None,
    watch_file: Annotated[
        Path | None, typer.Option("--watch-file", metavar="FILE", help="Write the samples into a file, one JSON object a line, in place of --watch.")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Link the program's code again, and keep nothing in the cache on disk.")] = False,
    comparison: Annotated[
        str | None, typer.Option("--compare", metavar="a,b", help="Run the program with each of these allocators, and print a table of times.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --compare: the number of timed runs of each allocator, after an untimed run. Default: 5.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=0.001, metavar="S", help="With --compare: the time limit of each run in seconds. Default: 600.")] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="REGEX", help="With --compare: output lines with a match may differ from run to run, like times. Repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --compare: print JSON in place of a table.")] = False,
) -> None:
    """Run an unchanged CUDA program, and serve malloc, free, new and delete in its kernels.

    Output and exit code are the program's. The program must contain PTX (nvcc's default). Code that gpuheap cannot serve is reported, and runs
    as before.
    """
    from gpuheap.serving.start import Watch, check_program

    if comparison is not None and (watch or watch_file is not None):
        raise UserError("--watch and --watch-file are for one run: leave out --compare")
    if comparison is None:
        for value, option in ((runs, "--runs"), (timeout, "--timeout"), (ignore, "--ignore"), (as_json or None, "--json")):
            if value is not None:
                raise UserError(f"{option} needs --compare: add --compare, or leave out {option}")
    elif allocator is not None:
        raise UserError("--allocator and --compare exclude each other: name all allocators in --compare")
    if timeout is not None and not math.isfinite(timeout):
        raise UserError(f"--timeout is {timeout}: give a number of seconds")
    heap_bytes = None if size is None else heap_size(size, "--bytes")
    check_program(words)
    watched = Watch.asked(watch, every, watch_file)
    layout = find_layout()
    if comparison is None:
        from gpuheap.serving.libraries import default_allocator

        raise typer.Exit(_run_one(layout, words, allocator or default_allocator(), heap_bytes, stats, not no_cache, watched))
    names = list(dict.fromkeys(name.strip() for name in comparison.split(",") if name.strip()))
    if not names:
        raise UserError("--compare: name allocators, as --compare gallatin,cuda_malloc")
    patterns = tuple(_pattern(text) for text in ignore or [])
    limits = (runs or DEFAULT_RUNS, timeout or DEFAULT_TIMEOUT_S)
    raise typer.Exit(_run_several(layout, words, names, heap_bytes, (stats, not no_cache), limits, patterns, as_json))


def _run_one(layout: Layout, words: Sequence[str], name: str, heap_bytes: str | None, stats: bool, cached: bool, watch: Watch | None) -> int:
    from gpuheap.host import launch
    from gpuheap.serving.libraries import PLAIN, find_library, find_provider, require_device
    from gpuheap.serving.start import Service, cache_folder

    library = find_library(layout)
    provider = None if name == PLAIN else find_provider(name, layout)
    require_device()
    service = Service(library, provider, heap_bytes, stats, cache_folder() if cached else None, watch)
    if watch is not None:
        watch.begin()
    return launch.run(words, library, service.variables())


def _run_several(
    layout: Layout,
    words: Sequence[str],
    names: Sequence[str],
    heap_bytes: str | None,
    stats_and_cache: tuple[bool, bool],
    limits: tuple[int, float],
    ignored: tuple[re.Pattern[bytes], ...],
    as_json: bool,
) -> int:
    from gpuheap.serving.compare import Plan, compare, table
    from gpuheap.serving.libraries import PLAIN, find_library, find_provider, require_device
    from gpuheap.serving.start import Service, cache_folder

    (stats, cached), (runs, limit_s) = stats_and_cache, limits
    library = find_library(layout)
    cache: Path | None = cache_folder() if cached else None
    services = {name: Service(library, None if name == PLAIN else find_provider(name, layout), heap_bytes, stats, cache) for name in names}
    require_device()
    outcomes = compare(Plan(words, services, runs, limit_s, ignored), lambda line: print(f"gpuheap: {line}", file=sys.stderr, flush=True))
    if as_json:
        print(json.dumps({"program": list(words), "runs": runs, "outcomes": [each.as_json() for each in outcomes]}, indent=2, ensure_ascii=False))
        return 0
    for line in table(outcomes):
        print(line)
    for each in outcomes:
        for note in each.notes:
            print(f"{each.allocator}: {note.removeprefix('gpuheap: ')}")
    return 0


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(os.fsencode(text))
    except re.error as error:
        raise UserError(f"--ignore: '{text}' is not a regular expression: {error}") from None
