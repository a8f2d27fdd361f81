"""`gpuheap conform`."""

from __future__ import annotations

import os
from contextlib import closing

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from gpuheap.errors import EXIT_FAILED, EXIT_INTERRUPTED, UserError
from gpuheap.paths import Layout
from gpuheap.running.conform import names_of_tests, run_tests
from gpuheap.running.executable import candidates, choose
from gpuheap.running.outside import Outside, build_conformance, likely_backend

STYLE = {"failed": "red", "crashed": "bold red", "timeout": "yellow"}


def run_conform(layout: Layout, console: Console, outside: Outside, backend: str | None, part: str) -> int:
    """Runs the conformance suite. Returns the exit code: 1 if a test did not pass."""
    backend = backend or (choose(layout).backend if candidates(layout) else likely_backend())
    suite = build_conformance(layout, outside, backend, lambda words: console.print(words, highlight=False, soft_wrap=True))
    names = [name for name in names_of_tests(suite) if part.lower() in name.lower()]
    if not names:
        raise UserError(f"--tests: no test has '{part}' in its name: {', '.join(name.partition('.')[2] for name in names_of_tests(suite))}")
    passed, others = 0, 0
    # A GPU runs one test at a time, because tests limit the time of calls, and tests that share a GPU slow each other down.
    at_once = 1 if backend == "cuda" else os.cpu_count() or 1
    bar = Progress(BarColumn(bar_width=16), MofNCompleteColumn(), TextColumn("{task.description}"), console=console, transient=True)
    bar.disable = not console.is_terminal
    try:
        with bar, closing(run_tests(suite, names, at_once)) as results:
            task = bar.add_task("conformance", total=len(names))
            for result in results:
                bar.advance(task)
                if result.verdict == "passed":
                    passed += 1
                    continue
                others += 1
                console.print(Text(f"{result.verdict:<8}", STYLE[result.verdict]).append(f" {result.name.partition('.')[2]}", "default"))
                for line in result.words.splitlines():
                    console.print(f"         {line}", highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        console.print(f"stopped: {passed} of {len(names)} tests passed, {others} did not", style="yellow", highlight=False)
        return EXIT_INTERRUPTED
    where = "in the simulator" if backend == "simulator" else "on the GPU"
    console.print(f"{outside.type} {where}: {passed} of {len(names)} tests passed", style="green" if not others else "red", highlight=False)
    return EXIT_FAILED if others else 0
