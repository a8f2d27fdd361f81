"""Allocators from outside the repository: a header and a class, built with the benchmark and with the conformance suite."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.files import check_file, make_folder, replace_file
from gpuheap.paths import PRESETS, Layout
from gpuheap.running.executable import Executable, describe, last_line
from gpuheap.toolkit import find_nvcc, gpu_names

# The forms of an error message: that of g++ and clang, and that of nvcc.
_COMPLAINTS = (
    re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<words>.*)$"),
    re.compile(r"^(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: (?P<words>.*)$"),
)


@dataclass(frozen=True)
class Outside:
    """An allocator that the command line names by its header and its type."""

    header: Path
    type: str

    @property
    def key(self) -> str:
        """The type's name as an identifier, for targets, files and tests."""
        return re.sub(r"[^A-Za-z0-9]+", "_", self.type).strip("_")


def read_outside(header: Path | None, type_name: str | None) -> Outside | None:
    """Reads --allocator-header and --type; None if neither is given. Raises UserError if only one is given, or if one is wrong."""
    if header is None and type_name is None:
        return None
    if header is None:
        raise UserError("--type names a class: name the header that defines it with --allocator-header")
    if type_name is None:
        raise UserError("--allocator-header names a file: name the class in it with --type, as my::alloc")
    check_file(header, "--allocator-header", "the header that defines the allocator")
    if not re.fullmatch(r"(::)?[A-Za-z_]\w*(::[A-Za-z_]\w*)*(<[^;\"]*>)?", type_name.strip()):
        raise UserError(f"--type: '{type_name}' is not the name of a class: write it as my::alloc or my::alloc<64>")
    if set(str(header.resolve())) & set('<>;"\n'):
        raise UserError(f"--allocator-header: '{header}': a path with one of < > ; \" cannot be included")
    return Outside(header.resolve(), type_name.strip())


def likely_backend() -> str:
    """The backend for a machine on which nothing is built yet."""
    return "cuda" if find_nvcc() is not None and gpu_names() else "simulator"


def build_benchmark(layout: Layout, outside: Outside, backend: str, say: Callable[[str], None]) -> Executable:
    """Builds the benchmark executable with this allocator only. Raises UserError with the compiler's message if the allocator does not compile."""
    path = _built(layout, outside, backend, "bench", "gpuheap-bench", say)
    description = describe(path)
    if len(description.allocators) != 1:
        raise UserError(f"{outside.type} of {outside.header}: its traits say that it is a baseline, and only an allocator can be measured here")
    return Executable(path, description, f"built with {layout.shown(outside.header)}")


def build_conformance(layout: Layout, outside: Outside, backend: str, say: Callable[[str], None]) -> Path:
    """Builds the conformance suite with this allocator only. Raises UserError as build_benchmark() does."""
    return _built(layout, outside, backend, "conformance", "conformance", say)


def _built(layout: Layout, outside: Outside, backend: str, what: str, name: str, say: Callable[[str], None]) -> Path:
    if not (layout.root / "CMakeLists.txt").is_file():
        raise UserError(f"{layout.root} holds no CMakeLists.txt: an allocator is built in a checkout of the repository")
    build = layout.build / PRESETS[backend]
    tools = _Tools(layout, backend, outside, build)
    with _only_builder(build / "outside"):
        asked = f'gpuheap_outside_allocator(KEY {outside.key} TYPE "{outside.type}" HEADER "{outside.header}")\n'
        file = build / "outside" / f"{outside.key}.cmake"
        if not file.is_file() or file.read_text(encoding="utf-8", errors="replace") != asked or not (build / "build.ninja").is_file():
            say(f"setting up {layout.shown(build)} for {outside.type}")
            replace_file(file, asked)
            tools.configure()
        say(f"compiling {outside.type} of {layout.shown(outside.header)} for {backend}")
        # The header is compiled alone first, so that its errors show within seconds, without errors elsewhere that follow from them.
        tools.build("check")
        tools.build(what)
    return build / "outside" / outside.key / PRESETS[backend] / name


