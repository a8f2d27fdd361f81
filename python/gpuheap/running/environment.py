"""Reads and writes `environment.json` next to the tables: the machine, the builds, and the build that measured each sweep."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpuheap.catalogue import is_known, ordered
from gpuheap.errors import UserError
from gpuheap.files import read_json, replace_file
from gpuheap.formats.results import ELSEWHERE, Row
from gpuheap.paths import Layout
from gpuheap.running.executable import Executable
from gpuheap.toolkit import driver_version, toolkit_version

FILE_NAME = "environment.json"
FORMAT = 1


def slug(name: str) -> str:
    """The folder name of a GPU: `nvidia-h200` for `NVIDIA H200`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def results_folder(layout: Layout, executable: Executable) -> Path:
    """The folder for the tables of this machine: `results/<gpu>`, or the build folder for the simulator."""
    device = executable.description.device
    if executable.backend == "simulator" or device is None:
        return layout.simulated_results
    return layout.results / slug(device.name)


class Environment:
    """The environment of one folder of tables: the latest run's facts at the top, and for each sweep the build that measured it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.facts: dict[str, Any] = read_environment(folder)

    def check_machine(self, executable: Executable) -> None:
        """Raises UserError if the folder holds another machine's numbers."""
        device = executable.description.device
        here = device.name if device is not None and executable.backend == "cuda" else None
        if not self.facts:
            return
        there = (self.facts.get("gpu") or {}).get("name")
        if there != here:
            raise UserError(
                f"{self.path.parent} holds results of {there or 'the simulator'}, this is {here or 'the simulator'}: give another --output"
            )

    def describe(
        self, layout: Layout, executable: Executable, identity: str, others: Mapping[str, Executable] = MappingProxyType({})
    ) -> None:
        """Records the machine and the build of this run. `others`, by identity, are additional builds that take part."""
        description = executable.description
        device = description.device if description.backend == "cuda" else None
        commit, modified = git_commit(layout.root)
        machine = executable.machine or machine_facts()
        facts: dict[str, Any] = {
            "format": FORMAT,
            "backend": description.backend,
            "gpu": None,
            "driver": machine["driver"] if device else None,
            "driver_cuda": device.driver_version if device else None,
            "runtime_cuda": device.runtime_version if device else None,
            "toolkit": machine["toolkit"] if device else None,
            "compiler": description.build.get("compiler", ""),
            "flags": description.build.get("flags", ""),
            "build_type": description.build.get("type", ""),
            "version": description.version,
            "commit": commit,
            "modified": modified,
            "system": machine["system"],
            "date": now(),
            "allocators": [],
        }
        if device is not None:
            facts["gpu"] = {
                "name": device.name,
                "compute_capability": device.compute_capability,
                "sms": device.num_sms,
                "memory_bytes": device.total_bytes,
            }
        builds = dict(self.facts.get("builds") or {})
        for name, build in {identity: executable, **others}.items():
            own = {key: build.description.build.get(key, "") for key in ("compiler", "flags")}
            builds[name] = {key: facts[key] for key in ("commit", "modified", "compiler", "flags", "driver", "toolkit", "date")} | own
        # The allocators of earlier executables stay recorded, because the tables may hold their rows.
        known = {str(entry.get("name")): entry for entry in self.facts.get("allocators") or []}
        for build in (executable, *others.values()):
            known |= {allocator.name: dataclasses.asdict(allocator) for allocator in build.description.allocators}
        facts["allocators"] = [known[name] for name in ordered(known)]
        kept = {"again": self.facts["again"]} if self.facts.get("again") else {}
        self.facts = {**facts, "builds": builds, "sweeps": dict(self.facts.get("sweeps") or {}), **kept}

    def build_of(self, suite: str, case: str, allocator: str) -> str | None:
        """The build that measured a sweep; None if none is recorded."""
        found = self.facts.get("sweeps", {}).get(suite, {}).get(case, {}).get(allocator)
        return str(found) if found else None

    def builds_of(self, rows: Iterable[Row]) -> set[str | None]:
        """The builds of rows; None stands for an unknown one. Allocators from outside the repository have builds of their own."""
        sweeps = {(row.suite, row.case, row.allocator) for row in rows if is_known(row.allocator)}
        return {self.build_of(*sweep) for sweep in sweeps}

    def forget(self, suite: str) -> None:
        """Records that the table has no rows."""
        self.facts["sweeps"].pop(suite, None)

    def words_of(self, build: str | None) -> str:
        """A build in words, for example `2dede0e of 2026-11-23`."""
        known = (self.facts.get("builds") or {}).get(build) or {}
        commit, date = str(known.get("commit") or "")[:7], str(known.get("date") or "")[:10]
        return " of ".join(part for part in (commit or str(build or "no name"), date) if part)

    def is_later(self, build: str | None, than: str | None) -> bool:
        """Whether `build` was measured after the build `than`. A build whose date is not recorded counts as the earliest."""
        builds = self.facts.get("builds") or {}
        mine, other = (str((builds.get(each) or {}).get("date") or "") for each in (build, than))
        return mine > other

    def measured_by(self, suite: str, case: str, allocator: str, identity: str) -> None:
        """Records the build that measured a sweep."""
        self.facts["sweeps"].setdefault(suite, {}).setdefault(case, {})[allocator] = identity

    def join(self, other: Environment) -> None:
        """Adds the builds and allocators of another folder. The facts about the machine are those of the later run."""
        newer, older = sorted((self.facts, other.facts), key=lambda facts: str(facts.get("date", "")), reverse=True)
        known = {str(entry["name"]): entry for facts in (older, newer) for entry in facts.get("allocators") or []}
        builds = {**(older.get("builds") or {}), **(newer.get("builds") or {})}
        own: dict[str, Any] = {"sweeps": self.facts.get("sweeps") or {}, **({"again": self.facts["again"]} if self.facts.get("again") else {})}
        told = {key: value for key, value in newer.items() if key != "again"}
        self.facts = {**told, "allocators": [known[name] for name in ordered(known)], "builds": builds, **own}

    def save(self) -> None:
        """Writes the file."""
        replace_file(self.path, self.text(), ELSEWHERE)

    def text(self) -> str:
        """The contents of the file. Builds that no sweep names are left out, and stay known here: their sweeps may be about to begin."""
        sweeps: dict[str, dict[str, dict[str, str]]] = self.facts["sweeps"]
        named = {build for cases in sweeps.values() for allocators in cases.values() for build in allocators.values()}
        builds = {build: facts for build, facts in self.facts["builds"].items() if build in named}
        return json.dumps({**self.facts, "builds": builds}, indent=2, ensure_ascii=False) + "\n"


