"""The tool reads all that nvcc compiles: where nvcc's headers and Clang's differ, the tool follows nvcc."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tool import ROOT, run

KERNEL = "__global__ void k(int n) {\n  void* q = malloc(8);\n  free(q);\n}\n"
MAIN = "int main() {\n  return 0;\n}\n"
TOOLKIT = any(Path(folder, "include", "cuda_runtime.h").is_file() for folder in (os.environ.get("CUDA_PATH", ""), "/usr/local/cuda") if folder)

pytestmark = pytest.mark.skipif(
    not TOOLKIT,
    reason="the rewriter with a toolkit's headers: no CUDA toolkit: install nvcc",
)


@pytest.mark.parametrize(
    "text",
    [
        KERNEL + "int main() { int a = 3; size_t n = 4; return max(a, 2) + (int)min(1.0f, 2.0f) + (int)max(n, (size_t)2) + (int)min(1u, 2u); }\n",
        "#include <cstdlib>\n#include <iostream>\nusing namespace std;\n" + KERNEL + 'int main() { cout << "x"; }\n',
        '__device__ unsigned lane() { unsigned l; asm("mov.u32 %0, %laneid;" : "=r"(l)); return l; }\n' + KERNEL + MAIN,
        "__global__ void s(cudaSurfaceObject_t o, float* out) { surf2Dread(out, o, 4, 5); surf2Dwrite(*out, o, 4, 5); }\n" + KERNEL + MAIN,
        '__device__ int lane() { int l; asm volatile("mov.u32 %0, %%laneid;" : "=r"(l)); return l; }\n' + KERNEL + MAIN,
        "__global__ void t(cudaSurfaceObject_t o, float* out) { float v = surf3Dread<float>(o, 1, 2, 3); surf1DLayeredwrite(v, o, 1, 2); }\n"
        + KERNEL
        + MAIN,
        "#include <math.h>\n__host__ __device__ float lerp(float a, float b, float t) { return a + t * (b - a); }\n__global__ void t(float* out, int n) {\n"
        "  __shared__ alignas(alignof(float4)) float tile[4];\n  tile[threadIdx.x % 4] = lerp(1, 2, n);\n  assert(n > 0);\n  *out = tile[0];\n"
        '  asm volatile("st.release.sys.global.u32 [%1], %0;" ::"r"(n) "l"(out) : "memory");\n}\n' + KERNEL + MAIN,
        "#include <omp.h>\n" + KERNEL + "int main() { return omp_get_max_threads() == 0; }\n",
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n__global__ void each() { size_t n = 123; char* p = (char*)malloc(n); memset(p, 0, n); "
        'printf("%d %p\\n", threadIdx.x, p); free(p); }\n'
        + KERNEL
        + "int main() { cudaDeviceSetLimit(cudaLimitMallocHeapSize, 128 * 1024 * 1024); each<<<1, 5>>>(); "
        "cudaDeviceSynchronize(); return 0; }\n",
        "\ufeff" + KERNEL + MAIN,
        (KERNEL + MAIN).replace("\n", "\r\n"),
    ],
    ids=[
        "host min and max",
        "device malloc under using namespace std",
        "laneid",
        "laneid with two signs",
        "surfaces",
        "further surfaces",
        "what Clang takes in another order",
        "OpenMP",
        "an allocation in each thread",
        "byte order mark",
        "lines of DOS",
    ],
)
def test_what_nvcc_compiles_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "prog.cu").write_bytes(text.encode())
    ran = run("--in-place", "prog.cu", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "gpuheap::coalesced::malloc(8, true)" in (tmp_path / "prog.cu").read_text()


def test_a_file_keeps_its_line_ends_and_its_mark(tmp_path: Path) -> None:
    (tmp_path / "prog.cu").write_bytes(("\ufeff" + KERNEL + MAIN).replace("\n", "\r\n").encode())
    assert run("--in-place", "prog.cu", cwd=tmp_path).returncode == 0
    after = (tmp_path / "prog.cu").read_bytes()
    assert after.startswith(b"\xef\xbb\xbf#include <gpuheap/coalesced.hpp>\r\n") and b"init();\r\n" in after
    assert after.count(b"\n") == after.count(b"\r\n") and b"\r\r" not in after


def test_members_of_the_device_alone(tmp_path: Path) -> None:
    """A kernel's text is read for the host too, where the member may be another one: it gets no parameter."""
    (tmp_path / "prog.cu").write_text(
        "struct table {\n#ifdef __CUDA_ARCH__\n  __device__ void* make(int n) { return malloc(n); }\n#else\n  void* make(int) { return nullptr; }\n#endif\n"
        "#if !defined(__CUDA_ARCH__)\n  ~table() {}\n#endif\n};\n"
        "__global__ void k(void** out, int n) {\n  table t;\n  *out = t.make(n);\n  *out = malloc(8);\n}\n"
    )
    ran = run("--in-place", "prog.cu", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "warning: [W3] `table::make` gets no parameter, as its declaration depends on __CUDA_ARCH__" in ran.stderr
    after = (tmp_path / "prog.cu").read_text()
    assert "make(int n) { return gpuheap::coalesced::malloc(n); }" in after and "= t.make(n);" in after and "malloc(8, true)" in after


@pytest.mark.parametrize("option", ["--options-file {}", "--options-file={}", "-optf {}"])
def test_options_in_a_file_that_the_command_names(option: str, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "size.hpp").write_text("#define SIZE 8\n")
    (tmp_path / "prog.cu").write_text("#include <size.hpp>\n" + KERNEL.replace("8", "SIZE * FACTOR") + MAIN)
    (tmp_path / "build").mkdir()
    command = f"nvcc -DFACTOR=2 {option.format('flags/includes.rsp')} -std=c++20 -x cu -c {tmp_path}/prog.cu -o prog.o"
    entry = {
        "directory": str(tmp_path / "build"),
        "file": str(tmp_path / "prog.cu"),
        "command": command,
    }
    (tmp_path / "build" / "compile_commands.json").write_text(json.dumps([entry]))
    ran = run("-p", "build", "prog.cu", cwd=tmp_path)
    assert ran.returncode == 2 and "names the file of options" in ran.stderr and "which is not there: configure the build again" in ran.stderr
    (tmp_path / "build" / "flags").mkdir()
    (tmp_path / "build" / "flags" / "includes.rsp").write_text(f'-I"{tmp_path}/a b"\n')
    ran = run("-p", "build", "prog.cu", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "malloc(SIZE * FACTOR, true)" in ran.stdout


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void child(int n) {}\n__global__ void parent(int n) { if (threadIdx.x == 0) child<<<1, 32>>>(n); }\n",
        "struct made { int n; __device__ made() : n(threadIdx.x) {} };\n__global__ void parent(int* out) { __shared__ made m; *out = m.n; }\n",
    ],
    ids=["a kernel that launches one", "a constructor in shared memory"],
)
def test_what_clang_cannot_follow_is_left_alone(text: str, tmp_path: Path) -> None:
    (tmp_path / "prog.cu").write_text(text)
    assert run("--in-place", "prog.cu", cwd=tmp_path).returncode == 1
    (tmp_path / "prog.cu").write_text(text + KERNEL + MAIN)
    ran = run("--in-place", "prog.cu", cwd=tmp_path)
    assert ran.returncode == 2 and "[E7] the rewriter cannot follow this: " in ran.stderr and "is left unchanged" in ran.stderr, ran.stderr
    assert (tmp_path / "prog.cu").read_text() == text + KERNEL + MAIN


def test_the_page_shows_what_the_tool_prints(tmp_path: Path) -> None:
    """The example of docs/coalesce.md: the program, the change and the warnings. GPUHEAP_UPDATE_EXPECTED=1 writes them, to be read before they are kept."""
    page = ROOT / "docs" / "coalesce.md"
    head, _, rest = page.read_text().partition("```cpp\n")
    program, _, rest = rest.partition("```\n")
    between, _, rest = rest.partition("```diff\n")
    change, _, rest = rest.partition("```\n\n```text\n")
    warnings, _, after = rest.partition("```\n")
    (tmp_path / "prog.cu").write_text(program)
    ran = run("--quiet", "prog.cu", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    if os.environ.get("GPUHEAP_UPDATE_EXPECTED"):
        change, warnings = ran.stdout, ran.stderr
        page.write_text(f"{head}```cpp\n{program}```\n{between}```diff\n{change}```\n\n```text\n{warnings}```\n{after}")
    assert (change, warnings) == (ran.stdout, ran.stderr)
