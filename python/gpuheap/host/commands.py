"""The commands `gpuheap host ...`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gpuheap.commands.group import Group
from gpuheap.errors import UserError, printable, unknown_name
from gpuheap.files import check_no_input, replace_file
from gpuheap.paths import find_layout
from gpuheap.terminal import console as _console
from gpuheap.terminal import print_json

app = typer.Typer(
    cls=Group,
    help="Trace the allocations, copies and launches of an unchanged CUDA program, report them, and serve its memory from pools.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

MODES = ("device", "zero-copy", "unified", "heap:NAME")
Words = Annotated[list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENTS ...]", show_default=False)]
Only = Annotated[str, typer.Option("--only", metavar="NAME", help="Only processes that run the program file of this name count. Default: all.")]


@app.command()
def trace(
    words: Words,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The folder of the trace. Old traces in it are removed. Default: <program>.trace, in the current folder."
        ),
    ] = None,
    only: Only = "",
) -> None:
    """Run a program and record its calls of the CUDA driver. Output and exit code are the program's."""
    from gpuheap.host.launch import find_library, find_program, prepare_folder, run
    from gpuheap.host.variables import for_trace

    library = find_library(find_layout())
    find_program(words)
    folder = prepare_folder(output or Path(f"{Path(words[0]).name}.trace"))
    code = run(words, library, for_trace(folder, only))
    num = len(list(folder.glob("*.trace")))
    if num == 0:
        _say("no process used the CUDA driver: nothing was recorded")
    else:
        _say(f"{num} {'process' if num == 1 else 'processes'} recorded: see gpuheap host report {_shown(folder)}")
    raise typer.Exit(code)


@app.command()
def report(
    path: Annotated[Path, typer.Argument(metavar="TRACE", help="The folder that `gpuheap host trace` made, or one file of it.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The page. Default: report.html in the trace's folder.")] = None,
    figures: Annotated[Path | None, typer.Option("--figures", metavar="DIR", help="A folder for the pictures as SVG files.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and write no page.")] = False,
) -> None:
    """Print a summary of a trace, and write an HTML page with pictures."""
    from gpuheap.host import summary
    from gpuheap.host.history import history_of
    from gpuheap.host.stacks import Symbols
    from gpuheap.host.trace import find_traces, read_trace

    files = find_traces(path)
    if output is not None:
        check_no_input(output, "--output", files)
    histories = [history_of(read_trace(file)) for file in files]
    symbols = Symbols()
    symbols.learn(stack for history in histories for stack in history.trace.stacks.values())
    if as_json:
        print_json([summary.as_json(history, symbols) for history in histories])
        return
    console = _console()
    for history in histories:
        summary.print_history(console, history, symbols)
    from gpuheap.host.page import write_page

    written = write_page(output or (path if path.is_dir() else path.parent) / "report.html", histories, symbols)
    console.print(f"report: {_shown(written)}", soft_wrap=True)
    if figures is not None:
        from gpuheap.host.pictures import write_files

        console.print(f"figures: {len(write_files(figures, histories))} in {_shown(figures)}", soft_wrap=True)


@app.command()
def pool(
    words: Words,
    mode: Annotated[str, typer.Option("--mode", metavar="|".join(MODES), help="The source of device memory; NAME is an allocator of `gpuheap list`.")],
    profile: Annotated[
        Path | None,
        typer.Option(metavar="TRACE", help="The trace of an earlier run. Default: <program>.trace, in the current folder. The mode heap:NAME needs none."),
    ] = None,
    heap_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="With heap:NAME: the heap's size on each device, such as 2GiB. Default: computed from the trace, or 1 GiB."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Requests that the pools cannot serve fail with out of memory. Default: the driver serves them.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The folder of the plan and the counts. Default: <program>.pool, in the current folder."),
    ] = None,
    poison: Annotated[
        int | None, typer.Option(min=0, max=255, metavar="BYTE", help="Fill each block with this byte, which reveals reads of memory that was never written.")
    ] = None,
    no_synchronise: Annotated[
        bool, typer.Option("--no-synchronise", help="Frees do not wait for the device. For programs that never rely on that wait.")
    ] = False,
    elide: Annotated[
        bool, typer.Option("--elide", help="With zero-copy: merge the pairs of buffers that `gpuheap host validate` proved, and drop the copies between them.")
    ] = False,
    proof: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --elide: the file of `gpuheap host validate`. Default: <program>.proof, in the current folder.")
    ] = None,
    only: Only = "",
) -> None:
    """Run a program with memory from pools. The pools are planned from a trace, and made with the program's first CUDA context."""
    from gpuheap.host import heaps
    from gpuheap.host.launch import find_library, find_merging_library, find_program, prepare_folder, profiler_note, run
    from gpuheap.host.plan import beside_a_heap, make_plan
    from gpuheap.host.pooling import print_outcome, profile_of
    from gpuheap.host.proof import usable_proof
    from gpuheap.host.variables import for_pools

    from_heap = mode.startswith(heaps.PREFIX)
    if mode not in MODES and not from_heap:
        raise UserError(f"--mode: '{mode}' is not one of {', '.join(MODES)}")
    if heap_bytes is not None and not from_heap:
        raise UserError(f"--heap-bytes is for --mode heap:NAME; the pools of --mode {mode} are as large as the profile says")
    if (elide or proof is not None) and mode != "zero-copy":
        raise UserError(f"--elide is for --mode zero-copy, where host and device can share memory; with --mode {mode} all copies are made")
    layout = find_layout()
    library = find_merging_library(layout) if elide else find_library(layout)
    heap_library = heaps.find_heap(mode, library, layout) if from_heap else None
    program = find_program(words)
    name = Path(words[0]).name
    usual = Path(f"{name}.trace")
    history = None if from_heap and profile is None and not usual.exists() else profile_of(profile or usual, program, only)
    plan = beside_a_heap(history) if history is None or from_heap else make_plan(history, paged=elide)
    if elide:
        plan = replace(plan, pairs=usable_proof(proof or Path(f"{name}.proof"), words, plan).sites)
    of_heap = heaps.heap_bytes(heap_bytes, history) if from_heap else 0
    folder = prepare_folder(output or Path(f"{name}.pool"))
    file = folder / "pools.plan"
    replace_file(file, plan.text())
    note = profiler_note()
    if note is not None:
        _say(note)
    variables = {
        **for_pools(folder, only or program.name, mode, file),
        "GPUHEAP_HOST_EVENTS": "0",
        "GPUHEAP_HOST_MERGE": "elide" if elide else "",
        "GPUHEAP_HOST_STRICT": "1" if strict else "0",
        "GPUHEAP_HOST_SYNC": "0" if no_synchronise else "1",
        "GPUHEAP_HOST_POISON": "" if poison is None else str(poison),
        "GPUHEAP_HOST_HEAP_LIBRARY": str(heap_library or ""),
        "GPUHEAP_HOST_HEAP_BYTES": str(of_heap),
    }
    code = run(words, library, variables)
    print_outcome(Console(stderr=True, highlight=False, markup=False), plan, folder, mode, of_heap)
    raise typer.Exit(code)


