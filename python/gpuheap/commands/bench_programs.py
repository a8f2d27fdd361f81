"""`gpuheap bench` for suites of programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from gpuheap.commands.display import ProgressListener, print_outcome, print_stopped
from gpuheap.errors import EXIT_FAILED, EXIT_INTERRUPTED
from gpuheap.formats.suites import Suite
from gpuheap.paths import Layout
from gpuheap.running.bench import Policy
from gpuheap.running.environment import results_folder
from gpuheap.running.plan import Request
from gpuheap.running.programs import carry_out_programs, find_build, make_program_plan


def run_program_suites(
    layout: Layout, console: Console, request: Request, policy: Policy, output: Path | None, suites: Mapping[str, Suite], strict: bool
) -> int:
    """Returns the exit code."""
    build = find_build(layout)
    plan = make_program_plan(request, suites, build)
    executable = plan.sweeps[0].executable
    device = executable.description.device
    folder = output.resolve() if output is not None else results_folder(layout, executable)
    console.print(f"{plan.num_points} points on {device.name if device is not None else ''}, {layout.shown(build.folder)}", highlight=False)
    with ProgressListener(console, plan) as listener:
        outcome = carry_out_programs(plan, request, policy, build, layout, folder, listener)
    if outcome.interrupted:
        print_stopped(console, outcome, plan, layout.shown(folder))
        return EXIT_INTERRUPTED
    print_outcome(console, outcome, plan, dict(suites), executable.backend, layout)
    failed = any(row.status not in ("ok", "unsupported") for row in outcome.rows)
    return EXIT_FAILED if strict and failed else 0
