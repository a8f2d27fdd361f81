"""`gpuheap bench` for suites of programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from gpuheap.commands.display import ProgressListener, print_outcome, print_stopped, print_time_is_up
from gpuheap.errors import EXIT_FAILED, EXIT_INTERRUPTED
from gpuheap.formats.suites import Suite
from gpuheap.paths import Layout
from gpuheap.running.bench import Policy
from gpuheap.running.environment import results_folder
from gpuheap.running.plan import Request
from gpuheap.running.programs import carry_out_programs, find_build, make_program_plan
from gpuheap.running.workers import local_workers


def run_program_suites(
    layout: Layout, console: Console, request: Request, policy: Policy, output: Path | None, gpus: str | None,
    suites: Mapping[str, Suite], strict: bool,
) -> int:  # fmt: skip
    """Runs the command for suites of programs. Returns the exit code."""
    build = find_build(layout)
    plan = make_program_plan(request, suites, build, layout)
    executable = plan.sweeps[0].executable
    device = executable.description.device
    used = [worker.gpu for worker in local_workers(gpus, executable)]
    folder = output.resolve() if output is not None else results_folder(layout, executable)
    several = f" by {len(used)} workers" if len(used) > 1 else ""
    console.print(f"{plan.num_points} points on {device.name if device is not None else ''}{several}, {layout.shown(build.folder)}", highlight=False)
    with ProgressListener(console, plan, len(used)) as listener:
        outcome = carry_out_programs(plan, request, policy, build, layout, folder, listener, used)
    if outcome.interrupted:
        print_stopped(console, outcome, plan, layout.shown(folder))
        return EXIT_INTERRUPTED
    if outcome.time_is_up:
        print_time_is_up(console, outcome, plan, layout.shown(folder))
        return 0
    print_outcome(console, outcome, plan, dict(suites), executable.backend, layout)
    failed = any(row.status not in ("ok", "unsupported") for row in outcome.rows)
    return EXIT_FAILED if strict and failed else 0
