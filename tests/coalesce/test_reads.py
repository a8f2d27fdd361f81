"""What nvcc compiles is read: where nvcc's headers and Clang's differ, the tool takes nvcc's side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tool import run

KERNEL = "__global__ void k(int n) {\n  void* q = malloc(8);\n  free(q);\n}\n"
MAIN = "int main() {\n  return 0;\n}\n"
TOOLKIT = any(Path(folder, "include", "cuda_runtime.h").is_file() for folder in (os.environ.get("CUDA_PATH", ""), "/usr/local/cuda") if folder)

pytestmark = pytest.mark.skipif(not TOOLKIT, reason="the rewriter with a toolkit's headers: no CUDA toolkit: install nvcc")


@pytest.mark.parametrize(
    "text",
    [
        KERNEL + "int main() { int a = 3; size_t n = 4; return max(a, 2) + (int)min(1.0f, 2.0f) + (int)max(n, (size_t)2) + (int)min(1u, 2u); }\n",
        "#include <cstdlib>\n#include <iostream>\nusing namespace std;\n" + KERNEL + 'int main() { cout << "x"; }\n',
        '__device__ unsigned lane() { unsigned l; asm("mov.u32 %0, %laneid;" : "=r"(l)); return l; }\n' + KERNEL + MAIN,
        "__global__ void s(cudaSurfaceObject_t o, float* out) { surf2Dread(out, o, 4, 5); surf2Dwrite(*out, o, 4, 5); }\n" + KERNEL + MAIN,
        "\ufeff" + KERNEL + MAIN,
        (KERNEL + MAIN).replace("\n", "\r\n"),
    ],
    ids=["host min and max", "device malloc under using namespace std", "laneid", "surfaces", "byte order mark", "lines of DOS"],
)
def test_what_nvcc_compiles_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "prog.cu").write_bytes(text.encode())
    ran = run("--in-place", "prog.cu", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "gpuheap::coalesced::malloc(8, true)" in (tmp_path / "prog.cu").read_text()
