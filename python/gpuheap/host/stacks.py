"""From the return addresses of a stack to names: by addr2line where it is installed, otherwise module and offset."""

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
_RUNTIME_MODULE = re.compile(r"lib(cuda|cudart|c|pthread|stdc\+\+)\.so|ld-linux")


@dataclass(frozen=True)
class Place:
    """A frame in words."""

    function: str  # "" where it is unknown
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
        return bool(_RUNTIME_FUNCTION.search(self.function)) or bool(_RUNTIME_MODULE.search(self.module)) or self.function == "_start"


class Symbols:
    """Names frames, each once. Asks addr2line for all frames of a module together."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Place] = {}
        self._tool = shutil.which("addr2line")

    def learn(self, stacks: Iterable[Stack]) -> None:
        wanted: dict[str, set[int]] = {}
        for stack in stacks:
            for frame in stack.frames:
                if frame.module is not None and (frame.module.path, frame.offset) not in self._known:
                    wanted.setdefault(frame.module.path, set()).add(frame.offset)
        for path, offsets in wanted.items():
            self._known.update(self._look_up(path, sorted(offsets)))

    def place(self, frame: Frame) -> Place:
        path = frame.module.path if frame.module is not None else "code outside any module"
        return self._known.get((path, frame.offset)) or Place("", "", 0, Path(path).name, frame.offset)

    def places(self, stack: Stack) -> list[Place]:
        return [self.place(frame) for frame in stack.frames]

    def site_words(self, stack: Stack | None) -> str:
        """The nearest frame that is the program's own, and the function that called it: many programs allocate through a helper."""
        if stack is None or not stack.frames:
            return "place unknown"
        places = self.places(stack)
        own = [place for place in places if not place.of_runtime] or places
        return own[0].words + (f" from {own[1].function}" if len(own) > 1 and own[1].function else "")

    def _look_up(self, path: str, offsets: list[int]) -> dict[tuple[str, int], Place]:
        name = Path(path).name
        plain = {(path, offset): Place("", "", 0, name, offset) for offset in offsets}
        if self._tool is None or not Path(path).is_file():
            return plain
        # A return address is the one after the call: one byte less lies in it.
        command = [self._tool, "-f", "-C", "-e", path]
        asked = "\n".join(f"{max(offset - 1, 0):#x}" for offset in offsets)
        try:
            answer = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.TimeoutExpired):
            return plain
        lines = answer.stdout.splitlines()
        if answer.returncode != 0 or len(lines) != 2 * len(offsets):
            return plain
        for offset, function, where in zip(offsets, lines[0::2], lines[1::2], strict=True):
            file, _, line = where.partition(" ")[0].rpartition(":")
            number = int(line) if line.isdigit() else 0
            plain[path, offset] = Place("" if function == "??" else function, "" if file == "??" or number == 0 else file, number, name, offset)
        return plain
