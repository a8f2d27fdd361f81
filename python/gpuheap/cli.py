"""The command `gpuheap`."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text
from typer.main import get_command_name

from gpuheap import __version__
from gpuheap.commands import inspect as inspect_command
from gpuheap.commands import merge as merge_command
from gpuheap.commands import row_commands
from gpuheap.commands import run as run_command
from gpuheap.commands.data import app as data_commands
from gpuheap.commands.group import Group
from gpuheap.errors import EXIT_FAILED, UserError
from gpuheap.host.commands import app as host_app
from gpuheap.paths import Layout, find_layout
from gpuheap.running.executable import BACKENDS, Executable, candidates, choose
from gpuheap.terminal import console as _console
from gpuheap.terminal import print_json
from gpuheap.units import parse_bytes

app = typer.Typer(
    cls=Group,
    help="gpuheap serves malloc in GPU kernels. This command measures allocators, reports results, and runs programs with gpuheap.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(host_app, name="host")

Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="cuda|simulator",
        help="Where kernels run: cuda, or simulator. Default: cuda if its executable finds a GPU, else simulator.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")]


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"gpuheap {__version__}")
        raise typer.Exit()


row_commands.register(app)
inspect_command.register(app)
merge_command.register(app)
run_command.register(app)


@app.command("list")
def list_allocators(
    backend: Backend = None,
    table: Annotated[bool, typer.Option("--table", help="Show table 1 of the survey, and how often each allocator succeeded in the measured rows.")] = False,
    results: row_commands.Results = None,
    as_json: Json = False,
) -> None:
    """Show the allocators and what each promises: sizes, reuse of freed memory, detected errors."""
    from gpuheap.answers.measured import find_traits
    from gpuheap.commands.display import allocator_table

    if table:
        row_commands.list_as_survey(_checked(backend), results, as_json)
        return
    if results is not None:
        raise UserError("--results needs --table: add --table, or leave out --results")
    layout = find_layout()
    known = find_traits(layout) if backend is None and not candidates(layout) else None
    if known is not None:
        source, entries, allocators, baselines = "recorded", known.environment["allocators"], list(known.allocators), []
    else:
        description = _executable(layout, backend).description
        source, entries = description.backend, description.raw.get("allocators", [])
        allocators, baselines = list(description.allocators), list(description.baselines)
    if as_json:
        print_json({"backend": source, "allocators": entries, "baselines": baselines})
        return
    _console().print(allocator_table(allocators, baselines))
    if known is not None:
        where = layout.shown(known.folder)
        _console().print(f"as recorded on {known.device} ({where}): no benchmark executable is built here", style="bright_black", soft_wrap=True)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Examine the machine: what runs here, which backend commands choose and why, what is missing, and what installs it."""
    import dataclasses

    from gpuheap.commands.doctor import examine

    findings = examine(find_layout())
    if as_json:
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        console = _console()
        marks = {"good": ("ok", "green"), "note": ("note", "yellow"), "problem": ("problem", "bold red")}
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            mark, style = marks[finding.level]
            line = Text(f"{mark:<8}", style).append(f" {finding.what:<{width}}  {finding.text}", "default")
            if finding.advice:
                line.append(f": {finding.advice}", "default")
            console.print(line, soft_wrap=True)
    if any(finding.what == "backend" and finding.level == "problem" for finding in findings):
        raise typer.Exit(EXIT_FAILED)


