"""The claims of the repository, and the command that judges them."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
from extent import in_full
from fake_checkout import REPOSITORY, Checkout
from handmade import BETTER, CLAIM, HEAD, failed, row, save
from synthetic import rows_of_suites

from gpuheap.answers.measured import find_measured
from gpuheap.formats.results import Row
from gpuheap.formats.suites import Suite, load_suites
from gpuheap.judging import certainty, draws
from gpuheap.judging.evidence import Evidence
from gpuheap.judging.judge import FAILS, UNMEASURED, VERDICTS, check_suites, judge_all
from gpuheap.judging.language import sides_of
from gpuheap.judging.reader import load_papers
from gpuheap.metrics import METRICS
from gpuheap.paths import Layout

ErrorLine = Callable[[subprocess.CompletedProcess[str]], str]

PAPERS = load_papers(Layout(REPOSITORY))
CLAIMS = [claim for paper in PAPERS for claim in paper.claims]
# Cases of the papers' suites, as the design names them.
CASES = {
    "survey": set(
        "init registers alloc_single alloc_warp alloc_mixed alloc_scaling fragmentation utilisation work_generation memory_access "
        "graph_init graph_update graph_update_focused".split()
    ),
    "regeff": {"alloc_dealloc", "alloc_cycle_dealloc", "probability", "kdtree_queue", "presplit"},
}
CASES |= {name: set(load_suites(Layout(REPOSITORY))[name].cases) for name in ("programs", "rules")}
CASES["coalescing"] = {"linear", "quadratic", "mpi_reduce", "mpi_broadcast", "mpi_alltoall"}
CASES["gallatin"] = CASES["survey"] | {"alloc_large", "graph_expansion", "graph_skewed"}


def test_the_papers_claims_are_there() -> None:
    assert {paper.name for paper in PAPERS} == {"survey", "gallatin", "regeff", "coalescing", "programs"}
    assert len(CLAIMS) >= 60
    assert all(len([claim for claim in CLAIMS if claim.paper == paper.name]) >= 20 for paper in PAPERS)
    assert len({(claim.paper, claim.says) for claim in CLAIMS}) == len(CLAIMS)
    against_scatteralloc = [claim for claim in CLAIMS if "1.13 to 4.33" in claim.says]
    assert len(against_scatteralloc) == 2


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.paper}-{claim.name}")
def test_a_claim_means_cases_of_the_papers_suites(claim) -> None:
    if claim.relation is None:
        assert claim.published
        return
    for side in sides_of(claim.relation):
        assert side.case in CASES[side.suite]
        assert side.metric in METRICS
        assert side.of


def test_claims_fit_the_suites_of_the_repository() -> None:
    """Every side means points of its suite, as far as the repository has it: a mistyped axis would make a claim unmeasured for ever."""
    suites = load_suites(Layout(REPOSITORY))
    for paper in PAPERS:
        for claim in paper.claims:
            if all(side.suite in suites for side in claim.sides):
                one = type(paper)(paper.name, paper.title, paper.cite, paper.machine, (claim,), paper.path)
                check_suites([one], suites)


def in_whole(suites: Mapping[str, Suite]) -> Mapping[str, Suite]:
    return suites


def cut_as_by_quick(suites: Mapping[str, Suite]) -> Mapping[str, Suite]:
    """The suites as --quick runs them; those of programs, which the claims' points do not fit, as they are."""
    return {
        name: suite if suite.programs else replace(suite, cases={case: {"cuda": on["cuda"].cut()} for case, on in suite.cases.items()})
        for name, suite in suites.items()
    }


@pytest.mark.parametrize("as_run", [pytest.param(in_whole, marks=pytest.mark.whole), cut_as_by_quick])
def test_once_all_suites_were_run_every_claim_is_judged(as_run: Callable[[Mapping[str, Suite]], Mapping[str, Suite]]) -> None:
    suites = as_run(load_suites(Layout(REPOSITORY)))
    source = random.Random(1)
    # A row for every metric at every point of every suite, but where an allocator cannot do the case.
    rows = rows_of_suites(suites, lambda _name, _fields, metric: [0.0 if metric == "failed_requests" else source.uniform(1, 2)])
    found = judge_all(PAPERS, Evidence(rows))
    there = [one for one in found if all(side.suite in suites for side in one.claim.sides)]
    unmeasured = [f"{one.claim.name}: {one.numbers}" for one in there if one.verdict == UNMEASURED]
    assert not unmeasured
    assert [f"{one.claim.name}: {one.numbers}" for one in there if "no rows of" in one.numbers] == []