class _Tools:
    """Runs CMake in the build folder of a backend."""

    def __init__(self, layout: Layout, backend: str, outside: Outside, build: Path) -> None:
        self._layout, self._backend, self._outside, self._folder = layout, backend, outside, build
        own = layout.build / "venv" / "bin"
        self._variables = {**os.environ, "PATH": f"{own}{os.pathsep}{os.environ.get('PATH', '')}"}
        deps = layout.build / "deps" / "usr"
        if deps.is_dir():
            self._variables["CMAKE_PREFIX_PATH"] = str(deps)
        found = shutil.which("cmake", path=self._variables["PATH"])
        if found is None:
            raise UserError("no cmake found: run ./demo once, which puts one into build/venv, or pip install cmake")
        self._cmake = found

    def configure(self) -> None:
        fresh = not (self._folder / "CMakeCache.txt").is_file()
        # A folder that is configured already keeps its settings.
        options = ["--preset", PRESETS[self._backend], "-DGPUHEAP_BUILD_TESTS=OFF", "-DGPUHEAP_BUILD_EXAMPLES=OFF", "-DGPUHEAP_ENABLE_OPENCL=OFF"]
        code, said = self._run(options if fresh else ["-S", str(self._layout.root), "-B", str(self._folder)])
        if code != 0:
            error = re.search(r"CMake Error[^\n]*\n\s+(.*?)\n\n", said + "\n\n", re.DOTALL)
            words = " ".join(error[1].split()) if error else last_line(said)
            raise UserError(f"cannot set up {self._layout.shown(self._folder)}: {words} (full log: {self._log_shown})")

    def build(self, what: str) -> None:
        target = f"gpuheap_outside_{what}_{self._outside.key}_{PRESETS[self._backend]}"
        code, said = self._run(["--build", str(self._folder), "--target", target])
        if code == 0:
            return
        if f"unknown target '{target}'" in said:
            raise UserError("the conformance suite needs GoogleTest: apt-get install libgtest-dev, or run ./test once, which sets it up")
        raise UserError(f"{self._complaint(said)} (full log: {self._log_shown})")

    def _complaint(self, said: str) -> str:
        """The most telling error with its place, and the number of further errors."""
        found = [match for line in said.splitlines() for form in _COMPLAINTS if (match := form.match(line.strip())) is not None]
        if not found:
            return f"{self._outside.type} of {self._outside.header} does not build for {self._backend}: {last_line(said)}"
        # An error in the header is shown first, because errors elsewhere may follow from it.
        first = next((match for match in found if Path(match["file"]) == self._outside.header), found[0])
        more = len({(match["file"], match["line"], match["words"]) for match in found}) - 1
        others = f", and {more} more error{'' if more == 1 else 's'}" if more else ""
        place = f"{first['file']}:{first['line']}: " if Path(first["file"]) == self._outside.header else f"--type {self._outside.type}: "
        return f"{place}{first['words'].strip()}{others}, as the compiler for {self._backend} says"

    @property
    def _log(self) -> Path:
        return self._layout.build / "logs" / f"outside-{self._outside.key}-{self._backend}.log"

    @property
    def _log_shown(self) -> str:
        return self._layout.shown(self._log)

    def _run(self, arguments: list[str]) -> tuple[int, str]:
        """Runs CMake. Ctrl-C also reaches CMake and the processes that it started."""
        try:
            child = subprocess.Popen(
                [self._cmake, *arguments],
                cwd=self._layout.root,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise UserError(f"{self._cmake} cannot be run: {error.strerror}") from None
        try:
            said, _ = child.communicate()
        except BaseException:
            child.terminate()
            child.wait()
            raise
        replace_file(self._log, said)
        return child.returncode, said


@contextmanager
def _only_builder(folder: Path) -> Iterator[None]:
    """Waits until no other command builds in the folder."""
    make_folder(folder, "use a checkout that can be written: the allocator is built there")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
