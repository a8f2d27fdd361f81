"""The wheel, installed into a fresh environment outside of the checkout: heaps and the light commands need no other package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from extent import ARCHITECTURES

PROGRAM_FUNCTIONS = tuple(
    f"gpuheap_v1_{name}" for name in ("malloc_program", "free_program", "open_slots", "close_slots", "malloc_slot", "free_slot", "read_slot")
)


@pytest.fixture(scope="session")
def installed(wheel_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel alone."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (wheel,) = (wheel_build / "dist").glob("*.whl")
    (site,) = folder.glob("lib/python3*/site-packages")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True)
    return folder / "bin" / "python"


def run(python: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GPUHEAP"))}
    return subprocess.run([str(python), *words], cwd=python.parents[1], env=environment, capture_output=True, text=True, check=False)


def answer(python: Path, code: str) -> str:
    ran = run(python, "-c", code)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_wheel_is_small_and_of_an_old_platform(wheel_build: Path) -> None:
    (wheel,) = (wheel_build / "dist").glob("*.whl")
    assert wheel.stat().st_size < 8 << 20
    named = re.fullmatch(r"gpuheap-[\d.]+-py3-none-manylinux_2_(\d+)_x86_64\.whl", wheel.name)
    assert named and int(named[1]) <= 28  # RHEL 8, the oldest system that CUDA 13 is for


def test_files_are_where_it_says(installed: Path) -> None:
    code = "import gpuheap as g; print(g.__file__, g.include_path(), g.cmake_path(), g.device_code('fatbin', 90), g.device_code('lto'), sep='\\n')"
    module, include, cmake, *device = map(Path, answer(installed, code).splitlines())
    assert installed.parents[1] in module.parents
    assert all((include / name).is_file() for name in ("gpuheap.h", "gpuheap_device.h", "gpuheap/heap.hpp"))
    assert (cmake / "gpuheap-config.cmake").is_file() and all(file.stat().st_size > 100_000 for file in device)


def test_triton_gets_bitcode(installed: Path, wheel_build: Path) -> None:
    """Triton's linker takes LLVM's form, whose table of names holds them as they are."""
    if "GPUHEAP_DEVICE_CLANG:FILEPATH=GPUHEAP_DEVICE_CLANG-NOTFOUND" in (wheel_build / "CMakeCache.txt").read_text():
        pytest.skip("device code for Triton: needs clang 19 or newer: sudo apt-get install clang-19")
    code = Path(answer(installed, "import gpuheap; print(gpuheap.device_code('bitcode'))")).read_bytes()
    assert code.startswith(b"BC\xc0\xde")
    assert [name for name in PROGRAM_FUNCTIONS if name.encode() not in code] == []


def test_import_reads_nothing_heavy(installed: Path) -> None:
    loaded = answer(installed, "import sys, gpuheap; print([m for m in sys.modules if m in ('numpy', 'ctypes', 'typer', 'numba')])")
    assert loaded == "[]"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("Heap()", "a heap is made from one of size, growth and buffer, and none was given"),
        ("Heap('1 GiB', buffer=(0, 0))", "and size and buffer were given"),
        ("Heap('many')", "size: 'many' is not a size"),
        ("Heap('1 GiB', memory='host')", "memory='host' was asked for: the kinds of memory are device, managed, pinned"),
        (
            "Heap('1 GiB', allocator='gallatin')",
            "allocator='gallatin' was asked for: kernels written in Python can have sharded_spans, checked, hardened",
        ),
        ("Heap(growth=gpuheap.Growth('1 GiB', '2 GiB'), allocator='checked')", "a checked heap does not grow: give it a size"),
        ("Heap('1 GiB', device='cuda:0')", "device='cuda:0' was asked for: give the number of a GPU"),
        ("Heap('1 GiB', device=-1)", "device=-1 was asked for"),
        ("Heap(buffer=[1])", "a list was given as device memory"),
        ("device_code('elf')", "the kind 'elf' was asked for: the kinds are fatbin, lto, bitcode"),
        ("device_code('fatbin', 70)", "device code for sm_70 was asked for: the oldest is sm_75"),
    ],
)
def test_mistakes_are_told_in_a_line(installed: Path, call: str, text: str) -> None:
    told = answer(installed, f"import gpuheap\ntry:\n  gpuheap.{call}\nexcept gpuheap.HeapError as error: print(error)")
    assert text in told and "\n" not in told


def test_light_commands(installed: Path) -> None:
    doctor = run(installed, "-m", "gpuheap", "doctor")
    assert doctor.returncode in (0, 1) and re.search(r"^ok +library +.*libgpuheap\.so, version [\d.]+$", doctor.stdout, re.MULTILINE), doctor.stdout
    assert re.search(r"^missing +numba +.*pip install", doctor.stdout, re.MULTILINE)
    for words, text in ((("run", "/absent"), "/absent"), (("bench",), r"invalid choice: 'bench'.*PATH\[bench\]"), ((), r"required: COMMAND")):
        ran = run(installed, "-m", "gpuheap", *words)
        assert ran.returncode == 2 and re.search(text, ran.stderr) and len(ran.stderr.splitlines()) == 1, ran.stderr


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_programs_compile_and_link(installed: Path, arch: int) -> None:
    code = f"""
