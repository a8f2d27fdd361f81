"""Kernels of Numba and Triton compile, and link with the device code, for the tests' architectures. Needs no GPU."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from extent import ARCHITECTURES, in_full

import gpuheap


@pytest.fixture(scope="module")
def fatbin() -> bytes:
    try:
        return gpuheap.device_code("fatbin").read_bytes()
    except gpuheap.MissingPart as missing:
        pytest.skip(f"kernels written in Python: {missing}")


def symbols_left(cubin: bytes) -> set[bytes]:
    """Functions of the interface that a linked program still asks for: their names stand in its string table alone once they are linked."""
    return {name for name in re.findall(rb"\x00(gpuheap_v\d_\w+)\x00", cubin) if b".text." + name not in cubin}


def registers_of(cubin: bytes) -> int:
    """The most registers that a kernel or a function takes for each thread: a cubin says it of each, as an attribute of 12 bytes."""
    return max(int.from_bytes(count, "little") for count in re.findall(rb"\x04\x2f\x08\x00....(..)\x00\x00", cubin, re.DOTALL))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_numba(arch: int, fatbin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba.cuda", reason="kernels written in Python: no numba-cuda: pip install 'numba-cuda[cu13]'", exc_type=ImportError)
    from numba import cuda, float32, int64, types

    from gpuheap.heaps.compiler import link

    capability = divmod(arch, 10)
    # Functions that kernels call are compiled for the device that is current.
    monkeypatch.setattr("numba.cuda.dispatcher.get_current_device", lambda: SimpleNamespace(compute_capability=capability))
    import gpuheap.numba as gn

    def kernel(heap, out):
        i = cuda.grid(1)
        if i < out.size:
            a = gn.array(heap, i % 7 + 1, float32)
            b = gn.array(heap, (2, i % 3 + 1), int64)
            p = gn.realloc(heap, gn.malloc(heap, 16), 64)
            out[i] = a.size + b.shape[1] + gn.usable_size(heap, p) + gn.owns(heap, p) + gn.address_of(a) + gn.view(p, 2, int64)[0]
            gn.free(heap, a)
            gn.free(heap, b)
            gn.free(heap, p)

    parts, _ = cuda.compile_all(kernel, types.void(types.int64, types.Array(types.int64, 1, "C")), device=False, cc=capability, output="ptx", abi="numba")
    code = [(part.encode(), 2) if isinstance(part, str) else (part.data, 4) for part in parts]
    assert [kind for _, kind in code].count(4) == 1
    cubin = link(code, arch)
    assert b"gpuheap_v1_malloc" in cubin and symbols_left(cubin) == set()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_numbas_own_runtime(arch: int, fatbin: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels with arrays of Numba's own, and what their runtime calls, linked with malloc and free from a heap."""
    pytest.importorskip("numba.cuda", reason="kernels written in Python: no numba-cuda: pip install 'numba-cuda[cu13]'", exc_type=ImportError)
    import numba.cuda.memory_management
    import numpy as np
    from numba import cuda, int64, types

    from gpuheap.heaps import compiler

    includes = sorted(Path(np.__file__).parents[1].glob("nvidia/*/include"))
    cccl = [folder / "cccl" for folder in includes if (folder / "cccl").is_dir()]
    if not cccl:
        pytest.skip("kernels written in Python: Numba's runtime needs CCCL: pip install 'numba-cuda[cu13]'")
    monkeypatch.setattr("numba.cuda.core.config.CUDA_ENABLE_NRT", True, raising=False)
    monkeypatch.setattr("numba.cuda.dispatcher.get_current_device", lambda: SimpleNamespace(compute_capability=divmod(arch, 10)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def kernel(out):
        i = cuda.grid(1)
        a = np.zeros((2, i % 3 + 1), np.int64)
        a[1] = i
        out[i] = a.sum()

    parts, _ = cuda.compile_all(kernel, types.void(int64[::1]), device=False, cc=divmod(arch, 10), output="ptx", abi="numba")
    folder = Path(numba.cuda.memory_management.__file__).parent
    options = ["-std=c++17", "--relocatable-device-code=true", f"-arch=sm_{arch}", *(f"-I{path}" for path in (folder, *includes, *cccl))]
    runtime, _ = compiler._compile((folder / "nrt.cu").read_text(), options, ())
    theirs = [*((part.encode(), 2) for part in parts), (runtime, 1)]
    ours = [(compiler.malloc_part(arch), 1), (compiler.handle_part(0x7F0000001000).encode(), 2)]
    plain, served = compiler.link(theirs, arch), compiler.link([*theirs, *ours], arch)
    for name in ("malloc", "free"):
        assert defined(plain, name, tmp_path) == [False]  # CUDA's own come with the launch
        assert defined(served, name, tmp_path) == [True]
    # ptxas keeps values in the registers from R32 on across calls of malloc and free.
    assert registers_of(ours[0][0]) <= 32


def defined(cubin: bytes, name: str, folder: Path) -> list[bool]:
    """For each symbol of this name in a linked program, whether it is defined there."""
    file = folder / "linked.cubin"
    file.write_bytes(cubin)
    listed = subprocess.run(["readelf", "-sW", str(file)], capture_output=True, text=True, check=True).stdout
    return [words[6] != "UND" for words in map(str.split, listed.splitlines()) if words[-1:] == [name] and len(words) == 8]


def test_the_first_example_of_numba(fatbin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's code before its heap is made, which needs a GPU: tests/kernels/test_numba_gpu.py runs all of it."""
    pytest.importorskip("numba.cuda", reason="kernels written in Python: no numba-cuda: pip install 'numba-cuda[cu13]'", exc_type=ImportError)
    from numba import cuda, types

    from gpuheap.heaps.compiler import link

    monkeypatch.setattr("numba.cuda.dispatcher.get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    text = (Path(__file__).resolve().parents[2] / "examples" / "python" / "array_numba.py").read_text()
    program: dict[str, Any] = {}
    exec(compile(text.partition("with gpuheap.Heap")[0], "array_numba.py", "exec"), program)
    parts, _ = cuda.compile_all(program["kernel"].py_func, types.void(types.int64), device=False, cc=(9, 0), output="ptx", abi="numba")
    code = [(part.encode(), 2) if isinstance(part, str) else (part.data, 4) for part in parts]
    cubin = link(code, 90)
    assert b"gpuheap_v1_malloc" in cubin and symbols_left(cubin) == set()
    # The link time of a compiled kernel, in CPU time, since other programs may use the processor too.
    seconds = []
    for _ in range(5):
        begun = time.process_time()
        link(code, 90)
        seconds.append(time.process_time() - begun)
    assert min(seconds) <= 0.05, f"a link takes {1000 * min(seconds):.0f} ms, and 50 are promised"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_triton(arch: int, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton", reason="kernels written in Python: no Triton: pip install triton", exc_type=ImportError)
    try:
        gpuheap.device_code("bitcode")
    except gpuheap.MissingPart as missing:
        pytest.skip(f"kernels written in Python: {missing}")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    import triton_kernels
    from triton.backends.compiler import GPUTarget

    source = triton.compiler.ASTSource(fn=triton_kernels.both, signature={"heap": "i64", "out": "*i64", "n": "i32", "B": "constexpr"}, constexprs={"B": 32})
    import gpuheap.triton as gt

    def for_warps(num: int) -> Any:
        return triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"extern_libs": gt.extern_libs(), "num_warps": num})

    compiled = for_warps(4)
    ptx = compiled.asm["ptx"]
    assert re.search(r"\.func.*gpuheap_v1_malloc_slot|atom\S*cas", ptx) and ".extern .func" not in ptx
    # The heap's shared memory leaves the program's own at a multiple of 1024.
    assert sorted(re.findall(r"\.shared \.align 1024 \.b8 \w+?(answer|slots)\[(\d+)\]", ptx)) == [("answer", "1024"), ("slots", "8192")]
    # A block of 1024 threads has no more than 64 a thread. For fewer threads ptxas takes what it thinks best.
    assert registers_of(compiled.asm["cubin"]) <= {75: 96, 90: 72, 120: 64}[arch]
    if arch == 90 and in_full():
        assert registers_of(for_warps(32).asm["cubin"]) <= 64
    # Slots are served among the threads of a program alone: no element waits for a fence of the whole system.
    entry = ptx[ptx.index(".visible .entry both(") :]
    assert "atom.relaxed.cta" in entry[: entry.index("\n}")] and "fence.sc" not in entry[: entry.index("\n}")]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_recipe_for_cuda_core(arch: int, fatbin: bytes) -> None:
    """The recipe of docs/python.md, as far as its last line, which needs a GPU."""
    core = pytest.importorskip("cuda.core", reason="kernels written in Python: no cuda.core: pip install cuda-core cuda-bindings", exc_type=ImportError)
    if not hasattr(core, "Linker"):
        pytest.skip("kernels written in Python: cuda.core is older than 1.0: pip install 'cuda-core>=1'")
    from gpuheap.heaps import compiler

    if compiler.versions()[2] < 13:
        pytest.skip("kernels written in Python: nvJitLink is that of CUDA 12: pip install 'nvidia-nvjitlink>=13'")
    page = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text()
    (recipe,) = re.findall(r"```python\n(from cuda\.core import.*?)```", page, re.DOTALL)
    before, launch, _ = recipe.partition("kernel = ")
    assert launch
    named: dict[str, Any] = {"arch": f"sm_{arch}"}
    exec(compile(before, "recipe", "exec"), named)
    assert b"gpuheap_v1_malloc" in named["linked"].code and symbols_left(named["linked"].code) == set()


def test_triton_refuses_several_ctas(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton", reason="kernels written in Python: no Triton: pip install triton", exc_type=ImportError)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    import triton_kernels
    from triton.backends.compiler import GPUTarget

    source = triton.compiler.ASTSource(fn=triton_kernels.alone, signature={"heap": "i64", "out": "*i64"})
    with pytest.raises(Exception, match="num_ctas") as refused:
        triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_ctas": 2})
    assert "use num_ctas=1" in str(refused.value) + str(refused.value.__cause__)