@app.command()
def bench(
    targets: Annotated[list[str] | None, typer.Argument(metavar="SUITE|CASE|SUITE/CASE|FILE.toml ...", show_default=False)] = None,
    allocators: Annotated[
        list[str] | None, typer.Option("--allocators", "-a", metavar="a,b", help="The allocators to measure. Default: those of the suite, else all.")
    ] = None,
    backend: Backend = None,
    runs: Annotated[
        int | None, typer.Option(min=1, max=100_000, metavar="N", help="The number of timed runs of each point. Default: that of the suite.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(min=0.001, metavar="S", help="The time limit of each point in seconds. Default: that of the suite.")] = None,
    enough: Annotated[
        float | None, typer.Option(min=0, metavar="S", help="A point that has taken this many seconds makes at most five runs. Default: that of the suite.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure few points of each sweep, with few runs.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Measure every point of the suite, which takes hours.")] = False,
    seed: Annotated[int | None, typer.Option(min=0, max=(1 << 64) - 1, metavar="N", help="The seed of all random numbers. Default: 1.")] = None,
    heap_bytes: Annotated[str | None, typer.Option(metavar="SIZE", help="The size of each heap, as 8GiB. Default: that of the suite.")] = None,
    graph: Annotated[Path | None, typer.Option(metavar="FILE.mtx", help="A Matrix Market file for the graph cases. Default: generated graphs.")] = None,
    scene: Annotated[Path | None, typer.Option(metavar="FILE", help="An OBJ or PLY file for the case kdtree. Default: generated scenes.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE.trace", help="A recording of a program for the case replay. Default: those in benchmarks/traces.")
    ] = None,
    allocator_header: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The header of an allocator from outside the repository, which is measured too.")
    ] = None,
    type_name: Annotated[str | None, typer.Option("--type", metavar="my::alloc", help="The class of the allocator in that header.")] = None,
    gpus: Annotated[str | None, typer.Option(metavar="all|N|0,2", help="The GPUs of this machine to use at the same time. Default: one.")] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS|FILE", help="The address or the scheduler file of a Dask cluster, whose workers run the benchmark."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of the tables. Default: results/<gpu>, or build/results/simulator.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure finished points again. After a stop, the repeated command continues.")] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Drop a table whose rows are of another build, and begin it anew.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Measure again the points that crashed, timed out or were wrong.")] = False,
    for_claims: Annotated[
        bool, typer.Option("--for-claims", help="Measure only the points that open claims of papers need, those of the claims that need the least time first.")
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="M", help="Stop after this many minutes. Baselines are measured last. The repeated command continues."),
    ] = None,
    no_baselines: Annotated[bool, typer.Option("--no-baselines", help="Leave out the baselines that the suite adds.")] = False,
    apart: Annotated[bool, typer.Option("--apart", help="Measure each case of an allocator in a process of its own, which starts CUDA again.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a point crashed, timed out or was wrong, or a bound is not met.")] = False,
) -> None:
    """Measure suites or cases: those of benchmarks/suites, or a suite in a file of yours. Each allocator is measured in a process of its own.

    The command writes each row as soon as its point finishes. The same command continues where an earlier one stopped.
    A table has rows of one build of the executable: the command refuses a table with rows of another build unless --anew is given.
    """
    from gpuheap.commands.bench import Where, run_bench
    from gpuheap.running.bench import Policy
    from gpuheap.running.outside import read_outside
    from gpuheap.running.plan import Request

    request = Request(
        targets=tuple(targets or ()),
        allocators=tuple(name.strip() for text in allocators or [] for name in text.split(",") if name.strip()),
        baselines=not no_baselines,
        runs=runs,
        timeout_s=timeout,
        enough_s=enough,
        quick=quick,
        full=full,
        seed=seed,
        heap_bytes=None if heap_bytes is None else parse_bytes(heap_bytes, "--heap-bytes"),
        graph=graph,
        scene=scene,
        trace=trace,
    )
    if allocators and not request.allocators:
        raise UserError("--allocators names no allocator: write names separated by commas, as sharded_spans,cuda_malloc")
    where = Where(_checked(backend), gpus, scheduler, output, read_outside(allocator_header, type_name), apart, for_claims)
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    policy = Policy(fresh=fresh, retry=retry, anew=anew, until=until)
    raise typer.Exit(run_bench(find_layout(), _console(), request, policy, where, strict))


@app.command()
def report(
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page. Default: build/report.html.")] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the figures of the recorded GPU results as SVG and PDF files, and the tables as LaTeX, in place of the page."),
    ] = None,
    results: Annotated[list[Path] | None, typer.Option(metavar="DIR", help="A further folder of tables. May be repeated.")] = None,
) -> None:
    """Make the report: an HTML page that needs no server and no network.

    It shows the fastest allocators, the runs on this machine, and the results recorded on GPUs. A large report has an extra page for each suite.
    """
    from gpuheap.report import write_figures, write_report
    from gpuheap.report.recorded import folder_of_tables

    layout = find_layout()
    if figures is not None and output is not None:
        raise UserError("--output names the report, and --figures writes figures in place of it: give one of the two")
    further = [folder_of_tables(folder, "--results") for folder in results or []]
    console = _console()
    if figures is not None:
        for path in write_figures(layout, figures.absolute(), further):
            console.print(layout.shown(path), highlight=False, soft_wrap=True)
        return
    path = write_report(layout, (output or layout.report).absolute(), further)
    console.print(f"report: {layout.shown(path)}", highlight=False, soft_wrap=True)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
def coalesce(context: typer.Context) -> None:
    """Rewrite source code so that all threads of a CUDA kernel, or all ranks of an MPI program in C, allocate collectively; see --help."""
    from gpuheap.commands.coalesce import run_tool

    # These are the words from the shell: typer would remove the `--` before the compiler's options.
    words = sys.argv[sys.argv.index(context.info_name or "coalesce") + 1 :]
    raise typer.Exit(run_tool(find_layout(), words))


@app.command()
def conform(
    allocator_header: Annotated[Path, typer.Option(metavar="FILE", help="The header of the allocator.")],
    type_name: Annotated[str, typer.Option("--type", metavar="my::alloc", help="The class of the allocator in that header.")],
    backend: Backend = None,
    tests: Annotated[str, typer.Option(metavar="PART", help="Run only the tests whose names contain this text. Default: all tests.")] = "",
) -> None:
    """Test an allocator from outside the repository by the conformance suite, each test in a process of its own."""
    from gpuheap.commands.conform import run_conform
    from gpuheap.running.outside import read_outside

    outside = read_outside(allocator_header, type_name)
    assert outside is not None
    raise typer.Exit(run_conform(find_layout(), _console(), outside, _checked(backend), tests))


app.add_typer(data_commands, name="data")


def make_named_alone(group: typer.Typer, words: Sequence[str]) -> None:
    """Drops all commands of the group but the one that the first word names, because typer makes each command that it finds, which takes time.
    A word that names no command drops nothing: the message about it names similar commands."""
    word = words[0] if words else ""
    commands = [each for each in group.registered_commands if word in (each.name, get_command_name(getattr(each.callback, "__name__", "")))]
    groups = [each for each in group.registered_groups if each.name == word]
    if commands or groups:
        group.registered_commands, group.registered_groups = commands, groups
    for each in groups:
        if each.typer_instance is not None:
            make_named_alone(each.typer_instance, words[1:])


def _executable(layout: Layout, backend: str | None) -> Executable:
    return choose(layout, _checked(backend))


def _checked(backend: str | None) -> str | None:
    if backend is not None and backend not in BACKENDS:
        raise UserError(f"--backend: '{backend}' is neither cuda nor simulator")
    return backend
