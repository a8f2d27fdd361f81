"""Judging a relation in many draws at once says the same as judging it draw by draw."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from handmade import failed, row

from gpuheap.formats.results import Row, summarise
from gpuheap.judging import language as say
from gpuheap.judging.draws import Drawn, held_in_draws, hold_in_draws
from gpuheap.judging.evidence import Evidence
from gpuheap.judging.relations import NotMeasured, hold

ALLOCATORS = ("halloc", "cuda_malloc", "scatteralloc", "gallatin")
NUMBERS = range(5, 45)


def random_rows(source: random.Random) -> list[Row]:
    """Rows of some allocators at some points, most of them ok, with much noise, little or none."""
    rows = []
    for name in ALLOCATORS:
        for size in (16, 64, 256, 1024):
            for threads in (32, 1024):
                status = source.choice(["ok"] * 8 + ["timeout", "crash", "none", "failed"])
                point = {"size": size, "threads": threads}
                noise = source.choice([0.0, 0.01, 0.5])
                values = tuple(source.choice([1.0, 2.0]) * max(0.0, source.gauss(1, noise)) for _ in range(source.choice([1, 8])))
                if status == "ok":
                    rows.append(replace(row(name, 1.0, runs=len(values), **point), statistics=summarise(values), values=values))
                elif status == "failed":
                    rows += [row(name, 1.0, **point), row(name, 2.0, metric="failed_requests", **point)]
                elif status != "none":
                    rows.append(failed(name, status, **point))
    return rows


def random_side(source: random.Random, of: tuple[str, ...]) -> say.Side:
    pick = source.choice(say.PICKS)
    return say.Side(of, "survey", "alloc_single", source.choice(["malloc_us", "throughput"]), pick=pick, apart=source.random() < 0.5)


def random_relation(source: random.Random, depth: int = 0) -> say.Relation:
    names = random.Random(source.random()).sample(ALLOCATORS, 4)
    kind = source.choice(["better", "better", "order", "winners", "alike"] + ["together"] * (depth == 0))  # a part has no parts
    over, by = source.choice(say.QUANTIFIERS), source.choice([None, ("size",), ()])
    left, right = random_side(source, tuple(names[:2])), random_side(source, tuple(names[2:]))
    right = replace(right, metric=left.metric)
    if kind == "better":
        factor = source.choice([say.Span(1, open=True), say.Span(high=1, open=True), say.Span(0.8, 2), say.Span(1), say.Span(high=1.5)])
        return say.Better(left, replace(right, of=(say.SAME,)) if source.random() < 0.2 else right, factor, over, by)
    if kind == "order":
        return say.Order((left, right, replace(left, of=(names[1],))), over, by)
    if kind == "alike":
        return say.Alike(replace(left, pick="each"), 2.0, over, by)
    if kind == "winners":
        return say.Winners(replace(left, of=ALLOCATORS, pick="each"), say.Span(2), by)
    parts = tuple(random_relation(source, depth + 1) for _ in range(source.randint(1, 3)))
    return source.choice([say.AllOf, say.MostOf, say.AnyOf])(parts)


@pytest.mark.parametrize("seed", range(60))
def test_at_once_is_as_one_by_one(seed: int) -> None:
    source = random.Random(seed)
    evidence = Evidence(random_rows(source))
    judged = 0
    for _ in range(12):
        relation = random_relation(source)
        drawn = Drawn(evidence, source.choice([1.0, 3.0, float("inf")]))
        wanted, comparisons = [], []
        try:
            for drawn.draw in NUMBERS:
                votes = hold(relation, drawn).votes
                wanted.append(votes.holds)
                comparisons.append(votes.comparisons())
        except NotMeasured as why:
            with pytest.raises(NotMeasured, match=r"(?s).*") as raised:
                hold_in_draws(relation, drawn, NUMBERS)
            assert str(raised.value) == str(why)
            continue
        votes, held = hold_in_draws(relation, drawn, NUMBERS)
        assert [list(map(bool, each)) for each in zip(*held, strict=True)] == comparisons, relation
        assert held_in_draws(votes, iter(held)).tolist() == wanted, relation
        judged += 1
    assert judged >= 3
