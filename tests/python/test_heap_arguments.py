"""The arguments of a heap's methods: what is taken, and the line that names a mistake. No library and no GPU: a mistake is found before they are needed."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import gpuheap
from gpuheap.heaps.failures import InvalidRequest


class Whole:
    """An integer of another package, as numpy.int64: no int, but with __index__."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.fixture
def heap() -> gpuheap.Heap:
    made = gpuheap.Heap.__new__(gpuheap.Heap)
    made._native = SimpleNamespace(device=0)  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"size": "1 GiB", "buffer": (0, 0)}, "and size and buffer were given"),
        ({"growth": "64 MiB"}, "growth='64 MiB' was given: give both sizes, as growth=gpuheap.Growth"),
        ({"growth": ("64 MiB", "1 GiB")}, "give both sizes, as growth=gpuheap.Growth"),
        ({"growth": gpuheap.Growth(None, "1 GiB")}, "growth.initial is None: give a number of bytes above 0"),  # type: ignore[arg-type]
        ({"size": 1.5}, "size is 1.5: give a number of bytes above 0, or a size as '1 GiB'"),
        ({"size": float("inf")}, "size is inf"),
        ({"size": b"1 GiB"}, "size is b'1 GiB'"),
        ({"size": [1]}, r"size is \[1\]"),
        ({"size": 0}, "size is 0"),
    ],
)
def test_sizes_that_are_none_are_named(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        gpuheap.Heap(**arguments)


@pytest.mark.parametrize(("shape", "found"), [(3, (3,)), (Whole(3), (3,)), ((2, Whole(5)), (2, 5)), ([2, 5], (2, 5)), (iter((2, 5)), (2, 5)), ((), ())])
def test_lengths_may_be_integers_of_any_package(heap: gpuheap.Heap, shape: Any, found: tuple[int, ...]) -> None:
    view = heap.view(Whole(0x7000), shape, "float32")  # type: ignore[arg-type]
    assert view.shape == found and all(type(length) is int for length in view.shape) and view.address == 0x7000


@pytest.mark.parametrize("shape", ["10", None, 2.5, (2, None), ("2",)])
def test_other_shapes_are_refused(heap: gpuheap.Heap, shape: Any) -> None:
    with pytest.raises(InvalidRequest, match="was asked for: give an integer or a tuple of integers"):
        heap.view(0x7000, shape)


@pytest.mark.parametrize("address", [None, "0x7000", 1.4e14, [1, 2]])
def test_an_address_is_an_integer(heap: gpuheap.Heap, address: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"was given to view\(\): give addresses, as integers"):
        heap.view(address, 4)
    with pytest.raises(InvalidRequest, match=r"was given to free\(\): give addresses, as integers"):
        heap.free([address])


def test_a_prompt_completes_every_public_name() -> None:
    """In another process, where no name has been used: the modules of the names are loaded when a program asks for one."""
    program = "import sys, gpuheap; print(set(gpuheap.__all__) <= set(dir(gpuheap)), [name for name in sys.modules if name.startswith('gpuheap.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"
