"""Ends a command: sets the exit code and, if something went wrong, prints one line on standard error."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from gpuheap.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_READER_LEFT, EXIT_USAGE, UserError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_with(command: Callable[[], object]) -> NoReturn:
    """Runs a command and ends the process. An error that the user or the machine causes gives one line and exit code 2, never a traceback."""
    # A signal that comes outside of the `try` ends the process at once: Python's own handler of SIGINT would print a traceback.
    _handle_interruptions(signal.SIG_DFL)
    try:
        _handle_interruptions(_interrupt)
        sys.unraisablehook = _unraisable
        _open_streams()
        code = _code_of(command)
        # The command has written all of its results.
        _handle_interruptions(signal.SIG_DFL)
    except KeyboardInterrupt:  # one that came between the lines of this file
        _handle_interruptions(signal.SIG_DFL)
        code = EXIT_INTERRUPTED
    sys.exit(code)


def _handle_interruptions(handler: Any) -> None:
    """Sets the handler of each interruption. A signal that was ignored from the start stays ignored, as nohup requires."""
    for number in _INTERRUPTIONS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


class _Interruption:
    came = False


def _interrupt(*_: object) -> None:
    _Interruption.came = True
    raise KeyboardInterrupt


def _unraisable(ignored: UnraisableHookArgs) -> None:
    """Interrupts the main thread again, 10 ms later, if Python dropped an interruption.

    Python drops an exception that a finaliser or a callback of a weak reference raises, such as those of each import: it prints the traceback and goes on.
    """
    if ignored.exc_type is KeyboardInterrupt:
        again = threading.Timer(0.01, _interrupt_again)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(ignored)


def _interrupt_again() -> None:
    handled = next((number for number in _INTERRUPTIONS if callable(signal.getsignal(number))), None)
    if handled is not None:  # else the command has ended
        os.kill(os.getpid(), handled)  # a signal also ends a wait of the main thread


def _code_of(command: Callable[[], object]) -> int:
    try:
        code = command()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except SystemExit as error:
        # A command-line library raises this after it printed help, and with the code 1 when the reader of a pipe has left.
        _flush_output()
        _drop(sys.stdout)
        if _Output.reader_left:
            return EXIT_READER_LEFT
        return error.code if isinstance(error.code, int) else EXIT_FAILED
    except UserError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        _flush_output()
        return EXIT_INTERRUPTED
    except OSError as error:
        if _Output.reader_left and isinstance(error, BrokenPipeError):
            _drop(sys.stdout)  # nothing more can be written, also not at exit
            return EXIT_READER_LEFT
        from gpuheap.files import words_of

        if error.filename is None and isinstance(error, FileNotFoundError):  # the system's error if the current folder was deleted
            return _complain("the current folder was removed: change to another one")
        # gpuheap.files names each file that it cannot write, so that an error without a name is one of standard output.
        unnamed = error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        return _complain(f"{'standard output cannot be written: ' if unnamed else ''}{words_of(error)}")
    except RuntimeError as error:
        # Path.resolve() turns the system's error about a loop of symbolic links into a RuntimeError.
        loop = error.__context__
        if not isinstance(loop, OSError) or loop.errno != errno.ELOOP:
            raise
        from gpuheap.files import words_of

        return _complain(words_of(loop))
    except ImportError:
        # The compiled code of a package may turn an interruption of its import into this error, as numpy's does.
        if not _Interruption.came:
            raise
        _flush_output()
        return EXIT_INTERRUPTED
    except MemoryError:
        return _complain("there is not enough memory for that")
    except Exception as error:
        # The errors of the command-line library, such as an unknown option or a missing value, have format_message(). It is empty if help was printed.
        if not hasattr(error, "format_message"):
            raise
        words = str(error.format_message()).strip()
        context = getattr(error, "ctx", None)
        if words and context is not None and not words.endswith("?"):
            words = f"{words.removesuffix('.')}: see {context.command_path} --help"
        elif words.endswith("requires an argument."):  # this error names no command
            words = f"{words.removesuffix('.')}: write it after the option"
        return _complain(words) if words else EXIT_USAGE


def _complain(words: str) -> int:
    _flush_output()
    # The message stays one line, whatever characters it quotes from a file name or from another program.
    line = "".join(letter if letter.isprintable() else " " for letter in words)
    try:
        print(f"gpuheap: {' '.join(line.split())}", file=sys.stderr, flush=True)
    except OSError:
        _drop(sys.stderr)  # no process reads standard error any more; the exit code remains
    return EXIT_USAGE


def _flush_output() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    """Points a stream at /dev/null. At exit Python writes the rest of the stream's buffer, and this write would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_streams() -> None:
    """Opens closed standard streams on /dev/null, so that no other file gets their numbers.

    The output streams write a replacement for each character that their encoding lacks.
    """
    # Ends: os.open() returns the lowest number that is not open. At most three passes open 0, 1 and 2, and the next number is above 2.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace" if is_utf8(stream.encoding) else "replace")
    sys.stdout, sys.stderr = _noting(sys.stdout), _noting(sys.stderr)


class _Output(io.FileIO):
    """The file of a standard stream, which notes that the reader of its pipe has left, as `head` does.

    The exception alone does not tell: command-line libraries turn it into an exit with the code 1, which other ends of a command have too.
    """

    reader_left = False  # of either stream

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            _Output.reader_left = True
            raise


def _noting(stream: TextIO) -> TextIO:
    """The stream, on an `_Output`. A stream that is no file, such as one of a test, stays."""
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        return stream
    stream.flush()
    raw = _Output(stream.fileno(), "wb", closefd=False)
    # Python leaves out the buffer for PYTHONUNBUFFERED.
    buffer: Any = raw if isinstance(stream.buffer, io.RawIOBase) else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering, write_through=stream.write_through)


def is_utf8(encoding: str | None) -> bool:
    return (encoding or "").lower().replace("-", "").replace("_", "") == "utf8"