def read_environment(folder: Path) -> dict[str, Any]:
    """The facts of a folder; {} if it has no environment.json. Raises UserError if the file is damaged."""
    path = folder / FILE_NAME
    if not path.exists():
        return {}
    remedy = "delete it to start again"
    facts = read_json(path, "what gpuheap bench writes beside its tables", remedy)
    written = facts.get("format", FORMAT)
    if isinstance(written, int) and written > FORMAT:
        raise UserError(f"{path} is of format {written}, and this gpuheap reads format {FORMAT}: use the gpuheap that wrote it, or name another folder")
    _check_facts(facts, path, remedy)
    return facts


def _check_facts(facts: Mapping[str, Any], path: Path, remedy: str) -> None:
    """Checks that all keys that the program reads are there, each with a value of its kind."""

    def check(what: str, there: object) -> None:
        if not there:
            raise UserError(f"{path}: {what} is not as gpuheap bench writes it: {remedy}")

    gpu, builds, sweeps, allocators = (facts.get(key) or {} for key in ("gpu", "builds", "sweeps", "allocators"))
    check("gpu", isinstance(gpu, dict))
    check("builds", isinstance(builds, dict) and all(isinstance(build, dict) for build in builds.values()))
    check("allocators", not allocators or isinstance(allocators, list) and all(isinstance(each, dict) and "name" in each for each in allocators))
    for cases in [sweeps, *(sweeps.values() if isinstance(sweeps, dict) else ())]:
        check("sweeps", isinstance(cases, dict) and all(re.fullmatch(r"\w+", name) and isinstance(each, dict) for name, each in cases.items()))
    of_allocators = [names for cases in sweeps.values() for names in cases.values()]
    check("sweeps", all(isinstance(build, str) for names in of_allocators for build in names.values()))
    check("again", isinstance(facts.get("again", {}), dict) and all(isinstance(each, dict) for each in facts.get("again", {}).values()))


def git_commit(root: Path) -> tuple[str | None, bool]:
    """The commit of the checkout and whether tracked files other than results differ from it; (None, False) outside git.

    GPUHEAP_COMMIT names the commit of a copy that has no git.
    """
    named = os.environ.get("GPUHEAP_COMMIT", "").strip()
    if named:
        return named, False

    def git(*arguments: str) -> str | None:
        try:
            ran = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return ran.stdout.strip() if ran.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return None, False
    return commit, bool(git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results"))


def machine_facts() -> dict[str, Any]:
    """The facts of environment.json about the machine that runs the benchmark."""
    return {"driver": driver_version(), "toolkit": toolkit_version(), "system": system_facts()}


def system_facts() -> dict[str, Any]:
    return {"os": _os_name(), "cpu": _cpu_name(), "cores": os.cpu_count(), "python": platform.python_version()}


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def spoken(date: str) -> str:
    """A date that now() returned, in a form for readers: `2026-11-23 10:00:00 UTC`."""
    return date.replace("T", " ").replace("Z", " UTC")


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
