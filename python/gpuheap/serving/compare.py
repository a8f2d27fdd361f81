"""`gpuheap run --compare`: runs one program with several allocators."""

from __future__ import annotations

import json
import os
import re
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuheap.running.executable import exit_words
from gpuheap.running.process import Ended, run_process
from gpuheap.serving.start import Service


@dataclass(frozen=True)
class Run:
    """One run. `kernel_ms` is None unless the library wrote the times of all launches; `code` is None if the run's time was up."""

    seconds: float
    kernel_ms: float | None
    launches: int
    code: int | None


@dataclass
class Outcome:
    """The results of an allocator's runs. The warm-up is not among `runs`, but its output and its messages count."""

    allocator: str
    runs: list[Run] = field(default_factory=list)
    same_output: bool = True
    notes: list[str] = field(default_factory=list)  # gpuheap's messages on standard error

    @property
    def seconds(self) -> float:
        return statistics.median(run.seconds for run in self.runs)

    @property
    def kernel_ms(self) -> float | None:
        known = [run.kernel_ms for run in self.runs if run.kernel_ms is not None]
        return statistics.median(known) if known else None

    @property
    def codes(self) -> list[int | None]:
        return sorted({run.code for run in self.runs}, key=lambda code: (code is not None, code))

    def as_json(self) -> dict[str, object]:
        return {
            "allocator": self.allocator,
            "seconds": self.seconds,
            "kernel_ms": self.kernel_ms,
            "exit_codes": self.codes,
            "same_output": self.same_output,
            "notes": self.notes,
            "runs": [vars(run) for run in self.runs],
        }


@dataclass(frozen=True)
class Plan:
    words: Sequence[str]
    services: Mapping[str, Service]
    runs: int
    limit_s: float
    ignored: tuple[re.Pattern[bytes], ...] = ()


@dataclass(frozen=True)
class _Raw:
    ended: Ended
    output: bytes
    errors: bytes
    times: list[dict[str, float]]


def compare(plan: Plan, told: Callable[[str], None]) -> list[Outcome]:
    """The outcomes, in the order of the services. Every run is compared with the program's output without any library."""
    outcomes = {name: Outcome(name) for name in plan.services}
    with tempfile.TemporaryDirectory(prefix="gpuheap-run-") as folder:
        told("plain run, for its output")
        plain = _once(plan, dict(os.environ), Path(folder))
        if plain.ended.code != 0:
            how = f"did not end in {plan.limit_s:g} s" if plain.ended.code is None else exit_words(plain.ended.code)
            told(f"plain, without any library: {how}: the other runs are compared with its output up to there")
        for turn in range(plan.runs + 1):
            for name, service in plan.services.items():
                told(f"{name}, {'warm-up' if turn == 0 else f'run {turn} of {plan.runs}'}")
                raw = _once(plan, service, Path(folder))
                _judge(plan, outcomes[name], raw, plain, counts=turn > 0)
    return list(outcomes.values())


def _once(plan: Plan, how: Service | Mapping[str, str], folder: Path) -> _Raw:
    times = folder / "times"
    times.mkdir(exist_ok=True)
    for old in times.iterdir():
        old.unlink()
    environment = how.environment(times) if isinstance(how, Service) else how
    output, errors = folder / "output", folder / "errors"
    ended = run_process(plan.words, environment, output, errors, plan.limit_s)
    found = [_read_times(path) for path in sorted(times.glob("*.json"))]
    return _Raw(ended, output.read_bytes(), errors.read_bytes(), found)


def _read_times(path: Path) -> dict[str, float]:
    try:
        found: dict[str, float] = json.loads(path.read_bytes())
    except ValueError:  # the process was killed while it wrote
        return {"kernel_ms": 0.0, "launches": 0, "untimed": 1}
    return found


def _judge(plan: Plan, outcome: Outcome, raw: _Raw, plain: _Raw, counts: bool) -> None:
    outcome.same_output &= _compared(raw.output, plan.ignored) == _compared(plain.output, plan.ignored)
    for line in raw.errors.decode(errors="replace").splitlines():
        if line.startswith("gpuheap: ") and line not in outcome.notes:
            outcome.notes.append(line)
    if counts:
        whole = [times for times in raw.times if times["untimed"] == 0]
        kernel_ms = sum(times["kernel_ms"] for times in whole) if whole and len(whole) == len(raw.times) else None
        launches = int(sum(times["launches"] for times in raw.times))
        outcome.runs.append(Run(raw.ended.nanoseconds / 1e9, kernel_ms, launches, raw.ended.code))


def _compared(output: bytes, ignored: tuple[re.Pattern[bytes], ...]) -> bytes:
    return output if not ignored else b"\n".join(line for line in output.split(b"\n") if not any(each.search(line) for each in ignored))


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """The table as lines for a terminal. Times are medians; numbers in brackets are ratios to the first allocator's."""
    head = ("allocator", "whole program", "kernels", "exit code", "output")
    first = outcomes[0]
    rows = [head]
    for each in outcomes:
        kernels, reference = each.kernel_ms, first.kernel_ms
        rows.append(
            (
                each.allocator,
                f"{each.seconds:.3f} s ({each.seconds / first.seconds:.2f})",
                "unknown" if kernels is None else f"{kernels:.3f} ms" + (f" ({kernels / reference:.2f})" if reference else ""),
                ", ".join("timed out" if code is None else str(code) for code in each.codes),
                "as plain" if each.same_output else "differs from plain",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
