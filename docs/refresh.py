"""Writes all that recorded tables fill: the papers' pages, the summary of the evaluation, the standing, every picture, and the numbers that
other pages quote (docs/quotes.toml).

    python docs/refresh.py            # after `gpuheap bench` or `gpuheap merge` has written results/
    python docs/refresh.py --check    # changes nothing; names the stale files, and exits with 1 if there are any
    python docs/refresh.py --sentences [--before DIR] [--drop]

--check compares pages by their text, and pictures by the rows that they were drawn from (docs/images/drawn.json), which takes seconds.

--sentences lists the claims whose `why` is missing, needless, or to be read again: the verdict is the same, but numbers differ by over a tenth
from those of the tables in DIR, which holds the tables of before. --drop takes the needless ones out of benchmarks/claims.
It also lists the sentences of docs/quotes.toml that the tables contradict, as each refresh does.

The pictures of docs/images/host_srad are of one traced program (docs/host.md), not of tables.
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from gpuheap.answers.measured import Measured, find_measured
from gpuheap.answers.standing import SUITES as STANDING
from gpuheap.answers.standing import Standing, standing
from gpuheap.answers.standing_view import with_score
from gpuheap.catalogue import DEFAULT
from gpuheap.errors import UserError
from gpuheap.formats.suites import load_suites
from gpuheap.judging.coverage import Rows, figures_of, pictured
from gpuheap.judging.evidence import Evidence
from gpuheap.judging.judge import FAILS, Judged, judge_all
from gpuheap.judging.pages import SUITES as PAPERS
from gpuheap.judging.pages import evaluation_of, page_of, with_summary
from gpuheap.judging.quotes import Numbers, problems, read_quotes, with_quotes
from gpuheap.judging.reader import load_papers
from gpuheap.paths import Layout

DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
DRAWN = IMAGES / "drawn.json"
RESULTS = ROOT / "results" / "nvidia-h200"
QUOTES = DOCS / "quotes.toml"
LAYOUT = Layout(ROOT)
TOOLTIP = re.compile(r">\s*<title>[^<]*</title>\s*</use>")
NO_TURN = re.compile(r' transform="rotate\(-0 [^"]*\)"')
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
SENTENCE = re.compile(r'^why = (?:"""(?:.|\n)*?"""|.*)\n', re.MULTILINE)  # in a file of claims
CHANGED = 0.1  # the relative change of a number that calls for another look at the sentence


def standing_of(measured: Measured) -> Standing:
    traits = {str(entry["name"]): entry for entry in measured.environment.get("allocators") or []}
    return standing((row for row in measured.rows if row.suite in STANDING), traits)


def pages(measured: Measured) -> dict[Path, str]:
    """Every page with text from tables, as it is to be."""
    papers = load_papers(LAYOUT)
    told = evaluation_of(LAYOUT, papers, judge_all(papers, Evidence(measured.rows, measured.device)), measured.rows, measured.device)
    made = {DOCS / "evaluation" / f"{paper.name}.md": page_of(paper, told, IMAGES / "evaluation", "../images/evaluation") for paper in papers}
    made[DOCS / "evaluation.md"] = with_summary((DOCS / "evaluation.md").read_text(), told)
    found = standing_of(measured)
    numbers, quotes = Numbers(measured, found.score(DEFAULT)), read_quotes(QUOTES)
    made |= {ROOT / name: with_quotes(name, (ROOT / name).read_text(), quotes, numbers) for name in quotes.pages}
    suites = [name for name in STANDING if any(row.suite == name for row in measured.rows)]
    made[DOCS / "standing.md"] = with_score((DOCS / "standing.md").read_text(), found, DEFAULT, suites, measured.device)
    return made


def pictures(measured: Measured) -> dict[Path, tuple[str, str]]:
    """Every picture of tables, with the suite and the case that it shows; "" for all of the suite, or all suites.

    docs/images/evaluation has every figure of the papers that has rows, and the further cases whose pictures are there.
    """
    suites = load_suites(LAYOUT)
    cases = pictured(figures_of(PAPERS, suites, Rows(measured.rows)), suites)
    cases += [(path.stem.split("-", 1)[0], path.stem.split("-", 1)[1]) for path in sorted((IMAGES / "evaluation").glob("*.svg"))]
    found = {IMAGES / "evaluation" / f"{suite}-{case}.svg": (suite, case) for suite, case in cases}
    return found | {IMAGES / "quick.svg": ("quick", ""), IMAGES / "standing.svg": ("", ""), IMAGES / "time_against_memory.svg": ("survey", "")}


def lighter(picture: str) -> str:
    """A picture without tooltips, which the report has: an image in a page shows none."""
    return NO_TURN.sub("", TOOLTIP.sub(" />", picture)).replace("  ", " ")


def digests(measured: Measured) -> dict[str, str]:
    """The rows that each picture is drawn from, as a hash."""
    found = {}
    for path, (suite, case) in pictures(measured).items():
        suites = [suite] if suite else STANDING
        lines = [row.line for row in measured.rows if row.suite in suites and (not case or row.case == case)]
        found[path.relative_to(IMAGES).as_posix()] = hashlib.sha256("".join(lines).encode()).hexdigest()[:16]
    return found


def stale(measured: Measured) -> Iterator[str]:
    for path, text in pages(measured).items():
        if not path.exists() or path.read_text() != text:
            yield str(path.relative_to(ROOT))
    drawn = json.loads(DRAWN.read_text()) if DRAWN.exists() else {}
    now = digests(measured)
    for name in sorted(drawn.keys() | now.keys()):
        if drawn.get(name) != now.get(name):
            yield f"docs/images/{name}"


def draw(measured: Measured) -> None:
    from gpuheap.report import write_figures
    from gpuheap.report.profile import write_profile

    named = {f"{suite}-{case}": path for path, (suite, case) in pictures(measured).items() if suite and case} | {"quick": IMAGES / "quick.svg"}
    with tempfile.TemporaryDirectory() as folder:
        for path in write_figures(LAYOUT, Path(folder), only=named.keys()):
            if path.suffix == ".svg" and path.stem in named:
                named[path.stem].write_text(lighter(path.read_text(encoding="utf-8")), encoding="utf-8")
    write_profile(IMAGES / "standing.svg", standing_of(measured), DEFAULT)
    sys.path.insert(0, str(DOCS))
    import drawings

    for name, drawing in drawings.DRAWINGS.items():
        (IMAGES / name).write_text(drawing())
    DRAWN.write_text(json.dumps(digests(measured), indent=1, sort_keys=True) + "\n")


def contradicted(measured: Measured) -> list[str]:
    """The sentences of docs/quotes.toml that a person has to write anew, and why."""
    return list(problems(read_quotes(QUOTES), Numbers(measured, standing_of(measured).score(DEFAULT)))) if QUOTES.exists() else []


def judged_by(folder: Path) -> dict[str, Judged]:
    measured = find_measured(LAYOUT, folder)
    return {f"{one.claim.paper} {one.claim.name}": one for one in judge_all(load_papers(LAYOUT), Evidence(measured.rows, measured.device))}


def differ(one: str, other: str) -> bool:
    """Whether the numbers of two texts differ by over a tenth, or are not as many."""
    mine, theirs = ([float(number.replace(",", "")) for number in NUMBER.findall(text)] for text in (one, other))
    return len(mine) != len(theirs) or any(abs(a - b) > CHANGED * max(abs(a), abs(b)) for a, b in zip(mine, theirs, strict=True))


def sentences(before: Path | None, drop: bool) -> int:
    """Lists the sentences to write, to take out, to read again and to write anew. The number of those that are not only to be read."""
    now = judged_by(RESULTS)
    old = judged_by(before) if before is not None else {}
    missing = [name for name, one in now.items() if one.verdict == FAILS and not one.claim.why]
    needless = [name for name, one in now.items() if one.verdict != FAILS and one.claim.why]
    again = [name for name, one in now.items() if one.verdict == FAILS and one.claim.why and name in old and differ(one.numbers, old[name].numbers)]
    for title, names in (("without a sentence", missing), ("with a needless sentence", needless), ("to read again", again)):
        print(f"{len(names)} {title}")
        for name in names:
            one = now[name]
            print(f"  {one.claim.path.relative_to(ROOT)}:{one.claim.line} {name}: {one.verdict}\n    says: {one.claim.says}\n    here: {one.numbers}")
            if one.claim.why:
                print(f"    why:  {one.claim.why}")
            if name in old and old[name].numbers != one.numbers:
                print(f"    then: {old[name].verdict}: {old[name].numbers}")
    quoted = contradicted(find_measured(LAYOUT, RESULTS))
    print("\n  ".join([f"{len(quoted)} that the tables contradict", *quoted]))
    if drop:
        take_out([now[name] for name in needless])
        return len(missing) + len(quoted)
    return len(missing) + len(needless) + len(quoted)


def take_out(needless: Sequence[Judged]) -> None:
    for one in needless:
        path = one.claim.path
        before, mark, rest = path.read_text().partition(f'name = "{one.claim.name}"\n')
        own, following, others = rest.partition("\n[[claim]]\n")
        own = SENTENCE.sub("", own + "\n", count=1).removesuffix("\n")
        path.write_text(before + mark + own + following + others)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sentences", action="store_true")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--drop", action="store_true")
    asked = parser.parse_args(words)
    if asked.sentences:
        return 1 if sentences(asked.before, asked.drop) else 0
    measured = find_measured(LAYOUT, RESULTS)
    if asked.check:
        found = list(stale(measured))
        for name in found:
            print(f"{name} is not what the tables say: python docs/refresh.py writes it")
        return 1 if found else 0
    draw(measured)  # first, as pages name the pictures that are there
    for path, text in pages(measured).items():
        path.write_text(text)
    for problem in contradicted(measured):
        print(f"to write anew: {problem}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