import os; os.environ["XDG_CACHE_HOME"] = os.getcwd()
from gpuheap.heaps.compiler import compile_and_link
source = '''#include <gpuheap_device.h>
template <class T> __global__ void k(gpuheap_handle heap, void** out) {{ *out = gpuheap_malloc(heap, sizeof(T)); gpuheap_free(heap, *out); }}'''
first = compile_and_link(source, {arch}, (), ("k<float>",))
assert first == compile_and_link(source, {arch}, (), ("k<float>",))  # from disk
open("linked.cubin", "wb").write(first[0])
print(first[1]["k<float>"])
"""
    symbol = answer(installed, code)
    listed = subprocess.run(["readelf", "-sW", str(installed.parents[1] / "linked.cubin")], capture_output=True, text=True, check=True).stdout
    assert symbol in listed and not re.search(r"UND gpuheap_v\d_", listed)


def test_sources_are_its_own(installed: Path) -> None:
    """Not those of a folder with the same names in which Python runs."""
    decoy = installed.parents[1] / "capi"
    decoy.mkdir()
    (decoy / "view.hpp").write_text("#error of another folder")
    code = "import os; os.environ['XDG_CACHE_HOME'] = os.getcwd()\nfrom gpuheap.heaps.compiler import malloc_part; print(malloc_part(90)[:4])"
    assert answer(installed, code) == r"b'\x7fELF'"


def test_what_the_compiler_refuses_is_told(installed: Path) -> None:
    code = "from gpuheap.heaps.compiler import *\ntry:\n  compile_and_link('int x = ;', 90)\nexcept CompileError as error: print(error)"
    assert "kernels.cu(1): error" in answer(installed, code)


def test_the_c_library_serves_a_c_program(wheel_build: Path, tmp_path: Path) -> None:
    """Without a GPU the library says that there is none, with a status and a text; with one it makes a heap."""
    source = tmp_path / "program.c"
    source.write_text(r"""
#include <gpuheap.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  gpuheap_options options = {0};
  gpuheap_heap* heap = (gpuheap_heap*)&options;
  gpuheap_status status = gpuheap_create(&heap, &options);
  if (status != GPUHEAP_INVALID_ARGUMENT || heap != NULL || strstr(gpuheap_last_error(), "struct_bytes is 0") == NULL) return 1;
  options.struct_bytes = sizeof options;
  options.bytes = 64 << 20;
  options.device = GPUHEAP_CURRENT_DEVICE;
  status = gpuheap_create(&heap, &options);
  printf("%d %s: %s\n", status, gpuheap_status_text(status), gpuheap_last_error());
  if (status == GPUHEAP_SUCCESS) {
    gpuheap_stats stats = {0};
    stats.struct_bytes = sizeof stats;
    if (gpuheap_get_stats(heap, &stats, NULL) != GPUHEAP_SUCCESS || stats.heap_bytes != options.bytes || gpuheap_get_handle(heap) == NULL) return 2;
    if (gpuheap_check(heap, NULL) != GPUHEAP_SUCCESS) return 3;
    gpuheap_destroy(heap);
    return 0;
  }
  gpuheap_destroy(NULL);
  return status == GPUHEAP_CUDA_ERROR && strlen(gpuheap_last_error()) > 10 && heap == NULL ? 0 : 4;
}
""")
    root = Path(__file__).resolve().parents[2]
    program = tmp_path / "program"
    library = wheel_build / "capi"
    link = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{root / 'include'}", str(source), "-o", str(program), f"-L{library}", "-lgpuheap"]
    subprocess.run([*link, f"-Wl,-rpath,{library}"], check=True)
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.returncode} {ran.stdout}"


@pytest.mark.parametrize(("example", "common"), [("csv_fields_cupy", "READER"), ("kmers_cupy", "KMER")])
def test_examples_for_cupy_compile_and_link(installed: Path, example: str, common: str) -> None:
    file = Path(__file__).resolve().parents[2] / "examples" / "python" / f"{example}.py"
    code = f"""
import ast, os; os.environ["XDG_CACHE_HOME"] = os.getcwd()
from gpuheap.heaps.compiler import compile_and_link
lines = [line for line in ast.parse(open({str(file)!r}).read()).body if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)]
texts = {{line.targets[0].id: line.value.value for line in lines}}
open("example.cubin", "wb").write(compile_and_link(texts[{common!r}] + texts["ONE_PASS"], 90)[0])
"""
    answer(installed, code)
    listed = subprocess.run(["readelf", "-sW", str(installed.parents[1] / "example.cubin")], capture_output=True, text=True, check=True).stdout
    assert "gpuheap_v1_" in listed and not re.search(r"UND gpuheap_v\d_", listed)
