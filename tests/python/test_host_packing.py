"""Plans against brute force: placements that never collide, peaks between the lower bound and what the best order could do, and rehearsals that serve every
request."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from gpuheap.host.packing import ALIGNMENT, MOST_SHARERS, Need, _clashes, _overlap, lower_bound, pack, peak, place_in_order
from gpuheap.host.plan import rehearse


def random_needs(rng: random.Random, num: int, groups: int = 1) -> list[Need]:
    needs = []
    for _ in range(num):
        cuts = sorted(rng.sample(range(40), 2 * rng.randint(1, 3)))
        times = tuple(zip(cuts[0::2], cuts[1::2], strict=True))
        needs.append(Need(ALIGNMENT * rng.randint(1, 8), times, rng.randrange(groups)))
    return needs


def collisions(needs: list[Need], offsets: list[int]) -> list[tuple[int, int]]:
    """Pairs that share a byte at a time, found byte by byte and moment by moment."""
    owners: dict[tuple[int, int], int] = {}
    found = []
    for index, (need, offset) in enumerate(zip(needs, offsets, strict=True)):
        for begin, end in need.times:
            for moment, unit in itertools.product(range(begin, end), range(offset // ALIGNMENT, (offset + need.bytes) // ALIGNMENT)):
                other = owners.setdefault((moment, unit), index)
                if other != index:
                    found.append((other, index))
    return found


def best_peak(needs: list[Need]) -> int:
    """The smallest peak of any placement: in the order of its offsets, a best one is what lowest-offset placement makes, or no worse."""
    clashes = _clashes(needs)
    return min(peak(needs, place_in_order(needs, clashes, order)) for order in itertools.permutations(range(len(needs))))


def test_placements_never_collide_and_keep_to_the_bounds() -> None:
    rng = random.Random(1)
    for _ in range(150):
        needs = random_needs(rng, rng.randint(1, 14))
        offsets = pack(needs)
        assert collisions(needs, offsets) == []
        assert all(offset % ALIGNMENT == 0 for offset in offsets)
        assert lower_bound(needs) <= peak(needs, offsets) <= sum(need.bytes for need in needs)


def test_peaks_are_near_those_of_brute_force() -> None:
    rng = random.Random(2)
    ratios = []
    for _ in range(60):
        needs = random_needs(rng, rng.randint(2, 5))
        best = best_peak(needs)
        assert lower_bound(needs) <= best
        ratios.append(peak(needs, pack(needs)) / best)
    assert min(ratios) == 1.0  # brute force is never beaten
    assert sum(ratio == 1.0 for ratio in ratios) >= 0.8 * len(ratios), ratios
    assert max(ratios) <= 1.5


def test_groups_never_share_bytes() -> None:
    rng = random.Random(3)
    for _ in range(40):
        needs = random_needs(rng, 10, groups=3)
        offsets = pack(needs)
        for (a, one), (b, other) in itertools.combinations(enumerate(needs), 2):
            if one.group != other.group:
                assert offsets[a] + one.bytes <= offsets[b] or offsets[b] + other.bytes <= offsets[a]


def test_sharing_is_bounded() -> None:
    # One large need before, and many small ones after: all could lie on its bytes.
    needs = [Need(ALIGNMENT * 300, ((0, 1),)), *(Need(ALIGNMENT, ((2, 3),)) for _ in range(300))]
    offsets = pack(needs)
    assert collisions(needs, offsets) == []
    assert sum(offset < ALIGNMENT * 300 for offset in offsets[1:]) <= MOST_SHARERS


def test_disjoint_needs_share_one_place() -> None:
    needs = [Need(ALIGNMENT * 4, ((i, i + 1),)) for i in range(20)]
    assert peak(needs, pack(needs)) == ALIGNMENT * 4 == lower_bound(needs)


def test_overlap_agrees_with_moments() -> None:
    rng = random.Random(4)
    for one, other in itertools.pairwise(random_needs(rng, 300)):
        moments = [{m for begin, end in need.times for m in range(begin, end)} for need in (one, other)]
        assert _overlap(one.times, other.times) == bool(moments[0] & moments[1])


@pytest.mark.parametrize("seed", range(40))
def test_a_rehearsed_order_is_served_throughout(seed: int) -> None:
    rng = random.Random(seed)
    requests = []
    for begin in rng.sample(range(400), 60):
        requests.append((ALIGNMENT * rng.choice([1, 2, 2, 8, 40]), begin, begin + rng.randint(1, 50)))
    slots = rehearse(requests)
    # The library's rule, written again: the smallest free slot that is large enough, the first of equal ones.
    sizes = [size for size, _ in slots]
    assert sizes == sorted(sizes)
    free_from = np.zeros(len(slots), dtype=int)
    for wanted, begin, end in sorted(requests, key=lambda r: r[1]):
        chosen = next((i for i, size in enumerate(sizes) if size >= wanted and free_from[i] <= begin), None)
        assert chosen is not None, f"{wanted} bytes at {begin}"
        assert (begin, end) in slots[chosen][1], "the rehearsal chose another slot, so its lifetime is not this one"
        free_from[chosen] = end
    most_live = max(sum(b <= moment < e for _, b, e in requests) for moment in range(460))
    assert most_live <= len(slots) <= most_live + len({size for size, _, _ in requests})
