"""Reads the file that heap.write_dump() writes (include/gpuheap/leaks.hpp), in parts, so that 10^8 blocks need little memory."""

from __future__ import annotations

import importlib.util
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuheap.errors import UserError, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"gpuheap\x01"
_HEAD = struct.Struct("<8s5Q")
_PART = 1 << 22  # blocks at a time
_OFFSET_BITS = 38
_MOST_BYTES = (1 << 38) - 1


@dataclass(frozen=True)
class Part:
    """Some blocks in the order of their addresses: the offset of each in the region, its bytes, and the number of its name."""

    offsets: NDArray[np.int64]
    bytes: NDArray[np.int64]
    names: NDArray[np.int64]


@dataclass(frozen=True)
class Dump:
    path: Path
    allocator: str
    base: int
    region_bytes: int
    heap_bytes: int
    num_blocks: int
    names: tuple[str, ...]  # the tags' names; a block's number is the index here plus one, or 0 for no tag
    blocks_at: int  # the offset of the blocks in the file

    def parts(self) -> Iterator[Part]:
        """All blocks, some at a time. Raises UserError if the file is damaged."""
        import numpy as np

        if self.num_blocks == 0:
            return
        rows = np.memmap(self.path, dtype="<u8", mode="r", offset=self.blocks_at, shape=(self.num_blocks, 2))
        last = -1
        for first in range(0, self.num_blocks, _PART):
            words = np.asarray(rows[first : first + _PART]).astype(np.uint64, copy=False)
            heads, seconds = words[:, 0], words[:, 1]
            offsets = ((heads & np.uint64((1 << _OFFSET_BITS) - 1)) << np.uint64(4)).astype(np.int64)
            sizes = (seconds & np.uint64(_MOST_BYTES)).astype(np.int64)
            names = ((heads >> np.uint64(_OFFSET_BITS)) & np.uint64(0xFFFF)).astype(np.int64)
            ends = offsets + sizes
            sound = offsets[0] >= last and bool((offsets[1:] >= ends[:-1]).all()) and int(ends[-1]) <= self.region_bytes and int(names.max()) <= len(self.names)
            if not sound:
                raise UserError(f"{self.path} is damaged: its blocks overlap, lie outside of the heap, or have unknown names; write the dump again")
            last = int(ends[-1])
            yield Part(offsets, sizes, names)


def read_dump(path: Path) -> Dump:
    """Reads a dump without its blocks. Raises UserError if the file is not a dump, or is incomplete."""
    if importlib.util.find_spec("numpy") is None:
        raise UserError("gpuheap inspect needs numpy, which is not installed: pip install numpy")
    try:
        found = path.stat()
        if stat.S_ISFIFO(found.st_mode):  # to open a pipe waits for a writer, perhaps for ever
            raise UserError(f"{path} is a pipe, and a dump is read more than once: write it into a file first")
        size = found.st_size
        with path.open("rb") as file:
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size or head[:8] != MAGIC:
                raise UserError(f"{path} is no dump of a heap: name a file that heap.write_dump() wrote")
            _, base, region, heap, blocks, names = _HEAD.unpack(head)
            texts = []
            for _ in range(names + 1):
                word = file.read(8)
                length = int.from_bytes(word, "little")
                if len(word) < 8 or length > min(size, 1 << 16):
                    raise UserError(f"{path} is damaged: it ends within its names; write the dump again")
                texts.append(printable(file.read((length + 7) // 8 * 8)[:length].decode(errors="replace")))
            at = file.tell()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}: name a file that heap.write_dump() wrote") from None
    if size != at + 16 * blocks:
        raise UserError(f"{path} has {size} bytes and should have {at + 16 * blocks}: it was cut off while it was written; write the dump again")
    return Dump(path, texts[0], base, region, heap, blocks, tuple(texts[1:]), at)
