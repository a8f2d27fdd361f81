"""Programs of all kinds link with libgpuheap_malloc.a and get their device malloc from it: read from what was linked, without a GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from build_tree import ROOT, SERVED, options_file, run, tool
from device_code import Cubin

MAIN = """
#include <cstdio>
#include <cstdlib>
#include <new>
__global__ void ask(void** p) { p[0] = malloc(7); free(p[1]); p[2] = new int; delete[] static_cast<char*>(p[3]); p[5] = ::new (p[4]) int(3); }
void other(void** p);
int main(int count, char**) {
  void* host = std::malloc(100);
  if (count > 99) ask<<<1, 1>>>(static_cast<void**>(host));
  if (count > 99) other(static_cast<void**>(host));
  std::free(host);
  std::puts("host");
  return 7;
}
"""
OTHER = """
struct alignas(128) wide { int v[32]; };
__global__ void ask_too(void** p) { p[0] = new wide; p[1] = new wide[3]; delete static_cast<wide*>(p[2]); }
void other(void** p) { ask_too<<<1, 1>>>(p); }
"""


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("objects")
    made = []
    for name, text in (("main", MAIN), ("other", OTHER)):
        (folder / f"{name}.cu").write_text(text)
        run(
            tool("nvcc"),
            "-rdc=true",
            "-c",
            "-arch=sm_90",
            folder / f"{name}.cu",
            "-o",
            folder / f"{name}.o",
        )
        made.append(folder / f"{name}.o")
    return made


def device_code(program: Path) -> Cubin:
    """The machine code of the program that has the kernel `ask`."""
    data = program.read_bytes()
    found = []
    for match in re.finditer(rb"\x7fELF\x02\x01", data):
        if data[match.start() + 18 : match.start() + 20] == b"\xbe\x00":
            try:
                found.append(Cubin(data[match.start() :]))
            except (ValueError, IndexError, StopIteration):
                continue
    # Of relocatable code there is what the compiler made, and what nvlink made of it: that is larger.
    return max((c for c in found if any("ask" in name for name in c.functions())), key=lambda c: len(c.symbols))


def check(program: Path) -> None:
    cubin = device_code(program)
    assert cubin.undefined() == []
    assert set(SERVED) <= set(cubin.functions())
    # The program runs: its host malloc, output and exit code are its own.
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "host\n", "")
    # The launches go through the library.
    if nm := shutil.which("nm"):
        names = subprocess.run([nm, program], capture_output=True, text=True, check=True).stdout
        assert "__wrap___cudaLaunchKernel" in names


@pytest.mark.parametrize("runtime", ["static", "shared"])
@pytest.mark.parametrize("order", ["first", "last"])
def test_a_program_links(objects: list[Path], tmp_path: Path, runtime: str, order: str) -> None:
    options: list[str | Path] = ["--options-file", options_file()]
    parts = [*options, *objects] if order == "first" else [*objects, *options]
    program = tmp_path / "program"
    # Code that is not compressed can be read here.
    run(
        tool("nvcc"),
        "-no-compress",
        "-rdc=true",
        "-arch=sm_90",
        "-cudart",
        runtime,
        *parts,
        "-o",
        program,
    )
    check(program)


def test_the_pages_say_what_calls_cost(tmp_path: Path) -> None:
    (tmp_path / "calls.cu").write_text(
        "__global__ void asks(void** p) { p[0] = malloc(7); }\n"
        "__global__ void frees(void** p) { free(p[1]); }\n"
        "int main() { asks<<<1, 1>>>(nullptr); frees<<<1, 1>>>(nullptr); }\n"
    )
    flags = ("-rdc=true", "-arch=sm_90", "-Xnvlink", "-v", "--options-file", options_file())
    told = run(tool("nvcc"), *flags, tmp_path / "calls.cu", "-o", tmp_path / "calls")
    found = dict(re.findall(r"'_Z\d+(asks|frees)PPv':\n.*?(used \d+ registers.*? \d+ stack)", told.stdout + told.stderr))
    registers, stack = ({name: int(re.findall(r"\d+", text)[at]) for name, text in found.items()} for at in (0, -1))
    assert registers == {"asks": 32, "frees": 32}
    for page, pattern in (
        ("docs/unchanged.md", r"up to (\d+) bytes for `malloc`, (\d+) for `free`"),
        ("README.md", r"at most 32 registers, and need up to (\d+) bytes of stack"),
        ("docs/limits.md", r"no register above R31; up to (\d+) bytes of stack"),
    ):
        said = re.search(pattern, (ROOT / page).read_text())
        assert said, f"{page} does not say this any more: {pattern}"
        assert [int(number) for number in said.groups()] == [stack["asks"], stack["frees"]][: len(said.groups())]


def test_a_program_of_ptx_alone_links(objects: list[Path], tmp_path: Path) -> None:
    program = tmp_path / "program"
    (tmp_path / "main.cu").write_text(MAIN)
    (tmp_path / "other.cu").write_text(OTHER)
    flags = ("-no-compress", "-rdc=true", "-gencode", "arch=compute_75,code=compute_75")
    done = subprocess.run(
        [
            tool("nvcc"),
            *flags,
            tmp_path / "main.cu",
            tmp_path / "other.cu",
            "--options-file",
            options_file(),
            "-o",
            program,
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "host\n", "")


def test_a_program_without_relocatable_code_is_served_by_nothing(
    tmp_path: Path,
) -> None:
    """Without -rdc=true the device code is finished before the library is seen: the program links, and is as it was."""
    (tmp_path / "program.cu").write_text(MAIN.replace("void other(void** p);", "void other(void**) {}"))
    program = tmp_path / "program"
    run(
        tool("nvcc"),
        "-no-compress",
        "-arch=sm_90",
        tmp_path / "program.cu",
        "--options-file",
        options_file(),
        "-o",
        program,
    )
    assert not set(SERVED) & set(device_code(program).functions())
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "host\n")


DRIVER = """
#include <cuda.h>
__global__ void ask(void** p) { p[0] = malloc(7); }
// Of the driver it calls what the library stands before, and nothing else.
int main(int count, char** words) {
  if (count > 99) ask<<<1, 1>>>(reinterpret_cast<void**>(words));
  return cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS ? 1 : 0;
}
"""


def test_a_program_that_only_launches_by_the_driver_reaches_it(tmp_path: Path) -> None:
    """The linker keeps no shared library for weak references alone: the driver's function is looked up at run time then."""
    (tmp_path / "driver.cu").write_text(DRIVER)
    program = tmp_path / "driver"
    run(tool("nvcc"), "-rdc=true", "-arch=sm_90", tmp_path / "driver.cu", "-Xlinker", "--as-needed", "-lcuda", "--options-file", options_file(), "-o", program)
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
