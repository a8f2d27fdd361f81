"""`gpuheap bench`. What judges claims and runs programs needs numpy, and is imported only for a run that asks for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from gpuheap.answers.verdicts import FAILED, verdicts
from gpuheap.commands.display import ProgressListener, print_outcome, print_stopped, print_time_is_up
from gpuheap.errors import EXIT_FAILED, EXIT_INTERRUPTED, UserError
from gpuheap.formats.suites import ALL, COUNTERS, TIMES, Suite, add_files, load_suites, select
from gpuheap.host.advise.nsight import find_profiler
from gpuheap.paths import Layout
from gpuheap.running.bench import Policy, carry_out
from gpuheap.running.cluster import Cluster, SchedulerGone
from gpuheap.running.environment import results_folder
from gpuheap.running.executable import Executable, candidates, choose
from gpuheap.running.outside import Outside, build_benchmark, likely_backend
from gpuheap.running.plan import Request, baselines_last, make_plan
from gpuheap.running.workers import Worker, local_workers

if TYPE_CHECKING:
    from gpuheap.commands.for_claims import ForClaims


@dataclass(frozen=True)
class Where:
    """The options that say where a run takes place: the backend, the machines, and the folder of the tables."""

    backend: str | None
    gpus: str | None
    scheduler: str | None
    output: Path | None
    outside: Outside | None
    apart: bool = False  # each case of an allocator runs in a process of its own
    for_claims: bool = False  # only points that open claims need are measured, those of the claims that need the least time first


def run_bench(layout: Layout, console: Console, request: Request, policy: Policy, where: Where, strict: bool) -> int:
    """Runs the command. Returns the exit code."""
    suites = load_suites(layout)
    if not request.targets:
        raise UserError(f"name a suite, a case, or a suite's file to run: the suites are {', '.join(suites)}; '{ALL}' runs every suite but quick")
    if where.gpus is not None and where.scheduler is not None:
        raise UserError("--gpus chooses GPUs of this machine; --scheduler uses other machines: leave out --gpus and start a `dask worker` for each GPU there")
    codes = []
    suites, targets = add_files(suites, request.targets)
    chosen = select(suites, list(targets))
    if where.for_claims:
        # No claim is about counters or the probe.
        chosen = [(suite, cases) for suite, cases in chosen if suite.instrument == TIMES] or chosen
    if ALL in request.targets and find_profiler() is None:
        left_out = ", ".join(suite.name for suite, _ in chosen if suite.instrument == COUNTERS)
        chosen = [(suite, cases) for suite, cases in chosen if suite.instrument != COUNTERS]
        if left_out:
            console.print(f"note: {left_out} needs Nsight Compute (ncu), which is not installed, and is left out", style="yellow", highlight=False)
    for of_programs in (False, True):
        targets = tuple(f"{suite.name}/{case}" for suite, cases in chosen if suite.programs is of_programs for case in cases)
        if not targets or EXIT_INTERRUPTED in codes:
            continue
        part = replace(request, targets=targets)
        if not of_programs:
            codes.append(_run_kernels(layout, console, part, policy, where, suites, strict))
        else:
            codes.append(_run_programs(layout, console, part, policy, where, suites, strict, of_all=ALL in request.targets))
    return max(codes)


def _check_for_programs(where: Where) -> None:
    given = {"--scheduler": where.scheduler, "--allocator-header": where.outside, "--backend": where.backend}
    for option, value in given.items():
        if value is not None and value != "cuda":
            raise UserError(f"{option} is for cases of allocators: programs run on this machine's GPUs")


def _run_programs(
    layout: Layout, console: Console, request: Request, policy: Policy, where: Where, suites: dict[str, Suite], strict: bool, *, of_all: bool
) -> int:
    """Runs the suites of programs. Leaves them out if the programs are not built and the user asked for all suites."""
    from gpuheap.commands.bench_programs import run_program_suites
    from gpuheap.running.programs import programs_folder

    if of_all and not programs_folder(layout).is_dir():
        left_out = ", ".join(dict.fromkeys(target.split("/")[0] for target in request.targets))
        console.print(f"note: the programs of {left_out} are not built, and are left out", style="yellow", highlight=False)
        return 0
    _check_for_programs(where)
    if where.for_claims:
        console.print("note: claims on programs are judged from whole cases: --for-claims measures all of these", style="yellow", highlight=False)
    return run_program_suites(layout, console, request, policy, where.output, where.gpus, suites, strict)


def _run_kernels(
    layout: Layout, console: Console, request: Request, policy: Policy, where: Where, suites: dict[str, Suite], strict: bool
) -> int:
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(where.scheduler)) if where.scheduler is not None else None
        executable, workers = _executable(layout, where, cluster)
        outside = _outside(layout, console, where, executable, cluster)
        if outside is not None:
            name = outside.description.allocators[0].name
            executable = executable or outside
            _check_name(name, executable, outside, where)
            if executable is outside:
                _check_alone(name, request, where)
                if request.baselines:
                    note = f"note: {name} is measured without baselines: the benchmark of all allocators, which ./test builds, has them"
                    console.print(note, style="yellow", highlight=False)
            request = replace(request, outside=name)
        assert executable is not None
        if not workers:
            workers = locally = local_workers(where.gpus, executable, where.apart)
            for worker in locally:
                stack.callback(worker.close)
        plan = make_plan(request, suites, executable, outside)
        folder = where.output.resolve() if where.output is not None else results_folder(layout, executable)
        device = executable.description.device
        on = device.name if device is not None and executable.backend == "cuda" else "the simulator"
        several = f" by {len(workers)} workers" if len(workers) > 1 else ""
        console.print(f"{plan.num_points} point{'s' if plan.num_points != 1 else ''} on {on}{several} ({executable.why})", highlight=False)
        for note in plan.notes:
            console.print(f"note: {note}", style="yellow", highlight=False)
        identity, whole = executable.identity(), plan
        if policy.until < math.inf:
            plan = baselines_last(plan)
        claims = _claims(layout, folder, executable) if where.for_claims else None
        if claims is not None:
            needs = claims.needs(plan, identity)
            if needs.plan is None:
                console.print(f"none of these {plan.num_points} points helps to decide an open claim", highlight=False)
                claims.print_open(console, whole, identity)
                return 0
            plan = needs.plan
            least = "the claims that need the least time come first"
            console.print(f"{plan.num_points} of them are needed for {needs.waiting} open claims; {least}", highlight=False)
        try:
            with ProgressListener(console, plan, len(workers)) as listener:
                outcome = carry_out(plan, request, policy, executable, layout, folder, listener, workers)
        except SchedulerGone as error:
            raise UserError(
                f"{error}: finished points are kept in {layout.shown(folder)}, and the same command goes on from there"
            ) from None
    if outcome.interrupted:
        print_stopped(console, outcome, plan, layout.shown(folder))
        return EXIT_INTERRUPTED
    if outcome.time_is_up:
        print_time_is_up(console, outcome, plan, layout.shown(folder))
    else:
        print_outcome(console, outcome, plan, suites, executable.backend, layout)
    if claims is not None:
        claims.print_open(console, whole, identity)
    failed = any(row.status not in ("ok", "unsupported") for row in outcome.rows)
    return EXIT_FAILED if strict and (failed or any(v.verdict == FAILED for v in verdicts(outcome.rows, suites))) else 0


def _claims(layout: Layout, folder: Path, executable: Executable) -> ForClaims:
    from gpuheap.commands.for_claims import ForClaims
    from gpuheap.judging.reader import load_papers

    return ForClaims(load_papers(layout), folder, results_folder(layout, executable))


def _executable(layout: Layout, where: Where, cluster: Cluster | None) -> tuple[Executable | None, Sequence[Worker]]:
    """The repository's executable, and the cluster's workers if there is a cluster.

    The executable is None if an allocator from outside is measured and no executable for the backend is built.
    """
    if cluster is not None:
        return _of_cluster(layout, where, cluster)
    found: Mapping[str, Path] = candidates(layout)
    if where.outside is not None and not found.keys() & ({where.backend, "named"} if where.backend else {"named", "cuda", "simulator"}):
        return None, ()
    return choose(layout, where.backend), ()


def _of_cluster(layout: Layout, where: Where, cluster: Cluster) -> tuple[Executable, Sequence[Worker]]:
    """The executable and the workers of a run on a cluster. This machine needs no GPU, because the workers measure."""
    found = candidates(layout)
    backend = "named" if "named" in found else where.backend or ("cuda" if "cuda" in found else "simulator")
    if backend not in found:
        return choose(layout, where.backend), ()  # raises the UserError that says what to build
    workers, executable = cluster.examine(found[backend])
    if where.backend is not None and executable.backend != where.backend:
        raise UserError(f"{found[backend]} is built for the {executable.backend} backend, not for {where.backend}")
    return executable, workers


def _outside(layout: Layout, console: Console, where: Where, executable: Executable | None, cluster: Cluster | None) -> Executable | None:
    if where.outside is None:
        return None
    backend = executable.backend if executable is not None else where.backend or likely_backend()
    built = build_benchmark(layout, where.outside, backend, lambda words: console.print(words, highlight=False, soft_wrap=True))
    if cluster is not None:
        cluster.check_build(built)
    return built


def _check_alone(name: str, request: Request, where: Where) -> None:
    """Raises UserError if the run names other allocators than the one from outside, of which no executable is built."""
    others = [other for other in request.allocators if other != name]
    if others and where.outside is not None:
        raise UserError(f"-a {','.join(others)}: only {where.outside.type} is built here: ./test builds the benchmark of all allocators")


def _check_name(name: str, executable: Executable, outside: Executable, where: Where) -> None:
    assert where.outside is not None
    known = {allocator.name for allocator in executable.description.allocators} | set(executable.description.baselines)
    if executable is not outside and name in known:
        raise UserError(
            f"{where.outside.type} calls itself '{name}' (traits.name), as an allocator of the repository does: give it a name of its own"
        )
