"""Runs one step of ./demo, ./test or .ci/run.

The step's output goes into a log. A line reports its progress 15 s after the last line that a person saw, also if an earlier step printed that line. If the
step is interrupted, all of its processes are ended.

usage: step.py NAME (LOG | -) COMMAND...

This script needs no package, because it also runs the commands that install packages. Exit code: that of the command; 130 if interrupted.
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
LOOK_S = 0.2  # the time within which an interruption is noticed
GRACE_S = 10.0  # the time that an interrupted command has to end by itself
INTERRUPTED = 130
# The file whose time is that of the last line which a person saw; none if it is not set.
SAID = Path(os.environ["GPUHEAP_SAID"]) if "GPUHEAP_SAID" in os.environ else None
# The count of finished pieces, as ninja and pytest print it, and as ctest does.
COUNT = re.compile(rb"\[ *(\d+)/(\d+)\]|^ *(\d+)/(\d+) Test ", re.MULTILINE)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def progress(log: Path) -> str:
    """The progress that the end of the log shows: the last count, or else the last line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - (64 << 10)))
        end = file.read()
    counts = COUNT.findall(end)
    if counts:
        done, of = (part for part in counts[-1] if part)
        return f"{done.decode()} of {of.decode()}"
    lines = [line for line in ESCAPES.sub("", end.decode(errors="replace")).splitlines() if line.strip()]
    return lines[-1].strip()[:100] if lines else "no output so far"


def silence() -> float:
    """The seconds since a person saw a line; 0 if the time is not known."""
    if SAID is None:
        return 0.0
    try:
        return max(0.0, time.time() - SAID.stat().st_mtime)
    except OSError:
        return 0.0


def note_line() -> None:
    """Notes that a person sees a line now."""
    if SAID is not None:
        with contextlib.suppress(OSError):
            SAID.touch()


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):  # the process has ended
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
    """A command in a session of its own. So a terminal's Ctrl-C reaches only this process, which then ends the command and its descendants."""

    def __init__(self, name: str, log: Path | None, command: list[str]) -> None:
        self._name = name
        self._log = log
        self._started = float(os.environ.get("GPUHEAP_STARTED") or time.time())
        self._interrupted = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A process that a script starts in the background ignores Ctrl-C at first, so its handler is always set. SIGHUP stays ignored under nohup.
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
        if self._log is None:
            note_line()
        return 128 - code if code < 0 else code

    def _wait(self) -> int | None:
        """The command's exit code; None if it is interrupted first."""
        reported = time.monotonic() - (silence() if self._log is not None else 0.0)
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
            note_line()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True

    def _end(self) -> None:
        """Interrupts the command as Ctrl-C does. After GRACE_S, kills the processes that are left, also those in sessions of their own."""
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
        # The reader of a pipe left, as `head` does. Output goes to /dev/null, so that Python does not try to write the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except OSError as error:
        print(f"{name}: {error.filename or command[0]}: {error.strerror}: name a program that can run, and a log that can be written", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
