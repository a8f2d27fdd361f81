"""Runs one step of ./demo, ./test or .ci/run.

Its output goes into a log, a line says at least every 20 s how far it is, and no process of it is left when it is interrupted.

usage: step.py NAME (LOG | -) COMMAND...

It needs no package, as it also runs what fetches them. Exit code: that of the command; 130 when interrupted.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

INTERVAL_S = float(os.environ.get("GPUHEAP_PROGRESS_S", "15"))
LOOK_S = 0.2  # between looks at whether to end
GRACE_S = 10.0
INTERRUPTED = 130
# The counts as ninja and pytest write them, and as ctest does.
COUNT = re.compile(rb"\[ *(\d+)/(\d+)\]|^ *(\d+)/(\d+) Test ", re.MULTILINE)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def progress(log: Path) -> str:
    """The end of the log: the last count, or else the last line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - (64 << 10)))
        end = file.read()
    counts = COUNT.findall(end)
    if counts:
        done, of = (part for part in counts[-1] if part)
        return f"{done.decode()} of {of.decode()}"
    lines = [line for line in ESCAPES.sub("", end.decode(errors="replace")).splitlines() if line.strip()]
    return lines[-1].strip()[:100] if lines else "no output so far"


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):  # it has ended
            continue
    return found


def descendants(ancestor: int) -> list[int]:
    parent_of = parents()

    def descends(process: int) -> bool:
        while process in parent_of:
            process = parent_of[process]
            if process == ancestor:
                return True
        return False

    return [process for process in parent_of if descends(process)]


def send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


class Step:
    """A command in a session of its own, so that a terminal's Ctrl-C reaches this process alone, which ends the command as it should be ended."""

    def __init__(self, name: str, log: Path | None, command: list[str]) -> None:
        self._name = name
        self._log = log
        self._started = float(os.environ.get("GPUHEAP_STARTED") or time.time())
        self._interrupted = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Ctrl-C is ignored in every process that a script starts in the background; SIGHUP only where nohup asks for that.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._interrupt)
        if log is None:
            self._process = subprocess.Popen(command, start_new_session=True)
        else:
            with log.open("wb") as output:
                self._process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)

    def run(self) -> int:
        try:
            code = self._wait()
        except BaseException:
            self._end()
            raise
        if code is None:
            self._end()
            return INTERRUPTED
        return 128 - code if code < 0 else code

    def _wait(self) -> int | None:
        """The command's exit code; None where an interruption comes first."""
        reported = time.monotonic()
        while not self._interrupted:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(timeout=LOOK_S)
            if time.monotonic() - reported >= INTERVAL_S:
                reported = time.monotonic()
                self._report()
        return None

    def _report(self) -> None:
        if self._log is not None:
            print(f"[{time.time() - self._started:3.0f}s]   {self._name}: {progress(self._log)}", flush=True)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True

    def _end(self) -> None:
        """As by Ctrl-C in a terminal of its own; what is left after a while of grace, also in sessions that it has made, is killed."""
        family = [self._process.pid, *descendants(self._process.pid)]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline and self._process.poll() is None:
            time.sleep(0.05)
        alive = parents()
        for process in family:
            if process in alive:
                send(process, signal.SIGKILL)
        self._process.wait()


def main(arguments: list[str]) -> int:
    if len(arguments) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    name, log, *command = arguments
    try:
        return Step(name, None if log == "-" else Path(log), command).run()
    except BrokenPipeError:
        # The reader of a pipe left, as `head` does. What could not be written is not tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
