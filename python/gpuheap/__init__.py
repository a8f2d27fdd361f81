"""The gpuheap command line: runs the benchmark executables, keeps their results, draws the report."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path


def _version() -> str:
    """The library's, which its header says: of the checkout that this file lies in, or of the one that was installed."""
    header = Path(__file__).resolve().parents[2] / "include" / "gpuheap" / "version.hpp"
    if not header.is_file():
        try:
            return metadata.version("gpuheap")
        except metadata.PackageNotFoundError:  # a copy of the package alone
            return "0+unknown"
    return ".".join(re.findall(r"define GPUHEAP_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text()))


__version__ = _version()
