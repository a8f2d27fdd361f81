"""The result of a validation run: for each pair of host and device buffers, whether its downloads (transfers to the host) need a copy.

In a rehearsal, the library makes every copy. For each download that merged buffers could replace, it records how the merge would have ended
(tools/host/merging.hpp). The calls of the run show the other copies, as in pairs.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuheap.host.history import History
from gpuheap.host.pairs import SEVERAL_DEVICES, SEVERAL_HOSTS, Pair, pairs_of

PARTS = "copied in part"
ASYNCHRONOUS = "copied asynchronously"
NO_DOWNLOAD = "never copied to the host: there is no copy to drop"
NOT_OF_THE_HEAP = "its host buffer is not a malloc block of the same size, of 64 KiB or more"
NOT_ENDED = "the run did not end by exit, so the later uses of its buffers are not known"
ELSEWHERE = "the program works in several streams, contexts or graphs, or a library hands pages to other devices"
FIXED = "the program registers its host buffer, or changes its mapping itself"
_KEPT = 1
_ENDS = {
    2: "the device may change its buffer while the host buffer lives, and the host may read the old content later",
    3: "the host writes its buffer, and the device continues with the old content",
    4: "device memory changed without a call that could have done it",
    5: "host and device buffer had different contents right after the copy",
    6: ELSEWHERE,
    7: FIXED,
}  # tools/host/merging.hpp: period_end


@dataclass(frozen=True)
class Verdict:
    """The outcome for all host buffers from one place with all device buffers from another. `host_site` is 0 if it is not known."""

    host_site: int
    device_site: int
    downloads: int
    bytes: int  # of these downloads
    why: str  # the objection to the pair; empty: it is proven

    @property
    def proven(self) -> bool:
        return self.why == ""


def verdicts(histories: Sequence[History]) -> list[Verdict]:
    """The verdicts of all processes together: proven pairs first, then the most bytes first. A pair is proven if every process that has it proves it."""
    found: dict[tuple[int, int], Verdict] = {}
    for history in histories:
        for verdict in _of_process(history):
            key = (verdict.host_site, verdict.device_site)
            before = found.get(key, Verdict(*key, 0, 0, ""))
            found[key] = Verdict(*key, before.downloads + verdict.downloads, before.bytes + verdict.bytes, before.why or verdict.why)
    # If a place is in two pairs, no run can tell to which of them a new buffer will belong. So neither pair counts as proven.
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
    """The first objection that the copies raise to the device buffers of a place; "" if there is none."""
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
