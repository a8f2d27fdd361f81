"""The recipe for cuda.core of docs/python.md, launched on a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import gpuheap

core = pytest.importorskip("cuda.core", reason="kernels written in Python: no cuda.core: pip install cuda-core", exc_type=ImportError)
cupy = pytest.importorskip("cupy", reason="kernels written in Python: no CuPy: pip install cupy-cuda13x", exc_type=ImportError)


def test_the_recipe(gpu: None) -> None:
    if not hasattr(core, "Linker"):
        pytest.skip("kernels written in Python: cuda.core is older than 1.0: pip install 'cuda-core>=1'")
    device = core.Device()
    device.set_current()
    page = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()
    (recipe,) = re.findall(r"```python\n(from cuda\.core import.*?)```", page, re.DOTALL)
    named: dict[str, Any] = {"arch": f"sm_{device.arch}"}
    exec(compile(recipe, "recipe", "exec"), named)
    stream = device.create_stream()
    with gpuheap.Heap("64 MiB", stream=stream) as heap:
        out = cupy.zeros(32, dtype=cupy.uint64)
        cupy.cuda.get_current_stream().synchronize()
        core.launch(stream, core.LaunchConfig(grid=1, block=32), named["kernel"], heap.handle, out.data.ptr)
        heap.check(stream)
        assert len(set(out.tolist()) - {0}) == 32 and heap.stats(stream).live_allocations == 32
