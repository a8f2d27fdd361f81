"""The output of `gpuheap advise`."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuheap.answers.advice import Advice
from gpuheap.units import format_factor, format_value


def print_advice(console: Console, advice: Advice, folder: str) -> None:
    console.print(Text(advice.pattern.words, "bold"))
    if advice.ranked:
        console.print(_table(advice))
        console.print(f"measured on {advice.device}, {folder}; rows used:", style="bright_black", soft_wrap=True)
        for used in advice.used:
            console.print(f"  {used.words}", style="bright_black", soft_wrap=True)
        if advice.compared is not None:
            cuda = advice.compared
            free = "" if cuda.free_us is None else f", free {format_value(cuda.free_us, 'us')}"
            said = f"CUDA's malloc, for comparison: malloc {format_value(cuda.malloc_us, 'us')}{free}, {format_factor(cuda.times)} times the best"
            console.print(said, soft_wrap=True, highlight=False)
        if any(used.between is not None for used in advice.used):
            said = "values at a size that was not measured are interpolated between the next sizes, in the logarithms of size and time"
            console.print(said, style="bright_black", soft_wrap=True)
    elif advice.used:
        console.print("no measured allocator fits this pattern", style="yellow")
    else:
        console.print(f"no rows in {folder} are near this pattern", style="yellow", soft_wrap=True)
    for command in advice.to_run:
        console.print(f"to measure what is missing: {command}", style="yellow", soft_wrap=True)
    if advice.set_aside:
        console.print("set aside:")
        for name, why in advice.set_aside:
            console.print(f"  {name}: {why}", style="bright_black", soft_wrap=True)
    if advice.recommendations:
        console.print("the papers recommend:")
        for one in advice.recommendations:
            console.print(f"  {one.paper}, {one.at}: {one.says} ({_standing(advice, one.allocators)})", soft_wrap=True)


def as_object(advice: Advice) -> dict[str, Any]:
    pattern = advice.pattern
    return {
        "pattern": {
            "sizes": [pattern.low_bytes, pattern.high_bytes],
            "threads": pattern.threads,
            "granularity": pattern.granularity,
            "reuse": pattern.reuse,
            "memory": pattern.memory,
        },
        "device": advice.device if advice.used else None,
        "ranked": [
            {
                "allocator": one.allocator,
                "times": round(one.times, 4),
                "malloc_us": one.malloc_us,
                "free_us": one.free_us,
                "utilisation": one.utilisation,
                "points": one.points,
                "over_cuda": None if one.over_cuda is None else round(one.over_cuda, 4),
            }
            for one in advice.ranked
        ],
        "cuda": None
        if advice.compared is None
        else {"times": round(advice.compared.times, 4), "malloc_us": advice.compared.malloc_us, "free_us": advice.compared.free_us},
        "set_aside": dict(advice.set_aside),
        "rows": [
            {
                "suite": used.suite,
                "case": used.case,
                "threads": used.point[0],
                "bytes": used.point[1],
                "parameter": used.point[2],
                "metrics": list(used.metrics),
                "between": None if used.between is None else list(used.between),
            }
            for used in advice.used
        ],
        "to_run": list(advice.to_run),
        "papers": [
            {"paper": one.paper, "at": one.at, "says": one.says, "allocators": list(one.allocators)} for one in advice.recommendations
        ],
    }


def _table(advice: Advice) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    freed = any(one.free_us is not None for one in advice.ranked)
    tight = any(one.utilisation is not None for one in advice.ranked)
    most = max(one.points for one in advice.ranked)
    partial = any(one.points < most for one in advice.ranked)
    cuda = any(one.over_cuda is not None for one in advice.ranked)
    table.add_column("allocator", min_width=max(len(one.allocator) for one in advice.ranked))
    for column in (
        "times the best",
        "malloc",
        *(["free"] if freed else []),
        *(["faster than CUDA's malloc"] if cuda else []),
        *(["fills"] if tight else []),
        *(["points"] if partial else []),
    ):
        table.add_column(column, justify="right", overflow="fold")
    for number, one in enumerate(advice.ranked):
        cells = [format_factor(one.times), format_value(one.malloc_us, "us")]
        if freed:
            cells.append(format_value(one.free_us or 0, "us"))
        if cuda:
            cells.append("" if one.over_cuda is None else f"{format_factor(one.over_cuda)}×")
        if tight:
            cells.append("" if one.utilisation is None else f"{one.utilisation:.1%}")
        if partial:
            cells.append(f"{one.points} of {most}")
        table.add_row(Text(one.allocator, "bold green" if number == 0 else "default"), *cells)
    return table


def _standing(advice: Advice, names: tuple[str, ...]) -> str:
    """The rank and the ratio of the best-ranked of the named allocators, in words."""
    places = {one.allocator: (number, one.times) for number, one in enumerate(advice.ranked, start=1)}
    measured = sorted((places[name][0], name) for name in names if name in places)
    if not measured:
        return "not ranked here"
    number, name = measured[0]
    return f"here {name} is number {number} of {len(advice.ranked)}, {format_factor(places[name][1])} times the best"
