"""Turns the return addresses of a stack into functions and lines by addr2line; if that is not installed, into modules and offsets."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuheap.host.trace import Frame, Stack

# Frames of the CUDA runtime, linked statically or not, of the driver, and of the C library's start of a program.
_RUNTIME_FUNCTION = re.compile(r"^(__?)?(cuda|cudart|libcudart|libcuda)|^cu[A-Z]|^\(anonymous namespace\)::libcudart")
# The header of the CUDA runtime wraps calls in templates, which compilers inline. Its lines are no places of the program.
_RUNTIME_FILE = re.compile(r"(^|/)cuda_runtime(_api)?\.h$")
_RUNTIME_MODULE = re.compile(r"lib(cuda|cudart|c|pthread|stdc\+\+)\.so|ld-linux")


@dataclass(frozen=True)
class Place:
    """A frame in words."""

    function: str  # "" if it is unknown
    file: str
    line: int
    module: str
    offset: int

    @property
    def words(self) -> str:
        where = f"{Path(self.file).name}:{self.line}" if self.file else f"{self.module}+{self.offset:#x}"
        return f"{self.function} ({where})" if self.function else where

    @property
    def of_runtime(self) -> bool:
        names = ((_RUNTIME_FUNCTION, self.function), (_RUNTIME_FILE, self.file), (_RUNTIME_MODULE, self.module))
        return self.function == "_start" or any(pattern.search(name) for pattern, name in names)


class Symbols:
    """Names frames. addr2line looks up each frame once, all frames of a module together.

    A frame has several places, the innermost first, if the compiler inlined functions there.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[Place, ...]] = {}
        self._tool = shutil.which("addr2line")

    def learn(self, stacks: Iterable[Stack]) -> None:
        wanted: dict[str, set[int]] = {}
        for stack in stacks:
            for frame in stack.frames:
                if frame.module is not None and (frame.module.path, frame.offset) not in self._known:
                    wanted.setdefault(frame.module.path, set()).add(frame.offset)
        for path, offsets in wanted.items():
            self._known.update(self._look_up(path, sorted(offsets)))

    def places(self, stack: Stack) -> list[Place]:
        return [place for frame in stack.frames for place in self._places_of(frame)]

    def _places_of(self, frame: Frame) -> tuple[Place, ...]:
        path = frame.module.path if frame.module is not None else "code outside any module"
        return self._known.get((path, frame.offset)) or (Place("", "", 0, Path(path).name, frame.offset),)

    def site_words(self, stack: Stack | None) -> str:
        """The nearest frame that is the program's own, and the function that called it: many programs allocate through a helper."""
        if stack is None or not stack.frames:
            return "place unknown"
        places = self.places(stack)
        own = [place for place in places if not place.of_runtime] or places
        return own[0].words + (f" from {own[1].function}" if len(own) > 1 and own[1].function else "")

    def _look_up(self, path: str, offsets: list[int]) -> dict[tuple[str, int], tuple[Place, ...]]:
        name = Path(path).name
        plain: dict[tuple[str, int], tuple[Place, ...]] = {(path, offset): (Place("", "", 0, name, offset),) for offset in offsets}
        if self._tool is None or not Path(path).is_file():
            return plain
        # A return address lies after the call instruction. The byte before it belongs to the call.
        command = [self._tool, "-a", "-i", "-f", "-C", "-e", path]
        asked = "\n".join(f"{max(offset - 1, 0):#x}" for offset in offsets)
        try:
            answer = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.TimeoutExpired):
            return plain
        # For each address, addr2line prints the address, then the function and the line of each place.
        parts = re.split(r"^0x[0-9a-f]+\n", answer.stdout, flags=re.MULTILINE)[1:]
        if answer.returncode != 0 or len(parts) != len(offsets):
            return plain
        for offset, part in zip(offsets, parts, strict=True):
            lines = part.splitlines()
            plain[path, offset] = tuple(_place(*pair, name, offset) for pair in zip(lines[0::2], lines[1::2], strict=False)) or plain[path, offset]
        return plain


def _place(function: str, where: str, module: str, offset: int) -> Place:
    file, _, line = where.partition(" ")[0].rpartition(":")
    number = int(line) if line.isdigit() else 0
    return Place("" if function == "??" else function, "" if file == "??" or number == 0 else file, number, module, offset)
