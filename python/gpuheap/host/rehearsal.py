"""The result of a validation run for pairs of host and device buffers: whether downloads between them can do without a copy.

The library rehearses (tools/host/merging.hpp): it makes every copy, and for each download that a merged buffer could replace it records how that would end.
The evidence of other copies is in the run's calls, as in pairs.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuheap.host.history import History
from gpuheap.host.pairs import SEVERAL_DEVICES, SEVERAL_HOSTS, Pair, pairs_of

PARTS = "copied in part"
ASYNCHRONOUS = "copied asynchronously"
NO_DOWNLOAD = "never copied to the host: there is no copy to drop"
NOT_OF_THE_HEAP = "its host buffer is no block of the heap of its size, from 64 KiB on"
NOT_ENDED = "the run did not end by exit, so that what became of its buffers is not known"
ELSEWHERE = "the program works in several streams, contexts or graphs"
FIXED = "the program registers its host buffer, or changes its mapping itself"
_KEPT = 1
_ENDS = {
    2: "the device goes on while the host buffer lives, which may be read later",
    3: "the host writes its buffer, and the device goes on with what was there before",
    4: "device memory changed without a call that could have done it",
    5: "host and device buffer were not the same right after the copy",
    6: ELSEWHERE,
    7: FIXED,
}  # tools/host/merging.hpp: period_end


@dataclass(frozen=True)
class Verdict:
    """The outcome for all host buffers from one place with all device buffers from another. `host_site` is 0 if it is not known."""

    host_site: int
    device_site: int
    downloads: int
    bytes: int  # of them
    why: str  # the objection to the pair; empty: it is proven

    @property
    def proven(self) -> bool:
        return self.why == ""


def verdicts(histories: Sequence[History]) -> list[Verdict]:
    """Proven ones first, then by bytes. A pair is proven if every process that has it proves it."""
    found: dict[tuple[int, int], Verdict] = {}
    for history in histories:
        for verdict in _of_process(history):
            key = (verdict.host_site, verdict.device_site)
            before = found.get(key, Verdict(*key, 0, 0, ""))
            found[key] = Verdict(*key, before.downloads + verdict.downloads, before.bytes + verdict.bytes, before.why or verdict.why)
    # A place that is in two pairs: no run can tell to which of them a new buffer will belong.
    good = [each for each in found.values() if each.proven]
    for key, each in found.items():
        if each.proven and sum(other.device_site == each.device_site for other in good) > 1:
            found[key] = Verdict(*key, each.downloads, each.bytes, SEVERAL_HOSTS)
        elif each.proven and sum(other.host_site == each.host_site for other in good) > 1:
            found[key] = Verdict(*key, each.downloads, each.bytes, SEVERAL_DEVICES)
    return sorted(found.values(), key=lambda verdict: (not verdict.proven, -verdict.bytes, verdict.why))


def _of_process(history: History) -> list[Verdict]:
    stacks = history.trace.stacks
    by_site: dict[int, list[Pair]] = {}
    for pair in pairs_of(history):
        by_site.setdefault(stacks[pair.device.stack].site if pair.device.stack in stacks else 0, []).append(pair)
    found = []
    for site, pairs in by_site.items():
        periods = history.trace.periods[history.trace.periods["other"] == site]
        hosts = sorted(set(periods["address"].tolist()))
        ends = sorted(set(periods["detail"].tolist()) - {_KEPT})
        down = [copy for pair in pairs for copy in pair.copies if copy.direction == "device to host"]
        why = _refutation(history, pairs, len(down), len(periods), len(hosts))
        why = why or (_ENDS[ends[0]] if ends else "")
        found.append(Verdict(hosts[0] if len(hosts) == 1 else 0, site, len(down), sum(copy.bytes for copy in down), why))
    return found


def _refutation(history: History, pairs: list[Pair], downloads: int, periods: int, hosts: int) -> str:
    """The objections that the copies alone raise to the device buffers of a place."""
    refuted = next((pair.refuted for pair in pairs if pair.refuted), "")
    if refuted:
        return refuted
    if not all(pair.whole for pair in pairs):
        return PARTS
    if any(copy.asynchronous for pair in pairs for copy in pair.copies):
        return ASYNCHRONOUS
    if downloads == 0:
        return NO_DOWNLOAD
    if not history.trace.ended:
        return NOT_ENDED
    if periods < downloads:
        return NOT_OF_THE_HEAP
    return SEVERAL_HOSTS if hosts > 1 else ""
