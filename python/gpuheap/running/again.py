"""Notes in environment.json which sweeps a run with --fresh has begun anew. After a stop, the same command continues with the other sweeps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from gpuheap.formats.results import Key
from gpuheap.running.environment import Environment, now


class Again:
    """The state of one command. `wanted`: --fresh was given. Without it, the rows of earlier runs are kept, and nothing is noted."""

    def __init__(self, wanted: bool, environment: Environment, sweeps: Iterable[Sequence[Key]]) -> None:
        self._wanted = wanted
        self._environment = environment
        self._command = _digest(_digest(keys) for keys in sweeps)
        self.since = str(self._noted().get("since", "")) if wanted else ""  # the begin of the stopped run that this run continues; "" if it continues none

    def to_measure(self, keys: Sequence[Key]) -> bool:
        """Whether the rows of a sweep are older than this run, so that they must be measured again."""
        return self._wanted and _digest(keys) not in self._noted().get("begun", ())

    def begins(self, keys: Sequence[Key]) -> bool:
        """Notes that the old rows of a sweep are removed, so that a continued run keeps its new rows. Returns False if there is nothing to note."""
        if not self.to_measure(keys):
            return False
        noted = self._environment.facts.setdefault("again", {}).setdefault(self._command, {"since": now(), "begun": []})
        noted["begun"].append(_digest(keys))
        return True

    def finished(self) -> None:
        """Removes the notes, because everything is measured. The next run with --fresh begins with the first sweep."""
        if self._noted():
            del self._environment.facts["again"][self._command]
            if not self._environment.facts["again"]:
                del self._environment.facts["again"]
            self._environment.save()

    def _noted(self) -> dict[str, Any]:
        found: dict[str, Any] = self._environment.facts.get("again", {}).get(self._command, {})
        return found


def _digest(parts: Iterable[object]) -> str:
    return hashlib.sha256("\n".join(map(repr, parts)).encode(errors="backslashreplace")).hexdigest()[:16]
