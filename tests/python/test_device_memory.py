"""What counts as device memory: arrays by their CUDA array interface, pairs, and what is refused. Needs no GPU: only addresses are compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpuheap.heaps.failures import InvalidRequest
from gpuheap.heaps.memory import device_memory


def array(shape: tuple[int, ...], strides: tuple[int, ...] | None = None, item: str = "<f4") -> Any:
    interface = {"shape": shape, "strides": strides, "typestr": item, "data": (0x7000, False), "version": 3}
    return SimpleNamespace(__cuda_array_interface__=interface)


@pytest.mark.parametrize(
    ("shape", "strides", "num_bytes"),
    [
        ((8,), None, 32),
        ((2, 4), (16, 4), 32),
        ((2, 1, 4), (16, 99, 4), 32),  # a stride along an axis of one element says nothing
        ((), None, 4),
        ((3, 0), (0, 4), 0),
        ((3, 0), (4, 4), 0),
    ],
)
def test_contiguous_arrays_are_taken_whole(shape: tuple[int, ...], strides: tuple[int, ...] | None, num_bytes: int) -> None:
    given = array(shape, strides)
    taken = device_memory(given)
    assert (taken.address, taken.num_bytes, taken.owner) == (0x7000, num_bytes, given)


@pytest.mark.parametrize(("shape", "strides"), [((2, 4), (4, 8)), ((8,), (8,)), ((2, 4), (32, 4))])
def test_other_arrays_are_refused(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequest, match="not C-contiguous was given as device memory: make it contiguous first"):
        device_memory(array(shape, strides))


def test_a_pair_is_taken_and_anything_else_is_refused() -> None:
    assert device_memory((0x5000, 64)).num_bytes == 64
    with pytest.raises(InvalidRequest, match="a list was given as device memory"):
        device_memory([1, 2])
