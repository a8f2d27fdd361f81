"""Finds the benchmark executables and chooses the backend."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError
from gpuheap.formats.protocol import Description, ProtocolError, parse_description
from gpuheap.paths import PRESETS, RECORDED, Layout

BACKENDS = tuple(PRESETS)
DESCRIBE_TIMEOUT_S = 60.0
LONGEST_WORDS = 600  # the most characters of another program's output that a message quotes; enough for a line with a long path


@dataclass(frozen=True)
class Executable:
    path: Path
    description: Description
    why: str  # why this executable was chosen
    machine: Mapping[str, Any] | None = None  # environment.machine_facts() of the machine on which it runs; None for this machine

    @property
    def backend(self) -> str:
        return self.description.backend

    def identity(self) -> str:
        """An identifier of this build: rows with another identifier were measured by other code.

        An executable states the hash of its sources, flags and compilers. One with an allocator from outside the repository states none; its
        identifier is the hash of the executable file.
        """
        known = self.description.build.get("identity", "")
        return known or hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]


def candidates(layout: Layout) -> dict[str, Path]:
    """The executables that exist, by backend. If `GPUHEAP_BENCH` names an executable, it is the only one, under the key `named`."""
    named = os.environ.get("GPUHEAP_BENCH")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise UserError(f"GPUHEAP_BENCH is '{named}', which is not an executable file: name a gpuheap-bench, or unset it")
        return {"named": Path(named).resolve()}
    built = {backend: [path for path in layout.executables(backend) if os.access(path, os.X_OK)] for backend in BACKENDS}
    return {backend: paths[0] for backend, paths in built.items() if paths}


def describe(path: Path) -> Description:
    """The description of an executable, from `path --describe`. Raises UserError if it gives none."""
    try:
        ran = subprocess.run([path, "--describe"], capture_output=True, text=True, errors="replace", timeout=DESCRIBE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise UserError(f"{path} --describe gave no answer within {DESCRIBE_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        raise UserError(f"{path} cannot be run: {error.strerror}") from None
    if ran.returncode != 0:
        said = last_line(ran.stderr)
        raise UserError(f"{path} --describe ended with {exit_words(ran.returncode)}{': ' + said if said else ''}")
    try:
        return parse_description(ran.stdout)
    except ProtocolError as error:
        raise UserError(f"{path} --describe: {error}") from None


def choose(layout: Layout, backend: str | None = None) -> Executable:
    """The executable to use: that of `backend`, else CUDA's if it finds a device, else the simulator's. Raises UserError if there is none."""
    found = candidates(layout)
    if "named" in found:
        description = describe(found["named"])
        if backend is not None and description.backend != backend:
            raise UserError(f"GPUHEAP_BENCH is '{found['named']}', built for the {description.backend} backend, not for {backend}")
        _require_device(description)
        return Executable(found["named"], description, "GPUHEAP_BENCH names it")
    if backend is not None:
        if backend not in found:
            raise UserError(
                f"no {backend} executable at {layout.shown(layout.executables(backend)[0])}: {_where(layout)}build it with `{build_command(backend)}`"
            )
        description = describe(found[backend])
        _require_device(description)
        return Executable(found[backend], description, "asked for")
    if "cuda" in found:
        description = describe(found["cuda"])
        if description.device is not None:
            return Executable(found["cuda"], description, f"it finds {description.device.name}")
        if "simulator" in found:
            return Executable(found["simulator"], describe(found["simulator"]), f"the CUDA executable finds no device: {description.device_error}")
        raise UserError(f"no GPU ({description.device_error}) and no simulator: build it with `{build_command('simulator')}`")
    if "simulator" in found:
        return Executable(found["simulator"], describe(found["simulator"]), "there is no CUDA executable")
    raise UserError(f"no benchmark executable is built: {_where(layout)}run ./demo, or `{build_command('simulator')}`")


def _where(layout: Layout) -> str:
    """The words before a command that builds. An installed package has no sources."""
    return "in a checkout, " if layout.root == RECORDED else ""


def build_command(backend: str, *options: str) -> str:
    preset = PRESETS[backend]
    return f"{' '.join(('cmake --preset', preset, *options))} && cmake --build --preset {preset} --target gpuheap_bench_{preset}"


def exit_words(code: int) -> str:
    """The end of a process in words, for example `exit code 3` or `SIGSEGV`."""
    if code >= 0:
        return f"exit code {code}"
    import signal

    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines[-1][:LONGEST_WORDS] if lines else ""


def _require_device(description: Description) -> None:
    if description.backend == "cuda" and description.device is None:
        raise UserError(f"no usable GPU: {description.device_error or 'the CUDA executable finds none'} (see `gpuheap doctor`)")