@app.command()
def validate(
    words: Words,
    profile: Annotated[Path | None, typer.Option(metavar="TRACE", help="The trace of an earlier run. Default: <program>.trace, in the current folder.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file of the proof. Default: <program>.proof, in the current folder.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="REGEX", help="Ignore lines of output that match this expression. May be repeated.")
    ] = None,
    only: Only = "",
) -> None:
    """Run a program three times to find the copies that it does not need, for `pool --mode zero-copy --elide`. Standard input is empty."""
    from gpuheap.host.validate import Wanted, validated

    name = Path(words[0]).name
    wanted = Wanted(words, profile or Path(f"{name}.trace"), output or Path(f"{name}.proof"), Path(f"{name}.validation"), ignore or [], only)
    raise typer.Exit(validated(wanted, Console(stderr=True, highlight=False, markup=False)))


@app.command()
def advise(
    words: Annotated[list[str] | None, typer.Argument(metavar="-- PROGRAM [ARGUMENTS ...]", show_default=False)] = None,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="The number of runs of each mode. From 100 on, the command judges distributions too.")] = 30,
    heap: Annotated[list[str] | None, typer.Option("--heap", metavar="NAME", help="Measure the mode heap:NAME too. May be repeated.")] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="REGEX", help="Ignore lines of output that match this expression. May be repeated.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The folder of the samples and the page. Default: <program>.advice, in the current folder."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="The folder of an earlier call. Its samples are judged again, and nothing is run.")
    ] = None,
    no_ncu: Annotated[bool, typer.Option("--no-ncu", help="Do not measure the kernels with Nsight Compute.")] = False,
    ncu_launches: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many launches are profiled by Nsight Compute, each by replaying it.")] = 100,
    elide: Annotated[bool, typer.Option("--elide", help="Also measure 'elide': zero-copy without the copies that a rehearsal finds needless.")] = False,
    only: Only = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")] = False,
) -> None:
    """Measure a program plain and in each mode of pools, and name the best mode by mean time and by predictability. Standard input is empty."""
    from gpuheap.host.advise.command import Wanted, advised

    if (source is None) == (not words):
        raise UserError("name either the program to run, gpuheap host advise -- program arguments, or with --from the folder of an earlier call")
    folder = output or Path(f"{Path((words or [''])[0]).name}.advice")
    wanted = Wanted(words or [], runs, heap or [], ignore or [], folder, only, not no_ncu, ncu_launches, elide)
    raise typer.Exit(advised(wanted, source, as_json))


@app.command()
def probe(
    allocator: Annotated[
        list[str] | None,
        typer.Option(
            "--allocator",
            metavar="NAME",
            help="The allocator to examine: device, managed, host, async or kernel (malloc in kernels). May be repeated. Default: all.",
        ),
    ] = None,
    budget: Annotated[str, typer.Option(metavar="BYTES", help="The most memory that the probe holds at a time.")] = "256MiB",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder of series, CSV files and the page.")] = Path("host.probe"),
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="The folder of an earlier call. Its series are analysed again, and the driver is not called."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")] = False,
) -> None:
    """Find out how the driver's allocators, and malloc in kernels, round and group requests, and how long requests take."""
    from gpuheap.host.probe.command import ALLOCATORS, probed
    from gpuheap.units import parse_bytes

    for name in allocator or ():
        if name not in ALLOCATORS:
            raise unknown_name("allocator", name, ALLOCATORS)
    raise typer.Exit(probed(allocator or ALLOCATORS, parse_bytes(budget, "--budget"), output, source, as_json))


def _say(words: str) -> None:
    """Prints to standard error, because standard output belongs to the program."""
    print(f"gpuheap: {words}", file=sys.stderr)


def _shown(path: Path) -> str:
    try:
        return printable(str(path.resolve().relative_to(Path.cwd())))
    except ValueError:
        return printable(str(path))
