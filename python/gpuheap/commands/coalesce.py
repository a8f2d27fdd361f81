"""`gpuheap coalesce`: finds the built rewriter and runs it with the command's arguments."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuheap.errors import UserError
from gpuheap.files import read_text
from gpuheap.paths import Layout

HOW_TO_GET_IT = (
    "sudo apt-get install llvm-19-dev libclang-19-dev, then in the checkout: "
    "cmake --preset host -DGPUHEAP_ENABLE_COALESCE=ON && cmake --build --preset host --target gpuheap_coalesce (./test builds it too)"
)


def find_tool(layout: Layout) -> Path:
    """The rewriter's executable: the file that `GPUHEAP_COALESCE` names, else the one in a build folder of this checkout. Raises UserError if there is none."""
    named = os.environ.get("GPUHEAP_COALESCE")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise UserError(f"GPUHEAP_COALESCE is '{named}', which is not an executable file: name the rewriter, or unset it")
        return Path(named).resolve()
    places = [layout.build / preset / "tools" / "coalesce" / "gpuheap-coalesce" for preset in ("host", "cuda")]
    for place in places:
        if os.access(place, os.X_OK):
            return place
    raise UserError(f"the source rewriter is not built: {HOW_TO_GET_IT}")


def usage_text(layout: Layout) -> str:
    """The rewriter's help text, read from a raw string in its C++ source; "" if the checkout lacks that source file."""
    source = layout.root / "tools" / "coalesce" / "usage.inc"
    return read_text(source).strip().removeprefix('R"(').removesuffix(')"') if source.is_file() else ""


def run_tool(layout: Layout, arguments: Sequence[str]) -> int:
    """Runs the rewriter in the current folder and returns its exit code."""
    try:
        tool = find_tool(layout)
    except UserError as error:
        asked = list(itertools.takewhile(lambda word: word != "--", arguments))
        usage = usage_text(layout) if {"-h", "--help"} & set(asked) else ""
        if not usage:
            raise
        print(usage, end="")
        print(f"gpuheap: {error}", file=sys.stderr)
        return 0
    try:
        code = subprocess.run([tool, *arguments], check=False).returncode
    except OSError as error:
        raise UserError(f"{tool} cannot be run: {error.strerror}") from None
    return code if code >= 0 else 128 - code  # a signal that ended the rewriter counts as in a shell
