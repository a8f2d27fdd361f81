"""`gpuheap run`, `gpuheap doctor` and `gpuheap inspect` without the benchmark's command line. Only `inspect` needs a third-party package: numpy."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuheap import __version__
from gpuheap.errors import EXIT_FAILED, UserError
from gpuheap.heaps.failures import HeapError

# gpuheap is in no package index. A package of this name there would be somebody else's, so the advice names a path.
_EXTRA = "pip install 'PATH[bench]', where PATH is the wheel or the folder python of a checkout"


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    what: str
    good: bool
    text: str


def run_command(words: Sequence[str]) -> int:
    """Runs `gpuheap` with these arguments. Returns the exit code."""
    parser = _Parser(prog="gpuheap", description=f"gpuheap {__version__}. The benchmark's commands come with {_EXTRA}.")
    parser.add_argument("--version", action="version", version=f"gpuheap {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = commands.add_parser("doctor", help="examine this machine: which parts of gpuheap work here")
    doctor.set_defaults(call=_doctor)
    run = commands.add_parser("run", help="run an unchanged CUDA program, and serve malloc, free, new and delete in its kernels")
    run.add_argument("--bytes", metavar="SIZE", help="the size of each device's heap, as 4GiB or 40%%; by default, it grows from an eighth of the free memory")
    run.add_argument("--stats", action="store_true", help="print the heap's statistics at the end")
    run.add_argument("--watch", action="store_true", help="print what each heap holds, every second while the program runs")
    run.add_argument("--every", type=float, metavar="S", help="with --watch or --watch-file: the seconds between two samples")
    run.add_argument("--watch-file", type=Path, metavar="FILE", help="write the samples into a file, one JSON object a line, in place of --watch")
    run.add_argument("--no-cache", action="store_true", help="link the program's code again; keep nothing on disk")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENTS ...]")
    run.set_defaults(call=_run)
    inspect = commands.add_parser("inspect", help="show the live blocks in a heap's dump, or the differences of two dumps; needs numpy")
    inspect.add_argument("dump", type=Path, metavar="DUMP")
    inspect.add_argument("other", type=Path, nargs="?", metavar="LATER")
    inspect.add_argument("--svg", type=Path, metavar="FILE", help="draw the map of the heap into this file")
    inspect.add_argument("--groups", type=int, default=20, metavar="N", help="the number of groups to print")
    inspect.add_argument("--json", action="store_true", help="print JSON in place of text")
    inspect.set_defaults(call=_inspect)
    given = parser.parse_args(words)
    call: Callable[[argparse.Namespace], int] = given.call
    return call(given)


class _Parser(argparse.ArgumentParser):
    """An argument parser whose error messages are one line, as everywhere in this command."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UserError(f"{message}; the benchmark's commands and options come with {_EXTRA}")


def _run(given: argparse.Namespace) -> int:
    from gpuheap.host import launch
    from gpuheap.paths import RECORDED, Layout
    from gpuheap.serving.libraries import default_allocator, find_library, find_provider, require_device
    from gpuheap.serving.start import Service, Watch, cache_folder, check_program
    from gpuheap.units import heap_size

    words = given.program[1:] if given.program[:1] == ["--"] else given.program
    if not words:
        raise UserError("gpuheap run: name the program to be run")
    check_program(words)
    watched = Watch.asked(given.watch, given.every, given.watch_file)
    layout = Layout(RECORDED)
    library, provider = find_library(layout), find_provider(default_allocator(), layout)
    require_device()
    heap_bytes = None if given.bytes is None else heap_size(given.bytes, "--bytes")
    service = Service(library, provider, heap_bytes, given.stats, None if given.no_cache else cache_folder(), watched)
    if watched is not None:
        watched.begin()
    return launch.run(words, library, service.variables())


def _inspect(given: argparse.Namespace) -> int:
    from gpuheap.inspection.command import inspect

    inspect(given.dump, given.other, given.svg, given.groups, given.json)
    return 0


def _doctor(_: argparse.Namespace) -> int:
    findings = examine()
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        print(f"{'ok' if finding.good else 'missing':<8} {finding.what:<{width}}  {finding.text}")
    return 0 if all(finding.good for finding in findings if finding.what in ("library", "device code", "gpu")) else EXIT_FAILED


def examine() -> list[Finding]:
    """Examines the parts that heaps need, such as the library, device code and a GPU, and whether gpuheap works with each Python package for kernels."""
    from gpuheap.heaps.compiler import versions
    from gpuheap.heaps.files import KINDS, device_code, include_path, library_path
    from gpuheap.heaps.library import library
    from gpuheap.serving.libraries import require_device

    def linker() -> str:
        nvrtc, _, linking, _ = versions()
        return f"NVRTC {nvrtc}, nvJitLink {linking}: programs are compiled and linked"

    def gpu() -> str:
        require_device()
        return "there is one"

    looked: list[tuple[str, Callable[[], str]]] = [
        ("python", lambda: f"{platform.python_version()} on {platform.system()} {platform.machine()}, gpuheap {__version__}"),
        ("library", lambda: f"{library_path()}, version {library().text('version')}"),
        ("device code", lambda: ", ".join(f"{kind}: {device_code(kind).stat().st_size} bytes" for kind in KINDS)),
        ("headers", lambda: str(include_path())),
        ("gpu", gpu),
        ("compiler", linker),
        *((name, _package(name, module)) for name, module in (("numba", "gpuheap.numba"), ("cupy", "gpuheap.cupy"), ("triton", "gpuheap.triton"))),
    ]
    return [_finding(what, look) for what, look in looked]


def _package(name: str, module: str) -> Callable[[], str]:
    def look() -> str:
        import importlib

        importlib.import_module(module)
        return f"{name} {getattr(importlib.import_module(name), '__version__', 'of an unknown version')}"

    return look


def _finding(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except (HeapError, UserError) as error:
        return Finding(what, False, str(error).removeprefix("gpuheap: "))
    except Exception as error:  # an error of another package: the other findings are still printed
        return Finding(what, False, f"{type(error).__name__}: {error}".splitlines()[0])
