"""Rewrites a file of generated kernels, compiles it for the simulator, runs each kernel apart and together, and counts."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import generate

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "host"
TOOL = BUILD / "tools" / "coalesce" / "gpuheap-coalesce"
SCHEDULERS = ("round_robin", "random", "run_through", "pct")
# Whether the toolkit is in a place in which the rewriter finds it too.
TOOLKIT = any(Path(folder, "include", "cuda_runtime.h").is_file() for folder in (os.environ.get("CUDA_PATH", ""), "/usr/local/cuda") if folder)
SIMULATOR = BUILD / "simulator" / "libgpuheap_simulator.a"


@dataclass
class Outcome:
    """Of one file: what went wrong, by kernel, and how much of what may be coalesced is."""

    kernels: list[generate.Kernel]
    findings: dict[int, str] = field(default_factory=dict)
    may: int = 0  # calls that may be coalesced: all of the kernels without a value that differs
    are: int = 0
    lost: Counter[str] = field(default_factory=Counter)  # parts of kernels in which one is not


def rewrite(tool: Path, seed: int, count: int, folder: Path, *, undone: str = "") -> Outcome:
    """Writes kernels.cu into the folder, and what the tool makes of it into together/. Every third seed is for warps; every other one is read with the
    headers of the toolkit, where there is one. `undone`: parts of the analysis that are left out, of the tests' build of the tool."""
    level, toolkit = "warp" if seed % 3 == 0 else "block", seed % 2 == 0 and TOOLKIT
    text, kernels = generate.make_file(seed, count, toolkit)
    source = folder / "kernels.cu"
    source.write_text(text)
    together = folder / "together"
    together.mkdir(exist_ok=True)
    options = [
        "--no-init",
        "--json",
        "--level",
        level,
        "--output",
        together,
        *([] if toolkit else ["--no-toolkit"]),
    ]
    environment = {**os.environ, "COALESCE_UNDONE": undone}
    command = [tool, *options, source, "--", f"-I{HERE / 'cuda'}"]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
        env=environment,
    )
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"the rewriter ended with {ran.returncode} on seed {seed}: {ran.stderr}")
    outcome = Outcome(kernels)
    number = -1
    kernel_of = []
    for line in text.splitlines():
        number += line.startswith("__global__")
        kernel_of.append(number)
    report = json.loads(ran.stdout)
    for call in report["sites"] + report["calls"]:
        kernel = kernel_of[call["line"] - 1]
        if kernel < 0 or not kernels[kernel].positive:
            continue
        outcome.may += 1
        if call["decision"] == "collective":
            outcome.are += 1
        else:
            outcome.lost.update(kernels[kernel].parts)
    return outcome


def compiler_options() -> list[str]:
    """The compiler's options for programs of the simulator, as this build has them."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    command = next(one["command"] for one in commands if Path(one["file"]).name == "host_coalesce_ranks_programs.cpp")
    words = shlex.split(command)
    kept = [word for word in words if word.startswith(("-I", "-D")) and "programs/host" not in word]
    kept += [word for i, at in enumerate(words) if at == "-isystem" for word in words[i : i + 2]]
    return kept


def run(outcome: Outcome, folder: Path, num_schedules: int) -> None:
    """Compiles together/kernels.cu and runs it; adds to the outcome which kernels differ, hang, or are broken themselves."""
    kernels = ", ".join(f"kernel_{i}" for i in range(len(outcome.kernels)))
    (folder / "main.cpp").write_text(
        f'#include "together/kernels.cu"\nint main() {{\n  constexpr machine::kernel kernels[] = {{{kernels}}};\n  return machine::run_all(kernels);\n}}\n'
    )
    command = [
        "g++",
        "-std=c++20",
        "-O1",
        "-w",
        "main.cpp",
        "-o",
        "program",
        f"-I{HERE / 'host'}",
        *compiler_options(),
        str(SIMULATOR),
    ]
    made = subprocess.run(
        [*command, "-lboost_context", "-pthread"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    if made.returncode != 0:
        raise RuntimeError(f"g++ does not compile what comes out: {made.stderr[:2000]}")
    starved = Counter[int]()
    for schedule in range(num_schedules):
        environment = {
            **os.environ,
            "GPUHEAP_SIMULATOR_SCHEDULER": SCHEDULERS[schedule % len(SCHEDULERS)],
            "GPUHEAP_SIMULATOR_SEED": str(schedule),
            "GPUHEAP_SIMULATOR_BUDGET": "4000000",
        }
        ran = subprocess.run(
            ["./program"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=3600,
            env=environment,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"the program ended with {ran.returncode}: {ran.stderr[-2000:]}")
        for line in ran.stdout.splitlines():
            number, what = line.split()
            if what == "starved":
                starved[int(number)] += 1
            else:
                outcome.findings.setdefault(int(number), what)
    for number, times in starved.items():
        if times == num_schedules:
            outcome.findings.setdefault(number, "broken before it was rewritten")


def check(
    tool: Path,
    seed: int,
    count: int,
    folder: Path,
    num_schedules: int,
    *,
    undone: str = "",
) -> Outcome:
    """Both."""
    outcome = rewrite(tool, seed, count, folder, undone=undone)
    run(outcome, folder, num_schedules)
    return outcome
