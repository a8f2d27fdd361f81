"""The example of an extension of PyTorch, compiled by the nvcc of the machine and run on a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import gpuheap

torch = pytest.importorskip("torch", reason="kernels written in Python: no PyTorch: pip install torch", exc_type=ImportError)

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "python" / "ragged_tensor_torch.cu"


def test_ragged_tensors_of_one_kernel(gpu: None, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None and not Path("/usr/local/cuda/bin/nvcc").exists():
        pytest.skip("kernels written in Python: an extension of PyTorch needs nvcc: install the CUDA toolkit, 13.0 or newer")
    from torch.utils import cpp_extension

    ragged = cpp_extension.load(
        "ragged", [str(SOURCE)], extra_include_paths=[str(gpuheap.include_path())], extra_cuda_cflags=["-std=c++20"], build_directory=str(tmp_path)
    )
    heap = ragged.Heap(256 << 20)
    counts = torch.randint(0, 100, (1000,), dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        rows = heap.build(counts)
    assert [len(row) for row in rows] == counts.tolist() and heap.live() == int((counts > 0).sum())
    assert all(torch.equal(row, torch.arange(len(row), device="cuda", dtype=torch.float32)) for row in rows)
    with pytest.raises(MemoryError, match="found no memory"):
        heap.build(torch.full((64,), 8 << 20, dtype=torch.int32, device="cuda"))
    last = rows[counts.argmax().item()]
    del heap, rows  # the tensor keeps the heap alive
    assert last[-1].item() == len(last) - 1
