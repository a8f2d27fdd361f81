"""Links libraries with a new glibc so that they also run with an old one, 2.28 or newer. RHEL 8, the oldest system that CUDA 13 supports, has 2.28.

glibc 2.34 moved the functions of libpthread, libdl and librt into libc, each with a new version. So a library that calls them requires glibc 2.34,
although libc still has the old versions too. Stubs of the three libraries, which have only the old versions, make the linker require these.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

_FUNCTIONS = Path(__file__).resolve().parent / "functions.c"
# The libraries that had functions before glibc 2.34, each with a pattern of the functions' names.
_LIBRARIES = {"libdl.so.2": r"dl(open|mopen|close|error|sym|vsym|addr|addr1|info)$", "libpthread.so.0": r"_*(pthread|sem)_", "librt.so.1": r"(shm|mq|timer)_"}
NEWEST = (2, 28)


def flags(folder: Path) -> list[str]:
    """Makes the stubs and the object in `folder`, and returns the linker's options for a shared library."""
    folder.mkdir(parents=True, exist_ok=True)
    object_file = folder / "functions.o"
    _run("gcc", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-c", _FUNCTIONS, "-o", object_file)
    stubs = [_stub(folder, name, functions) for name, functions in sorted(_moved().items())]
    return ["-Wl,--push-state,--no-as-needed", *map(str, stubs), "-Wl,--pop-state", str(object_file)] if stubs else [str(object_file)]


def newest_version(library: Path) -> tuple[int, ...]:
    """The newest version of glibc that a library requires."""
    listed = _run("objdump", "-T", library)
    return max((tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", listed)), default=(0,))


def _moved() -> dict[str, dict[str, str]]:
    """The functions that this machine's libc has in an old version and in one newer than NEWEST, by library, each with its old version."""
    libc = Path(_run("gcc", "-print-file-name=libc.so.6").strip())
    versions: dict[str, set[str]] = defaultdict(set)
    for line in _run("objdump", "-T", libc).splitlines():
        if found := re.search(r"\(?GLIBC_([\d.]+)\)? +(\w+)$", line):
            versions[found[2]].add(found[1])
    moved: dict[str, dict[str, str]] = defaultdict(dict)
    for function, there in versions.items():
        ordered = sorted(there, key=_numbers)
        old = [version for version in ordered if _numbers(version) <= NEWEST]
        library = next((name for name, pattern in _LIBRARIES.items() if re.match(pattern, function)), None)
        if old and _numbers(ordered[-1]) > NEWEST and library is not None:
            moved[library][function] = old[-1]
    return moved


def _stub(folder: Path, name: str, functions: dict[str, str]) -> Path:
    """Makes a shared library that has only the functions' names and versions."""
    by_version: dict[str, list[str]] = defaultdict(list)
    for function, version in functions.items():
        by_version[version].append(function)
    source, script, stub = folder / f"{name}.c", folder / f"{name}.map", folder / name
    source.write_text("".join(f"void {function}(void) {{}}\n" for function in functions))
    script.write_text("".join(f"GLIBC_{version} {{ global: {'; '.join(names)}; }};\n" for version, names in by_version.items()))
    options = ("-shared", "-nostdlib", "-fPIC", "-fno-builtin", "-w", f"-Wl,-soname,{name}", f"-Wl,--version-script={script}")
    _run("gcc", *options, source, "-o", stub)
    return stub


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _run(*command: str | Path) -> str:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
