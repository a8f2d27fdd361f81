"""`gpuheap host validate`: runs a program three times, and writes a proof of the pairs whose downloads (transfers to the host) need no copy.

The first run is plain. The second makes every copy and watches each pair (rehearsal.py). The third drops the copies of the proven pairs. All three must
print the same output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from gpuheap.errors import UserError
from gpuheap.files import make_folder, replace_file
from gpuheap.host.advise.runs import digest, patterns_of
from gpuheap.host.folders import prepare, remove
from gpuheap.host.history import History, history_of
from gpuheap.host.launch import find_merging_library, find_program
from gpuheap.host.plan import Plan, make_plan
from gpuheap.host.pooling import profile_of
from gpuheap.host.proof import Proven, make_room, proof_of
from gpuheap.host.rehearsal import Verdict, verdicts
from gpuheap.host.stacks import Symbols
from gpuheap.host.trace import Stack, find_traces, read_trace
from gpuheap.host.variables import for_merging, preloaded
from gpuheap.paths import find_layout
from gpuheap.running.process import run_process
from gpuheap.units import format_bytes, format_count

_OWN = {"plain.out", "plain.err", "rehearsal", "rehearsal.out", "rehearsal.err", "trial", "trial.out", "trial.err", "pools.plan"}
_LIMIT_S = 24 * 3600.0
EXIT_UNPROVEN = 1


@dataclass(frozen=True)
class Wanted:
    words: Sequence[str]
    profile: Path
    output: Path  # the file for the proof
    folder: Path  # the folder for the traces of the runs
    ignored: Sequence[str]
    only: str


def validated(wanted: Wanted, console: Console) -> int:
    """Runs the command. Returns the exit code: 0 if it wrote a proof that has pairs."""
    library = find_merging_library(find_layout())
    program = find_program(wanted.words)
    only = wanted.only or program.name
    plan = make_plan(profile_of(wanted.profile, program, wanted.only), paged=True)
    runs = _Runs(wanted, prepare(wanted.folder, _OWN, "the validation runs"), patterns_of(wanted.ignored))
    make_room(wanted.output)
    plain = runs.run("plain")

    def merged(name: str, use: str, of: Plan) -> tuple[int, str]:
        make_folder(runs.folder / name)
        file = runs.folder / "pools.plan"
        replace_file(file, of.text())
        return runs.run(name, preloaded(library, for_merging(runs.folder / name, only, use, file)))

    if merged("rehearsal", "rehearse", plan) != plain:
        return _differs(console, "with pools and every copy made", runs.folder, wanted)
    histories = [history_of(read_trace(path)) for path in find_traces(runs.folder / "rehearsal")]
    found = verdicts(histories)
    print_verdicts(console, found, histories)
    proven = tuple(Proven(each.host_site, each.device_site, each.downloads, each.bytes) for each in found if each.proven)
    if not proven:
        console.print("no pair is proven: pool this program without --elide", soft_wrap=True)
        remove(runs.folder)
        return EXIT_UNPROVEN
    proof = proof_of(wanted.words, plan, proven)
    if merged("trial", "elide", Plan(plan.driver, plan.devices, plan.pools, plan.left_out, proof.sites)) != plain:
        return _differs(console, "with the copies dropped", runs.folder, wanted)
    counts = [read_trace(path).counters for path in find_traces(runs.folder / "trial")]
    elided, undone = (sum(each[name] for each in counts) for name in ("elided", "separated"))
    if undone or sum(each["not_elided"] for each in counts) or elided != sum(each.downloads for each in proven):
        console.print("the program behaves differently from run to run, so a proof of one run does not hold for the next: none is written", soft_wrap=True)
        return EXIT_UNPROVEN
    replace_file(wanted.output, proof.text(), "name another file with -o")
    remove(runs.folder)
    size = format_bytes(sum(each.bytes for each in proven))
    words = f"{format_count(elided)} downloads, {size}, need no copy"
    console.print(f"proof: {wanted.output}: {words} (gpuheap host pool --mode zero-copy --elide)", soft_wrap=True)
    return 0


@dataclass(frozen=True)
class _Runs:
    wanted: Wanted
    folder: Path
    ignored: Sequence[re.Pattern[bytes]]

    def run(self, name: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
        """Runs the program. Returns its exit code and the digest of its output. Raises UserError for a run that a signal ended."""
        output, errors = self.folder / f"{name}.out", self.folder / f"{name}.err"
        ended = run_process(self.wanted.words, environment or os.environ, output, errors, _LIMIT_S)
        if ended.code is None or ended.code < 0:
            raise UserError(f"the program was ended by signal {-(ended.code or 0)} in the run '{name}': nothing is proven; its error output is in {errors}")
        return ended.code, digest(output, self.ignored)


def _differs(console: Console, how: str, folder: Path, wanted: Wanted) -> int:
    console.print(
        f"the run {how} printed other bytes than the plain run, or ended with another code: nothing is proven. Compare the .out files in {folder}; "
        "if lines differ from run to run by themselves, as times do, leave them out with --ignore REGEX",
        style="red", soft_wrap=True,
    )  # fmt: skip
    return EXIT_UNPROVEN


def print_verdicts(console: Console, found: Sequence[Verdict], histories: Sequence[History]) -> None:
    if not found:
        console.print("no device buffer is copied with the host", soft_wrap=True)
        return
    stacks: dict[int, Stack] = {stack.site: stack for history in histories for stack in history.trace.stacks.values()}
    symbols = Symbols()
    symbols.learn(stacks.values())
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("device buffers from", "host buffers from", "downloads", "bytes", ""):
        table.add_column(column, justify="right" if column in ("downloads", "bytes") else "left", overflow="fold")
    for each in found:
        host = symbols.site_words(stacks[each.host_site]) if each.host_site in stacks else ""
        table.add_row(
            symbols.site_words(stacks.get(each.device_site)), host, format_count(each.downloads), format_bytes(each.bytes), each.why or "proven",
            style="" if each.proven else "bright_black",
        )  # fmt: skip
    console.print(table)
