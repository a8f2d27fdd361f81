"""Writes the tables of docs/unchanged-programs.md from the list of programs and the measured results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuheap.errors import UserError
from gpuheap.files import replace_file
from gpuheap.unchanged.measure import BASELINE, PLAIN, RDC, RELINKED, RUN
from gpuheap.unchanged.programs import Program

BEGIN, END = "<!-- programs: begin -->", "<!-- programs: end -->"
COLUMNS = {PLAIN: "as built", RDC: "-rdc=true", RELINKED: "relinked", RUN: "`gpuheap run`"}


def write_into(page: Path, text: str) -> None:
    """Replaces the text between the page's two markers. Raises UserError for a page without them."""
    try:
        old = page.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{page}: the page cannot be read: {error.strerror}") from None
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        raise UserError(f"{page}: the tables go between the lines '{BEGIN}' and '{END}': write both once, in this order")
    before, after = old.split(BEGIN)[0], old.split(END)[1]
    replace_file(page, f"{before}{BEGIN}\n{text}{END}{after}")


def tables(programs: Sequence[Program], results: Mapping[str, Any]) -> str:
    measured = results.get("programs", {})
    parts = []
    machine = results.get("machine", {})
    if machine:
        parts.append(", ".join(f"{key}: {value}" for key, value in machine.items()) + ".\n")
    shown = [program for program in programs if program.name in measured and not program.fails]
    forms = [form for form in COLUMNS if any(form in measured[program.name] for program in shown)]
    if shown:
        parts.append(_times(shown, measured, forms))
        parts.append(_answers(shown, measured, [form for form in forms if form in BASELINE]))
        notes = [f"- {program.name}: {program.note}\n" for program in shown if program.note]
        parts.extend(["".join(notes)] if notes else [])
    parts.append(_sources(programs))
    return "\n".join(parts)


def _times(programs: Sequence[Program], measured: Mapping[str, Any], forms: Sequence[str]) -> str:
    """The table of times: seconds of the whole program, milliseconds of its kernels if it prints them, and how many times as fast each served form is."""
    served = [form for form in forms if form in BASELINE]
    rows = [["program", *(COLUMNS[form] for form in forms), *(f"{COLUMNS[form]}: times as fast" for form in served)]]
    for program in programs:
        entry = measured[program.name]
        rows.append([program.name, *(_time(entry.get(form)) for form in forms), *(_factor(entry, form) for form in served)])
    return _markdown(rows, right_from=1)


def _factor(entry: Mapping[str, Any], form: str) -> str:
    """How many times as fast a served form is as the same objects on CUDA's malloc: the whole program, and its kernels in parentheses.

    A program that its authors build with -rdc=true has no form `-rdc=true` of its own; the form `as built` takes its place.
    """
    base, served = entry.get(BASELINE[form], entry.get(PLAIN, {})), entry.get(form, {})
    if "seconds" not in base or "seconds" not in served:
        return "-"
    kernels = f" ({significant(base['kernel_ms'] / served['kernel_ms'])})" if base.get("kernel_ms") and served.get("kernel_ms") else ""
    return significant(base["seconds"] / served["seconds"]) + kernels


def _time(entry: Mapping[str, Any] | None) -> str:
    if entry is None or "seconds" not in entry:
        return "-"
    kernels = f" ({significant(entry['kernel_ms'])} ms)" if "kernel_ms" in entry else ""
    return f"{significant(entry['seconds'])} s{kernels}"


def _answers(programs: Sequence[Program], measured: Mapping[str, Any], forms: Sequence[str]) -> str:
    """The table of answers: for each served form the comparison of its output, the most that its heap held, and what memcheck found."""
    rows = [["program", *(f"{COLUMNS[form]}: {what}" for form in forms for what in ("output", "held at most", "memcheck"))]]
    for program in programs:
        entry = measured[program.name]
        cells = [cell for form in forms for cell in _answers_of(entry.get(form))]
        rows.append([program.name, *cells])
    return _markdown(rows)


def _answers_of(entry: Mapping[str, Any] | None) -> tuple[str, str, str]:
    return output_words(entry), heap_words(entry), memcheck_words(entry)


def heap_words(entry: Mapping[str, Any] | None) -> str:
    """The most that the heap of a served program held, and its failed requests, from the heap's report at exit."""
    if entry is None or "heap" not in entry:
        return "-"
    heap = entry["heap"]
    if heap is None:
        return "no report"
    failed = f", **{heap['failed']:,} requests found no memory**" if heap["failed"] else ""
    return str(heap.get("held", "not reported")) + failed


def output_words(entry: Mapping[str, Any] | None) -> str:
    """The comparison of outputs. `varies`: with CUDA's malloc too, the program's output differs from run to run."""
    if entry is None or "output" not in entry:
        return "-"
    check = {True: ", own check passed", False: ", **own check failed**"}.get(entry.get("check", None), "")
    output = entry["output"]
    return (output if output == "varies" or output.startswith("equal") else f"**{output}**") + check


def memcheck_words(entry: Mapping[str, Any] | None) -> str:
    if entry is None or "memcheck" not in entry:
        return "-"
    if entry["memcheck"] is None:
        return "not finished"
    new = entry.get("memcheck_new")
    if new is None:
        return "not finished on CUDA's malloc"
    part = f" ({entry['memcheck_part']})" if "memcheck_part" in entry else ""
    if not new and entry.get("memcheck_exit"):
        return f"**no finding, but exit code {entry['memcheck_exit']}**{part}"
    return (f"**{'; '.join(new)}**" if new else "nothing new" if entry["memcheck"] else "nothing") + part


def _sources(programs: Sequence[Program]) -> str:
    rows = [["program", "what it is", "allocates in kernels", "source", "licence"]]
    rows += [[each.name, each.what, each.allocates, _source(each), each.licence] for each in programs if not each.fails]
    failed = [["not measured", "what it is", "source", "because"]]
    failed += [[each.name, each.what, _source(each), each.fails] for each in programs if each.fails]
    return _markdown(rows) + ("\n" + _markdown(failed) if len(failed) > 1 else "")


def _source(program: Program) -> str:
    return f"[{program.repository}](https://github.com/{program.repository}/tree/{program.commit}) `{program.path}`"


def _markdown(rows: Sequence[Sequence[str]], right_from: int | None = None) -> str:
    right = len(rows[0]) if right_from is None else right_from
    lines = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("---:" if index >= right else "---" for index in range(len(rows[0]))) + "|")
    return "\n".join(lines) + "\n"


def significant(value: float) -> str:
    """Formats a value with three significant digits and without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.6f}".rstrip("0").rstrip(".") or "0"
