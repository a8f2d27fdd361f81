"""Starts processes of benchmark executables, reads their output, and keeps a process that serves for the next sweep."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gpuheap.errors import UserError

LONGEST_LINE_BYTES = 64 << 20


class Stopped(Exception):
    """The caller has ended the sweep."""


class Child:
    """A running executable, either for one sweep or, with --serve, for several sweeps one after the other."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str] | None, serves: bool = False) -> None:
        self.serves = serves
        try:
            # The child gets a session of its own. So Ctrl-C reaches only this process, which then ends the child and the child's children.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if serves else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **variables} if variables else None,
            )
        except OSError as error:
            raise UserError(f"{command[0]} cannot be run: {error.strerror}") from None
        self.output = Output(self.process)

    def ask(self, words: Sequence[str], deadline: float, stop: threading.Event | None) -> None:
        """Sends a request to a process that serves. A process that is gone or does not read is not an error here: its answer will be missing.

        Ends: each pass writes something, or lets time pass towards the deadline.
        """
        request = memoryview(b"".join(word.encode(errors="surrogateescape") + b"\0" for word in (str(len(words)), *words)))
        assert self.process.stdin is not None
        pipe = self.process.stdin.fileno()
        os.set_blocking(pipe, False)
        with selectors.DefaultSelector() as selector, suppress(BrokenPipeError):
            selector.register(pipe, selectors.EVENT_WRITE)
            while request and time.monotonic() < deadline:
                if stop is not None and stop.is_set():
                    raise Stopped
                if selector.select(0.5):
                    request = request[os.write(pipe, request) :]

    def wait(self, seconds: float) -> int | None:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """Ends the process and its children. A process that already ended is left alone."""
        if self.process.poll() is None:
            # The process may end between the two calls.
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.output.close()
        self.process.wait()


class Processes:
    """Keeps a process that serves, for the next sweep of its allocator, because starting CUDA takes longer than most points.

    At most one process waits. A waiting process holds its CUDA context, with device memory for its kernels' stacks and for CUDA's own malloc, which
    can be many GiB. With several such processes, the next heap might not fit, and points would be measured on a device that others use too.
    """

    def __init__(self) -> None:
        self._waiting: tuple[tuple[Path, str], Child] | None = None

    def take(self, executable: Path, allocator: str) -> Child | None:
        """Returns the waiting process if it is of this allocator, else None. Ends a waiting process of another allocator."""
        if self._waiting is None:
            return None
        name, child = self._waiting
        self._waiting = None
        if name == (executable, allocator) and child.process.poll() is None:
            return child
        child.end()
        return None

    def keep(self, executable: Path, allocator: str, child: Child) -> None:
        self.close()
        child.output.forget()
        self._waiting = (executable, allocator), child

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting[1].end()
            self._waiting = None


class Starts:
    """Starts several processes that serve, for runs that need a process each. The starts of CUDA take place at the same time.

    The processes wait while one of them makes its run. A process that waits holds a CUDA context, but no heap and no kernels. No process starts while a
    run is measured.
    """

    def __init__(self, executable: Path, variables: Mapping[str, str] | None) -> None:
        self._executable, self._variables = executable, variables
        self._waiting: list[Child] = []

    def take(self, count: int, seconds: float, stop: threading.Event | None) -> Child:
        """The next process. If none waits, `count` processes are started, and the call returns once all are ready, or after `seconds`."""
        if not self._waiting:
            for _ in range(count):
                self._waiting.append(Child([str(self._executable), "--serve"], self._variables, serves=True))
            deadline = time.monotonic() + seconds
            for child in self._waiting:
                # A process that dies or hangs here is told of where its point gets no result.
                with suppress(TimeoutError):
                    child.output.line(deadline, stop)
        return self._waiting.pop(0)

    def close(self) -> None:
        for child in self._waiting:
            child.end()
        self._waiting.clear()


class Output:
    """Reads the two pipes of a process: standard output by lines, and the last part of standard error."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None and child.stderr is not None
        self._child = child
        self._out, self._err = child.stdout, child.stderr
        self._selector = selectors.DefaultSelector()
        for pipe in (self._out, self._err):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ)
        self._unread = b""
        self._errors = b""
        self._ended = False
        self._half_line = False

    def line(self, deadline: float, stop: threading.Event | None = None) -> str | None:
        """The next line; None at the end. A last line without a line break is returned too.

        Raises TimeoutError at the deadline, and Stopped once `stop` is set.

        Ends: each pass reads something, meets the end, or lets time pass towards the deadline.
        """
        while True:
            text, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                return text.decode(errors="replace")
            if self._ended or len(text) > LONGEST_LINE_BYTES:
                self._unread = b""
                self._half_line = bool(text)
                return text.decode(errors="replace") if text else None
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if stop is not None and stop.is_set():
                raise Stopped
            # The wait is half a second at most, because a process may end while another that it started holds the pipe open.
            ready = self._selector.select(min(left, 0.5))
            for key, _ in ready:
                self._read(key.fileobj)
            if not ready and self._child.poll() is not None:
                self._ended = True

    def forget(self) -> None:
        """Forgets what the process wrote to standard error so far."""
        self.errors()
        self._errors = b""

    def at_end_of_half_line(self) -> bool:
        return self._half_line

    def errors(self) -> str:
        """The last part of standard error."""
        while True:
            before = len(self._errors)
            if self._err in [key.fileobj for key in self._selector.get_map().values()]:
                self._read(self._err)
            if len(self._errors) == before or len(self._errors) > 1 << 16:
                return self._errors[-4096:].decode(errors="replace")

    def close(self) -> None:
        self._selector.close()
        self._out.close()
        self._err.close()

    def _read(self, pipe: object) -> None:
        out = pipe is self._out
        try:
            part = os.read((self._out if out else self._err).fileno(), 1 << 16)
        except BlockingIOError:
            return
        if not part:
            self._selector.unregister(self._out if out else self._err)
            self._ended = self._ended or out
        elif out:
            self._unread += part
        else:
            self._errors = (self._errors + part)[-(1 << 16) :]
