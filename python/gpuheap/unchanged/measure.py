"""Runs the forms of a program in turn, compares their outputs, and runs compute-sanitizer."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError
from gpuheap.unchanged.outputs import Left, difference, error_count, findings, heap_report, kernel_milliseconds, new_findings, take
from gpuheap.unchanged.programs import Program

PLAIN, RDC, RELINKED, RUN = "plain", "rdc", "relinked", "run"
FORMS = (PLAIN, RDC, RELINKED, RUN)
# The reference of each served form: the same objects with CUDA's malloc.
BASELINE = {RELINKED: RDC, RUN: PLAIN}
MEMCHECK = "memcheck"  # the key of the findings, and how the keys of all that belongs to them begin
LOGGED = 4000  # the number of characters of a program's output that stand in a log of the sanitizer
_GRACE_S = 2.0  # the time allowed for the last output of a killed process
# The variables of a runner's environment that hold paths, which are made absolute.
_PATHS = {"GPUHEAP_ROOT", "GPUHEAP_RUN_LIBRARY", "GPUHEAP_RUN_PROVIDER", "GPUHEAP_RUN_PROVIDERS", "GPUHEAP_HOST_LIBRARY", "GPUHEAP_HOST_PLAN"}
_PATH_LISTS = {"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"}


@dataclass(frozen=True)
class Wish:
    """The settings of a measurement."""

    folder: Path  # it holds NAME/FORM for each program, and data/ with their input
    forms: tuple[str, ...]
    runner: tuple[str, ...]  # the command in front of a plain program: `gpuheap run`
    runs: int
    timeout_s: float
    enough_s: float  # the time for one program's runs; each form has two runs in any case


@dataclass(frozen=True)
class Sanitizer:
    """The settings of the sanitizer's runs."""

    command: tuple[str, ...]  # compute-sanitizer, with options of its own if it checks a part of each program
    timeout_s: float
    forms: tuple[str, ...]  # empty: the plain program, and every form of the measurement
    part: str = ""  # the part of a program that the command checks, in words; empty: all of it
    logs: Path | None = None  # the folder that keeps the logs


@dataclass(frozen=True)
class Ended:
    code: int | None  # None: killed when its time was up
    stdout: bytes
    stderr: str
    seconds: float


@dataclass
class Form:
    """The runs of one form of a program."""

    words: tuple[str, ...]
    ended: list[Ended] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


def command_of(program: Program, form: str, wish: Wish) -> tuple[str, ...] | None:
    """The command that runs a form of a program; None if the form is not built, or if no runner is given for it."""
    path = wish.folder / program.name / (PLAIN if form == RUN else form)
    if (form == RUN and not wish.runner) or not os.access(path, os.X_OK):
        return None
    return (*(wish.runner if form == RUN else ()), str(path.resolve()), *program.arguments)


def what_lacks(program: Program, wish: Wish) -> str:
    """The reason why the program cannot be measured; "" if it can. The folder must hold the plain program, with which the other forms are compared."""
    plain = wish.folder / program.name / PLAIN
    paths = [plain, *(wish.folder / "data" / name for name in program.inputs)]
    missing = next((f"{path} is not there" for path in paths if not path.is_file()), "")
    return missing or ("" if os.access(plain, os.X_OK) else f"{plain} is not executable: chmod +x {plain}")


def measure(program: Program, wish: Wish, say: Callable[[str], None]) -> dict[str, Any]:
    """Measures the forms of a program, and returns the program's entry for the results."""
    forms = {form: Form(words) for form in (PLAIN, *wish.forms) if (words := command_of(program, form, wish)) is not None}
    began = time.monotonic()
    # The forms take turns, so that no form has better conditions than the others.
    for turn in range(wish.runs):
        if turn >= 2 and time.monotonic() - began > wish.enough_s:
            break
        for name, form in forms.items():
            if form.ended and form.ended[-1].code is None:
                continue  # it would only be killed again
            say(f"{program.name}: {name}, run {turn + 1} of {wish.runs}")
            with _scratch(program, wish) as folder:
                ended = execute(form.words, Path(folder), wish.timeout_s)
                form.ended.append(ended)
                form.left.append(take(program, ended.stdout, Path(folder)))
    entry = {name: _told(program, form, forms[PLAIN]) for name, form in forms.items()}
    for name, form in forms.items():
        if name in BASELINE and form.ended[-1].code is not None:
            say(f"{program.name}: {name}, with the heap's own report")
            with _scratch(program, wish) as folder:
                entry[name]["heap"] = heap_report(execute(form.words, Path(folder), wish.timeout_s, {"GPUHEAP_STATS": "1"}).stderr)
    return entry


def _told(program: Program, form: Form, plain: Form) -> dict[str, Any]:
    told: dict[str, Any] = {"runs": len(form.ended), "output": verdict(form, plain, program.near)}
    right = [ended for ended in form.ended if ended.code == 0]
    if right:
        told["seconds"] = statistics.median(ended.seconds for ended in right)
        kernels = [kernel_milliseconds(program, ended.stdout.decode("latin-1") + ended.stderr) for ended in right]
        printed = [milliseconds for milliseconds in kernels if milliseconds is not None]
        if printed:
            told["kernel_ms"] = statistics.median(printed)
    told["all_seconds"] = [round(ended.seconds, 4) for ended in form.ended]
    if program.check is not None:
        told["check"] = all(program.check.search(ended.stdout.decode("latin-1") + ended.stderr) is not None for ended in form.ended)
    # The last line of a run's output, of a failed run if there is one.
    said = [ended.stderr.strip() or ended.stdout.decode("latin-1").strip() for ended in sorted(form.ended, key=lambda ended: ended.code == 0)]
    if said and said[0]:
        told["said"] = said[0].splitlines()[-1][:200]
    return told


