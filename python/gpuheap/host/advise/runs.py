"""Runs a program many times, in each mode in turn, and records the times of each run."""

from __future__ import annotations

import hashlib
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from gpuheap.errors import UserError
from gpuheap.host.advise.measure import times_of
from gpuheap.host.advise.samples import FAILED, OK, TIMEOUT, Sample, append_sample
from gpuheap.host.trace import read_trace
from gpuheap.running.process import run_process
from gpuheap.units import format_seconds

FAILURES_IN_A_ROW = 3  # after this many failed runs in a row, a mode is not measured any more


def digest(output: Path, ignored: Sequence[re.Pattern[bytes]]) -> str:
    """The SHA-256 of a program's output; with patterns, of the lines that match none of them."""
    found = hashlib.sha256()
    with output.open("rb") as file:
        if not ignored:
            for part in iter(lambda: file.read(1 << 20), b""):
                found.update(part)
        else:
            for line in file:
                if not any(pattern.search(line) for pattern in ignored):
                    found.update(line)
    return found.hexdigest()


def patterns_of(ignored: Sequence[str]) -> list[re.Pattern[bytes]]:
    found = []
    for text in ignored:
        try:
            found.append(re.compile(text.encode()))
        except re.error as error:
            raise UserError(f"--ignore: '{text}' is not a regular expression: {error}") from None
    return found


@dataclass(frozen=True)
class Campaign:
    """The runs: `environments` has the program's environment for each mode, and each run writes a trace into `traces`."""

    words: Sequence[str]
    environments: Mapping[str, Mapping[str, str]]
    runs: int
    folder: Path
    traces: Path
    ignored: Sequence[re.Pattern[bytes]]
    limit_s: float


def measure(campaign: Campaign, told: Callable[[str, int, int, float | None], None]) -> bool:
    """Makes the runs. Each round runs each mode once, and begins with another mode than the round before.

    A mode that failed FAILURES_IN_A_ROW times is left out of further rounds. Before each run, `told` is called with the mode, the number of runs
    done, the number of all runs, and the seconds left. Returns False if interrupted; the finished runs are kept.
    """
    failures = dict.fromkeys(campaign.environments, 0)
    spent: dict[str, list[float]] = {mode: [] for mode in failures}
    done = 0
    came = threading.Event()
    try:
        with _remembering_interrupts(came):
            for number in range(campaign.runs):
                modes = list(failures)
                for mode in modes[number % len(modes) :] + modes[: number % len(modes)]:
                    if came.is_set():
                        return False
                    if failures[mode] == FAILURES_IN_A_ROW:
                        continue
                    left = {each: campaign.runs - len(spent[each]) for each in modes if failures[each] < FAILURES_IN_A_ROW}
                    told(mode, done, done + sum(left.values()), seconds_left(spent, left))
                    begin = time.monotonic()
                    sample = run_once(campaign, mode, number)
                    append_sample(campaign.folder, sample)
                    spent[mode].append(time.monotonic() - begin)
                    failures[mode] = 0 if sample.status == OK else failures[mode] + 1
                    done += 1
    except KeyboardInterrupt:
        return False
    return True


@contextmanager
def _remembering_interrupts(came: threading.Event) -> Iterator[None]:
    """Sets `came` and raises KeyboardInterrupt at Ctrl-C, even if a shell started this process in the background with the signal ignored.

    Python drops an exception that is raised in a finaliser. `came` then still tells of the interruption.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def seconds_left(spent: Mapping[str, Sequence[float]], left: Mapping[str, int]) -> float | None:
    """The seconds left: for each run to come, the mean of its mode's runs, else of all. None before the first run."""
    everything = [seconds for of_mode in spent.values() for seconds in of_mode]
    if not everything:
        return None
    mean = sum(everything) / len(everything)
    return sum(count * (sum(spent[mode]) / len(spent[mode]) if spent[mode] else mean) for mode, count in left.items())


def run_once(campaign: Campaign, mode: str, number: int) -> Sample:
    shutil.rmtree(campaign.traces, ignore_errors=True)
    campaign.traces.mkdir()
    output, errors = campaign.folder / "output", campaign.folder / "errors"
    ended = run_process(campaign.words, campaign.environments[mode], output, errors, campaign.limit_s)
    if ended.code is None or ended.code < 0:
        # The last lines of the program's standard error may say why.
        said = errors.read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
        why = [f"killed after {format_seconds(campaign.limit_s)}"] if ended.code is None else [f"ended by signal {-ended.code}"]
        status, code = (TIMEOUT, -1) if ended.code is None else (FAILED, 128 - ended.code)
        return Sample(mode, number, status, code, "", ended.nanoseconds, messages=tuple(why + said))
    times = times_of([read_trace(path) for path in sorted(campaign.traces.glob("*.trace"))])
    return Sample(mode, number, OK, ended.code, digest(output, campaign.ignored), ended.nanoseconds, **times)
