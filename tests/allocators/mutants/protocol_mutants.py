"""Mutants of the default allocator's protocol: each undoes one step that its correctness rests on, and mix.cpp must find it.

A mutant is a replacement of text in a copy of the headers, so that what is explored is what ships, and nothing of it is in the product."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
SIMULATOR = ROOT / "build/host/simulator/libgpuheap_simulator.a"
SPANS = "allocators/sharded_spans/spans.hpp"
DRAIN = "allocators/sharded_spans/drain.hpp"
LARGE = "allocators/sharded_spans/large.hpp"
PARTIAL = "allocators/sharded_spans/partial.hpp"
REFILL = "allocators/sharded_spans/refill.hpp"
RESET = "allocators/sharded_spans/reset.hpp"
HEAP = "allocators/sharded_spans.hpp"
MAP = "structures/segment_map.hpp"
TREE = "structures/bitmap_tree.hpp"
SLOTS = "structures/slot_map.hpp"


@dataclass(frozen=True)
class Mutant:
    name: str
    header: str  # below include/gpuheap
    old: str  # occurs once
    new: str
    seeds: int = 60  # schedules within which it must be found


MUTANTS = [
    Mutant(
        "a span ends while its shard hands it out",
        SPANS,
        "if (h.is_active() || (h.bits & span_header::slots) == 0) return false;",
        "if ((h.bits & span_header::slots) == 0) return false;",
    ),
    Mutant("a reuse ends before its last group has accounted", PARTIAL, ".accounted() == num_claims;", ".accounted() + 1 >= num_claims;"),
    Mutant("an active span is acquired again", PARTIAL, "return is_active ? 0 : next;", "return next;"),
    Mutant("an ended span keeps its slots' bits", SPANS, "    at.slots_of(page).clear(at.span_slots(h), g.rank(), g.size());\n", ""),
    Mutant("an ended span keeps its tags", SPANS, "    clear_tags(page, h.of_segments(), g.rank(), h.length(), g.size());\n", ""),
    Mutant(
        "a shard is drained without a look at later claims",
        DRAIN,
        "if (at.shard(c, k).compare_exchange(seen, 0, simt::consume_release, simt::consume)) return w.bits;",
        "at.shard(c, k).store(0, simt::consume_release);\n      return w.bits;",
    ),
    Mutant(
        "a class is erased while a span of it is used up",
        DRAIN,
        "if (shard_word{word}.holds_a_span()) return true;",
        "if (shard_word{word}.has_room() || shard_word{word}.is_being_reset()) return true;",
    ),
    Mutant("what a split span gives back keeps its tags", DRAIN, "    this->clear_tags(page, h.of_segments(), kept, length, 1);\n", ""),
    Mutant(
        "a split span counts no group that became free by it",
        DRAIN,
        "    if (crossed != 0) at.header(page).fetch_add(crossed * span_header::full_one, simt::relay);\n    if (kept",
        "    if (kept",
    ),
    Mutant(
        "an idle span is taken over without a look at later claims",
        DRAIN,
        "if (!at.shard(where >> 4, where & 15).compare_exchange(expected, 0, simt::consume_release, simt::consume)) return 0;",
        "(void)expected;\n    at.shard(where >> 4, where & 15).store(0, simt::consume_release);",
    ),
    Mutant("an idle span that is taken apart keeps the end of its slots", DRAIN, "    at.slots_of(page).unprepare(num_slots);\n", ""),
    Mutant(
        "an idle span that is taken apart keeps its tags",
        DRAIN,
        "    this->clear_tags(page, h.of_segments(), 0, h.length(), 1);\n",
        "",
    ),
    Mutant(
        "what is left of a span that is taken over is lost",
        DRAIN,
        "    if (f.claimed.length != header.length()) release_units(shard_word{next}.page(), header, f.claimed.length);\n",
        "",
    ),
    Mutant(
        "lanes with consecutive slots of different spans free together",
        HEAP,
        "number = reinterpret_cast<simt::uint64_t>(map.words) * 8 + at.slot,",
        "number = at.slot,",
    ),
    Mutant(
        "a free loads the shard word after its bit is set",
        HEAP,
        "    bool const found_bits = (before",
        "    claimed = claims_of(at);\n    bool const found_bits = (before",
    ),
    Mutant("a free of a warp's lanes does not wait for them", HEAP, "    if (several) simt::sync_warp(here);\n    simt::fence", "    simt::fence"),
    Mutant(
        "a group that became free is counted without order",
        SPANS,
        "span_header const h{at.header(page).fetch_add(span_header::full_one, simt::relay) + span_header::full_one};",
        "span_header const h{at.header(page).fetch_add(span_header::full_one, simt::relaxed) + span_header::full_one};",
        seeds=400,
    ),
    Mutant(
        "a span is published without order",
        REFILL,
        "at.shard(c, k).exchange(used_up ? 0 : next.bits + d.wanted(), simt::consume_release);",
        "at.shard(c, k).exchange(used_up ? 0 : next.bits + d.wanted(), simt::relaxed);",
    ),
    Mutant(
        "a claim acquires nothing",
        HEAP,
        "bits = at_.shard(c, k).fetch_add(g.size(), simt::consume);",
        "bits = at_.shard(c, k).fetch_add(g.size(), simt::relaxed);",
    ),
    Mutant(
        "pages are taken that were taken",
        MAP,
        "if (got == mask) return {(s << lg_pages) + at, n, false};",
        "if (got != 0) return {(s << lg_pages) + at, n, false};",
    ),
    Mutant(
        "segments are taken that were taken",
        TREE,
        "if (missing == 0) continue;",
        "if (missing == 0 || before[0] != 0) continue;",
    ),
    Mutant("a lost row is not put back", TREE, "        if (got != 0) set_mask(i + k, got);\n", "        (void)got;\n"),
    Mutant(
        "pages come back without order",
        MAP,
        "bool const all = (pages_of(s).fetch_or(mask, simt::consume_release) | mask) == all_pages();",
        "bool const all = (pages_of(s).fetch_or(mask, simt::relaxed) | mask) == all_pages();",
    ),
    Mutant(
        "a segment becomes whole without a look at its pages",
        MAP,
        "if (!pages_of(s).compare_exchange(expected, 0, simt::consume_release, simt::relaxed)) return;",
        "pages_of(s).store(0, simt::relaxed);\n    (void)expected;",
    ),
    Mutant("a warp's pieces leave its segments whole", LARGE, "if (served) cut_extent(page, n * together, page + n * g.rank(), n);", ""),
    Mutant(
        "a span is reset while a slot is live",
        RESET,
        "return (h.unlike_active(group) | (full ^ expected) | live) == 0;",
        "(void)live;\n    return (h.unlike_active(group) | (full ^ expected)) == 0;",
    ),
    Mutant("a span that is reset keeps its slots' bits", RESET, "      theirs.reset(span.num_slots(), span.next(), g.rank(), g.size());\n", ""),
]


def occurrences(mutant: Mutant) -> int:
    """The number of places of its header that read as the mutant says."""
    return (ROOT / "include" / "gpuheap" / mutant.header).read_text().count(mutant.old)


def mutated(mutant: Mutant, into: Path) -> Path:
    """Copies the headers with the mutant into a folder, and returns it; ValueError if its text does not occur once."""
    include = into / "include"
    shutil.copytree(ROOT / "include", include)
    header = include / "gpuheap" / mutant.header
    if occurrences(mutant) != 1:
        raise ValueError(f"{mutant.name}: {occurrences(mutant)} places in {mutant.header} read as it says: correct its text")
    header.write_text(header.read_text().replace(mutant.old, mutant.new))
    return include


def program(include: Path, into: Path) -> Path:
    """Compiles mix.cpp over these headers."""
    made = into / "mix"
    # Where ./test puts Boost for a user who is not root.
    unpacked = [f"{option}{folder}" for folder in (ROOT / "build/deps/usr/lib").glob("*-linux-gnu") for option in ("-L", "-Wl,-rpath=")]
    subprocess.run(
        ["g++", "-std=c++20", "-O1", "-w", "-DGPUHEAP_BACKEND_HOST", f"-I{include}", f"-I{ROOT / 'simulator/include'}"]
        + [str(HERE / "mix.cpp"), "-o", str(made), str(SIMULATOR), *unpacked, "-lboost_context", "-lpthread"],
        check=True,
        capture_output=True,
        text=True,
    )
    return made


def explore(made: Path, seeds: int, seconds: float = 300) -> tuple[bool, str]:
    """Runs it: whether all schedules passed, and what it printed last. A program that ends by a signal or hangs has failed.

    Raises RuntimeError if the program did not begin."""
    try:
        ran = subprocess.run(
            [str(made), str(seeds)],
            env={**os.environ, "GPUHEAP_SIMULATOR_BUDGET": "3000000"},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return False, f"no end within {seconds:.0f} s"
    if ran.returncode == 127:  # the loader's answer where a library is missing
        raise RuntimeError(ran.stderr)
    lines = [line for line in ran.stdout.splitlines() if line.strip()]
    said = next((line for line in lines if "schedules" in line), lines[-1] if lines else "")
    return ran.returncode == 0, said if ran.returncode >= 0 else f"ended by signal {-ran.returncode}"