def test_every_claim_that_fails_by_the_recorded_rows_says_why_and_no_other() -> None:
    measured = find_measured(Layout(REPOSITORY), REPOSITORY / "results" / "nvidia-h200")
    judged = judge_all(PAPERS, Evidence(measured.rows, measured.device))
    assert [one.claim.name for one in judged if one.verdict == FAILS and not one.why] == []
    assert [one.claim.name for one in judged if one.verdict != FAILS and one.claim.why] == []


def random_rows(seed: int) -> list[Row]:
    """Rows of what claims ask for, with every way to fail among them; whole sweeps are missing."""
    source = random.Random(seed)
    rows: dict[tuple[object, ...], Row] = {}
    sides = [side for claim in CLAIMS for side in claim.sides]
    parameters = (
        "",
        "state=warm",
        "state=cold;which=free",
        "which=malloc;page=4096;scene=a",
        "page=0;scene=b;heap=2GiB",
        "iterations=10;state=warm",
    )
    for side in sides:
        if source.random() < 0.2:
            continue
        metric = METRICS[side.metric].name
        for name in side.of:
            if name == "same" or source.random() < 0.1:
                continue
            for _ in range(4):
                threads, size = source.choice([None, 1, 32, 10_000, 100_000]), source.choice([None, 4, 16, 64, 2048, 8192])
                point = {"suite": side.suite, "case": side.case, "threads": threads, "size": size, "parameter": source.choice(parameters)}
                status = source.choice(["ok", "ok", "ok", "timeout", "crash", "wrong", "unsupported"])
                value = source.choice([0.0, 1e-9, 0.5, 1.0, 3.0, 1e12, source.random()])
                one = row(name, value, metric=metric, **point) if status == "ok" else failed(name, status, **point)  # type: ignore[arg-type]
                rows.setdefault((*one.key, one.metric), one)
                if status == "ok" and source.random() < 0.1:
                    failed_requests = row(name, 2.0, metric="failed_requests", **point)  # type: ignore[arg-type]
                    rows.setdefault((*failed_requests.key, "failed_requests"), failed_requests)
    return list(rows.values())


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A twentieth of the draws, for rows of every form, whose verdicts mean nothing."""
    draws.draws.cache_clear()  # it keeps the statistics of all draws of a measurement
    monkeypatch.setattr(certainty, "FEW_DRAWS", 3)
    for module in (certainty, draws):
        monkeypatch.setattr(module, "DRAWS", 20)
    yield
    draws.draws.cache_clear()


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("seed", range(12 if in_full() else 3))
def test_judging_ends_in_a_verdict_whatever_the_rows(seed: int) -> None:
    found = judge_all(PAPERS, Evidence(random_rows(seed)))
    assert len(found) == len(CLAIMS)
    assert {one.verdict for one in found} == set(VERDICTS)
    assert all(one.numbers for one in found)


def with_claims(checkout: Checkout) -> Checkout:
    folder = checkout.root / "benchmarks" / "claims"
    folder.mkdir()
    (folder / "small.toml").write_text(HEAD + CLAIM + BETTER + CLAIM.replace("one", "two") + BETTER.replace("halloc", "scatteralloc"))
    return checkout


def test_claims_says_what_to_run_where_nothing_was_measured(checkout: Checkout) -> None:
    ran = with_claims(checkout).gpuheap("claims")
    assert ran.returncode == 0, ran.stderr
    assert "2 claims: 2 not measured" in ran.stdout
    assert "gpuheap bench survey\n" in ran.stdout


def test_claims_prints_verdicts_and_numbers(checkout: Checkout) -> None:
    with_claims(checkout)
    save(checkout.root / "results" / "nvidia-h200" / "survey.csv", [row("halloc", 2), row("cuda_malloc", 6)])
    out = checkout.gpuheap("claims").stdout
    assert "3.0 times: halloc 2 µs, cuda_malloc 6 µs" in out
    assert "2 claims: 1 holds, 1 not measured" in out
    assert "gpuheap bench survey/alloc_single\n" in out
    assert "no claims of that verdict" in checkout.gpuheap("claims", "--verdict", "published").stdout
    said = json.loads(checkout.gpuheap("claims", "--json", "--verdict", "holds").stdout)
    (claim,) = said["claims"]
    assert (claim["name"], claim["verdict"], claim["points"], claim["rows"]) == ("one", "holds", 1, ["survey/alloc_single"])
    assert said["to_run"] == []
    for named in (["--paper", "small"], ["small"], ["small", "--paper", "small"]):
        ran = checkout.gpuheap("claims", *named, "--verdict", "holds")
        assert ran.returncode == 0 and "two" not in ran.stdout


def test_claims_says_why_a_claim_fails(checkout: Checkout) -> None:
    folder = with_claims(checkout).root / "benchmarks" / "claims"
    head = HEAD.replace('suite = "survey"', 'suite = "survey"\nwhy_on = "nvidia-h200"')
    slower, other = (f'why = "{name} is slower here."\n' for name in ("Halloc", "ScatterAlloc"))
    two = CLAIM.replace('"one"', '"two"') + BETTER.replace("halloc", "scatteralloc")
    (folder / "small.toml").write_text(head + CLAIM + BETTER + slower + two + other)
    rows = [row("halloc", 9), row("cuda_malloc", 6), row("scatteralloc", 2)]
    save(checkout.root / "results" / "nvidia-h200" / "survey.csv", rows)
    out = checkout.gpuheap("claims").stdout
    assert "Halloc is slower here." in out
    assert "0.67 times" in out
    assert "ScatterAlloc is slower here." not in out
    said = json.loads(checkout.gpuheap("claims", "--json").stdout)["claims"]
    assert {claim["name"]: claim["why"] for claim in said} == {"one": "Halloc is slower here.", "two": ""}
    assert checkout.gpuheap("claims", "--pages", "pages").returncode == 0
    page = (checkout.root / "pages" / "small.md").read_text()
    assert "| does not hold here (95 %, by percentiles) | Halloc is slower here. | 0.67 times" in page
    assert "ScatterAlloc is slower here." not in page
    # The sentences speak of the rows of one GPU.
    save(checkout.root / "elsewhere" / "nvidia-a40" / "survey.csv", rows)
    assert "slower here" not in checkout.gpuheap("claims", "--results", "elsewhere/nvidia-a40").stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--paper", "smal"], "unknown paper 'smal': did you mean 'small'? There are small"),
        (["SMALL"], "unknown paper 'SMALL': did you mean 'small'? There are small"),
        (["small", "zzz"], "unknown paper 'zzz': there are small"),
        (["--json", "--pages", "pages"], "--json and --pages exclude each other: choose one"),
        (["--verdict", "hold"], "unknown verdict 'hold': did you mean 'holds'?"),
        (["--results", "nowhere"], "--results: there is no folder 'nowhere'"),
        (["--pages", "/dev/null"], "/dev/null is a file, and a folder is needed: name another folder with --pages"),
    ],
)
def test_a_mistake_of_claims_is_one_line(checkout: Checkout, error_line: ErrorLine, arguments: list[str], complaint: str) -> None:
    assert complaint in error_line(with_claims(checkout).gpuheap("claims", *arguments))


def test_claims_takes_one_gpu_and_no_simulator(checkout: Checkout, error_line: ErrorLine) -> None:
    with_claims(checkout)
    simulated = save(checkout.root / "simulated" / "survey.csv", [row("halloc", 2, backend="simulator")])
    assert "holds results of the simulator only" in error_line(checkout.gpuheap("claims", "--results", str(simulated.parent)))
    for gpu in ("nvidia-a40", "nvidia-h200"):
        save(checkout.root / "results" / gpu / "survey.csv", [row("halloc", 2), row("cuda_malloc", 6)])
    words = error_line(checkout.gpuheap("claims"))
    assert "results of several GPUs: name one with --results: results/nvidia-a40, results/nvidia-h200" in words
    assert "1 holds" in checkout.gpuheap("claims", "--results", "results/nvidia-a40").stdout
    words = error_line(checkout.gpuheap("claims", "--results", "results"))
    assert "--results: the folder 'results' holds no table itself: name one in it: results/nvidia-a40, results/nvidia-h200" in words


def test_a_bad_table_is_one_line_and_stays_as_it_was(checkout: Checkout, error_line: ErrorLine) -> None:
    with_claims(checkout)
    path = save(checkout.root / "results" / "nvidia-h200" / "survey.csv", [row("halloc", 2)])
    path.write_text(path.read_text() + "survey,alloc_single,cu")
    before = path.read_bytes()
    assert f"{path}:3: the line ends in the middle" in error_line(checkout.gpuheap("claims"))
    assert path.read_bytes() == before
