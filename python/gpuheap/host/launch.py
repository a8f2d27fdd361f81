"""Runs a program with gpuheap's library preloaded."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from gpuheap.errors import UserError
from gpuheap.files import make_folder, naming
from gpuheap.host.variables import preloaded
from gpuheap.paths import Layout
from gpuheap.running.process import answering

LIBRARY = "libgpuheap_host.so"
BESIDE_TRACES = ("report.html", "pools.plan")  # files that gpuheap's commands write into a folder of traces
MERGING_LIBRARY = "libgpuheap_host_merging.so"
_ELF_64, _X86_64 = 2, 62
_PT_INTERP, _PT_NOTE, _NT_GNU_BUILD_ID = 3, 4, 3


@dataclass(frozen=True)
class Program:
    """The program file that a command runs: that of its first word or, for a script, the interpreter."""

    path: Path
    name: str  # the name of the file
    build_id: str


def find_library(layout: Layout) -> Path:
    named = os.environ.get("GPUHEAP_HOST_LIBRARY")
    if named:
        if not Path(named).is_file():
            raise UserError(f"GPUHEAP_HOST_LIBRARY is '{named}', which is not a file: name {LIBRARY}, or unset it")
        return Path(named).resolve()
    places = [layout.build / preset / "tools" / "host" / LIBRARY for preset in ("cuda", "host")]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        build = "cmake --preset cuda -DGPUHEAP_BUILD_TESTS=OFF && cmake --build --preset cuda --target gpuheap_host"
        raise UserError(f"{LIBRARY} is not built: run {build} in {layout.root} (./demo puts cmake into build/venv/bin)")
    return found


def find_merging_library(layout: Layout) -> Path:
    """The library that also replaces malloc, for runs that merge host buffers with device buffers. Raises UserError if it is not built."""
    found = find_library(layout).with_name(MERGING_LIBRARY)
    if not found.is_file():
        raise UserError(f"{MERGING_LIBRARY} is not built beside {LIBRARY}: run cmake --build --preset cuda --target gpuheap_host_merging in {layout.root}")
    return found


def find_program(words: Sequence[str]) -> Program:
    """Finds the program file of a command. Raises UserError if there is none, and with E12 if no library can be preloaded into it."""
    if not words:
        raise UserError("name the program to run: gpuheap host ... -- program arguments")
    found = shutil.which(words[0])
    if found is None:
        raise UserError(f"'{words[0]}' is not a program that can be run: give its path, or a name that PATH finds")
    path = Path(found).resolve()
    for _ in range(8):  # an interpreter may be a script itself
        if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            raise UserError(f"E12: {path} runs with another user's or group's rights, and the system ignores LD_PRELOAD for it: run a copy without that bit")
        with path.open("rb") as file:
            head = file.read(256)
        if not head.startswith(b"#!"):
            break
        line = head[2:].split(b"\n")[0].decode(errors="replace").split()
        word = next((w for w in line[1:] if not w.startswith("-")), line[0]) if line and Path(line[0]).name == "env" else line[0] if line else ""
        interpreter = shutil.which(word)
        if interpreter is None:
            raise UserError(f"{path} asks for the interpreter '{word}', which is not there: install it")
        path = Path(interpreter).resolve()
    return Program(path, path.name, _check_elf(path))


def _check_elf(path: Path) -> str:
    """The build id of an ELF program; "" if it has none. Raises UserError (E12) if no library can be preloaded into it."""
    with path.open("rb") as file:
        head = file.read(64)
        if not head.startswith(b"\x7fELF") or len(head) < 64:
            raise UserError(f"E12: {path} is neither an ELF program nor a script: no library can be loaded before it")
        if head[4] != _ELF_64 or struct.unpack_from("<H", head, 18)[0] != _X86_64:
            raise UserError(f"E12: {path} is not a 64-bit x86 program: the library is one, and cannot be loaded before it")
        table, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        dynamic, build_id = False, ""
        for number in range(count):
            file.seek(table + number * size)
            entry = file.read(size)
            if len(entry) < struct.calcsize("<IIQQQQ"):
                raise UserError(f"E12: {path} is cut short: build the program again")
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", entry)
            dynamic = dynamic or kind == _PT_INTERP
            if kind == _PT_NOTE and not build_id:
                file.seek(offset)
                build_id = _build_id(file.read(min(length, 65536)))
    if not dynamic:
        raise UserError(
            f"E12: {path} is linked statically, C library included, and no library can be loaded before it: link it without -static "
            "(the CUDA runtime may stay static)"
        )
    return build_id


def _build_id(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_bytes, data_bytes, kind = struct.unpack_from("<III", notes, at)
        data = at + 12 + -(-name_bytes // 4) * 4
        if kind == _NT_GNU_BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[data : data + data_bytes].hex()
        at = data + -(-data_bytes // 4) * 4
    return ""


def prepare_folder(folder: Path) -> Path:
    """Makes an empty folder for traces. A folder that holds only traces and their reports is emptied. Raises UserError for one with other files."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder for the trace with -o")
    if folder.is_dir():
        with naming(folder, "emptied", "name another folder with -o"):
            entries = list(folder.iterdir())
            others = [entry.name for entry in entries if entry.is_dir() or entry.suffix != ".trace" and entry.name not in BESIDE_TRACES]
            if others:
                raise UserError(f"{folder} holds other files ('{others[0]}'): name an empty folder for the trace with -o")
            for entry in entries:
                entry.unlink()
    return make_folder(folder, "name another folder with -o").resolve()


def run(words: Sequence[str], library: Path, variables: Mapping[str, str]) -> int:
    """Runs the program to its end. Returns its exit code, or 128 plus the number of the signal that ended it.

    The program decides how it answers Ctrl-C, SIGTERM and SIGHUP. This process passes the last two on; a terminal sends Ctrl-C to the program itself.
    """
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if process is None:
            early.append(number)
        elif number != signal.SIGINT:
            process.send_signal(number)

    environment = preloaded(library, variables)
    with answering(pass_on):
        try:
            process = subprocess.Popen(list(words), env=environment)
        except OSError as error:
            raise UserError(f"{words[0]}: {error.strerror}") from None
        for number in early:
            process.send_signal(number)
        code = process.wait()
    return code if code >= 0 else 128 - code


def profiler_note() -> str | None:
    """A note (E13) if the environment injects a profiler, which would count the calls of pools as the program's; else None."""
    name = os.environ.get("CUDA_INJECTION64_PATH")
    if not name:
        return None
    return f"E13: CUDA_INJECTION64_PATH injects {name} into the same process: it sees the calls that pools make; unset it for counts of the program alone"
