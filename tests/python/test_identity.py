"""The identity of a build: equal wherever equal sources are built with equal flags and compilers, and another one after any change."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_checkout import REPOSITORY

CMAKE = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))


def checkout(folder: Path) -> Path:
    for name, text in {"include/a.hpp": "int a;", "include/deep/b.hpp": "int b;", "code/c.cpp": "int c;", "docs/d.hpp": "int d;"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    template = "benchmarks/harness/build_identity.hpp.in"
    (folder / template).parent.mkdir(parents=True)
    shutil.copy(REPOSITORY / template, folder / template)
    return folder


def identity(root: Path, flags: str = "-O3") -> str:
    out = root / "build_identity.hpp.out"
    script = REPOSITORY / "cmake" / "build_identity.cmake"
    words = [f"-DROOT={root}", "-DFOLDERS=include code", f"-DBUILT_WITH={flags}", f"-DOUT={out}", "-P", str(script)]
    subprocess.run([str(CMAKE), *words], check=True, capture_output=True)
    found = re.search(r'build_identity = "([0-9a-f]{16})"', out.read_text())
    assert found is not None
    return found[1]


@pytest.mark.skipif(CMAKE is None, reason="the identity of a build: no CMake: run ./test, which sets it up")
def test_the_identity_is_of_sources_flags_and_compilers(tmp_path: Path) -> None:
    one, two = checkout(tmp_path / "one"), checkout(tmp_path / "two")
    first = identity(one)
    assert identity(two) == first, "elsewhere"
    written = (one / "build_identity.hpp.out").stat().st_mtime_ns
    assert identity(one) == first
    assert (one / "build_identity.hpp.out").stat().st_mtime_ns == written, "what did not change is compiled again"
    assert identity(one, "-O3 -maxrregcount=40") != first
    (two / "docs" / "d.hpp").write_text("int other;")
    assert identity(two) == first, "what is not built counts"
    (two / "include" / "deep" / "b.hpp").write_text("int b ;")
    changed = identity(two)
    assert changed != first
    (two / "include" / "deep" / "b.hpp").rename(two / "include" / "b.hpp")
    assert identity(two) not in (first, changed)