def verdict(form: Form, plain: Form, near: float) -> str:
    """The failure of a run if one failed; `varies` if the plain program's own runs differ; else the difference, or `equal` with the tolerance if any."""
    for ended in form.ended:
        if ended.code is None:
            return f"not finished in {ended.seconds:.0f} s"
        if ended.code != 0:
            return exit_words(ended)
    if plain.ended[0].code != 0:
        return "the plain program does not end well"
    if any(difference(plain.left[0], left, near) for left in plain.left[1:]):
        return "varies"
    equal = f"equal within {near:g}" if near > 0 else "equal"
    return next((found for left in form.left if (found := difference(plain.left[0], left, near))), equal)


def exit_words(ended: Ended) -> str:
    """The way in which a failed program ended, as text."""
    code = ended.code or 0
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def sanitize(program: Program, wish: Wish, sanitizer: Sanitizer, entry: dict[str, Any], say: Callable[[str], None]) -> None:
    """Adds memcheck's findings to each form of an entry. A served form also gets the findings that its reference form does not have.

    If the reference form's findings are not known, the served form gets all of its own.
    """
    asked = sanitizer.forms or tuple(dict.fromkeys((PLAIN, *wish.forms)))
    for name in asked:
        words = command_of(program, name, wish)
        if words is None:
            continue
        told = entry.setdefault(name, {})
        for key in [key for key in told if key.startswith(MEMCHECK)]:
            del told[key]
        if PLAIN in asked and name != PLAIN and entry[PLAIN].get(MEMCHECK, []) is None:
            told[MEMCHECK] = None  # the plain program took longer than its limit, and a served program is not given that time again
            continue
        say(f"{program.name}: {name}, {sanitizer.command[0]}")
        with _scratch(program, wish) as folder:
            log = Path(folder) / "sanitizer.log"
            options = ("--tool", "memcheck", "--target-processes", "all", "--log-file", str(log))
            ended = execute((*sanitizer.command, *options, *words), Path(folder), sanitizer.timeout_s)
            text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        if sanitizer.logs is not None:
            sanitizer.logs.mkdir(parents=True, exist_ok=True)
            (sanitizer.logs / f"{program.name}.{name}.log").write_text(
                f"{text}\n{ended.stdout.decode('latin-1')[-LOGGED:]}\n{ended.stderr[-LOGGED:]}\n", encoding="utf-8"
            )
        told[MEMCHECK] = found = findings(text) if ended.code is not None else None
        told["memcheck_exit"], told["memcheck_seconds"], told["memcheck_errors"] = ended.code, round(ended.seconds, 1), error_count(text)
        if sanitizer.part:
            told["memcheck_part"] = sanitizer.part
        if name in BASELINE and found is not None:
            base = entry.get(BASELINE[name], {}).get(MEMCHECK, entry.get(PLAIN, {}).get(MEMCHECK))
            told["memcheck_new"] = new_findings(base or [], found)


def _scratch(program: Program, wish: Wish) -> tempfile.TemporaryDirectory[str]:
    """A folder for a program's run, with only its input files."""
    folder = tempfile.TemporaryDirectory(prefix="gpuheap-unchanged-", ignore_cleanup_errors=True)
    for name in program.inputs:
        shutil.copy(wish.folder / "data" / name, Path(folder.name) / name)
    return folder


def execute(words: Sequence[str], folder: Path, timeout_s: float, variables: Mapping[str, str] | None = None) -> Ended:
    """Runs a command in a folder, with `variables` in addition to this process's environment.

    When the time is up, or if this process is interrupted, the command is ended with all processes that it started.
    """
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            list(words),
            cwd=folder,
            env={**_environment(), **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(f"'{shlex.join(words)}' does not start: {error.strerror}") from None
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        stdout, stderr = _kill(process)
        code = None
    except BaseException:
        _kill(process)
        raise
    return Ended(code, stdout, stderr.decode("utf-8", errors="replace"), time.monotonic() - began)


def _kill(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Kills the process group, and returns the output so far. The wait is limited, because a child that left the group may keep the pipes open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=_GRACE_S)
    except subprocess.TimeoutExpired as late:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.poll()
        return late.stdout or b"", late.stderr or b""


def from_anywhere(words: Sequence[str]) -> tuple[str, ...]:
    """The command with absolute paths, so that it means the same in every folder."""
    return tuple(os.path.abspath(word) if "/" in word and os.path.exists(word) else word for word in words)


def _environment() -> dict[str, str]:
    """The caller's environment, with absolute paths of files."""
    found = dict(os.environ)
    for name in _PATHS & found.keys():
        if found[name]:
            found[name] = os.path.abspath(found[name])
    for name in _PATH_LISTS & found.keys():
        if found[name]:
            found[name] = os.pathsep.join(path if path.startswith("$") else os.path.abspath(path) for path in found[name].split(os.pathsep))
    return found
