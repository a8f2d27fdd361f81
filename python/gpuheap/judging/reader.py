"""Reads files of claims. Every message about a mistake in a file names the file and the line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from gpuheap.catalogue import ALLOCATORS, BASELINES, MODES
from gpuheap.errors import UserError, unknown_name
from gpuheap.formats.bounds import Condition, read_condition
from gpuheap.judging import language as say
from gpuheap.judging.lines import Source
from gpuheap.metrics import METRICS
from gpuheap.paths import Layout

_FILE_KEYS = ("paper", "groups", "claim")
_PAPER_KEYS = ("name", "title", "cite", "machine", "suite", "headline", "differs", "why_on")
_CLAIM_KEYS = ("name", "says", "at", "published", "part", "why")
_LONGEST_WHY = 200  # in characters
_SELECTING = ("suite", "case", "metric", "where", "statistic")
_SIDE_KEYS = ("of", *_SELECTING, "pick", "apart")
# For each relation, the required keys and the optional keys, without the keys that select rows.
_RELATION_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "better": (("left", "right"), ("factor", "over", "by")),
    "order": (("order",), ("over", "by")),
    "value": (("left", "within"), ("over",)),
    "alike": (("left", "factor"), ("over", "by")),
    "trend": (("left", "axis", "shape"), ("factor", "over")),
    "jump": (("left", "axis", "at_value"), ("factor", "over")),
    "peak": (("left", "axis", "at_value"), ("over",)),
    "crossover": (("left", "right", "axis", "at_value"), ("over",)),
    "first_failure": (("left", "axis", "at_value"), ("over",)),
    "status": (("left", "is"), ("over",)),
    "winners": (("left", "within"), ("by",)),
    "all_of": (("part",), ()),
    "most_of": (("part",), ()),
    "any_of": (("part",), ()),
}
_OF_PARTS: dict[str, type[say.AllOf] | type[say.MostOf] | type[say.AnyOf]] = {"all_of": say.AllOf, "most_of": say.MostOf, "any_of": say.AnyOf}
_DEFAULT_FACTOR = {"flat": 2.0, "rising": 1.1, "falling": 1.1, "linear": 0.9}


def load_papers(layout: Layout) -> tuple[say.Paper, ...]:
    """The claims of all papers, in the order of the files' names."""
    paths = sorted(layout.claims.glob("*.toml"))
    if not paths:
        raise UserError(f"no claims in {layout.shown(layout.claims)}")
    papers = [load_paper(path) for path in paths]
    for paper in papers:
        twin = next(other for other in papers if other.name == paper.name)
        if twin is not paper:
            raise UserError(f"{paper.path}:1: paper '{paper.name}' is also in {twin.path.name}")
    return tuple(papers)


def load_paper(path: Path) -> say.Paper:
    source = Source(path)
    for key in source.said:
        if key not in _FILE_KEYS:
            raise UserError(f"{path}:{source.line_of(key, 1, 1)}: {unknown_name('key', key, _FILE_KEYS)}")
    head = (source.tables("paper") or [(1, 1)])[0]
    paper = _Words(source, source.said.get("paper", {}), *head, "[paper]")
    paper.know(_PAPER_KEYS)
    name = paper.text("name")
    groups = _groups(source)
    entries = source.said.get("claim", [])
    places = source.tables("claim")
    if not isinstance(entries, list) or len(entries) != len(places) or not entries:
        raise UserError(f"{path}:1: expected claims, each under a line [[claim]]")
    claims: list[say.Claim] = []
    for entry, place in zip(entries, places, strict=True):
        words = _Words(source, entry, *place, "claim")
        claim = _claim(words, name, paper.said.get("suite", ""), groups)
        if "why" in entry:
            claim = dataclasses.replace(claim, why=_why(words, claim.name), why_on=paper.text("why_on"))
        twin = next((other for other in claims if other.name == claim.name), None)
        if twin is not None:
            words.complain("name", f"'{claim.name}' is also the claim of line {twin.line}")
        claims.append(claim)
    headline = paper.said.get("headline", [])
    if not isinstance(headline, list):
        paper.complain("headline", "headline must be a list of claims")
    for claim_name in headline:
        if claim_name not in [claim.name for claim in claims]:
            paper.complain("headline", str(unknown_name("claim", str(claim_name), [claim.name for claim in claims])))
    differs = paper.said.get("differs", [])
    if not isinstance(differs, list) or not all(isinstance(sentence, str) and sentence.endswith(".") for sentence in differs):
        paper.complain("differs", "differs must be a list of sentences, each with a full stop")
    head_of = (name, paper.text("title"), paper.text("cite"), paper.text("machine"))
    return say.Paper(*head_of, tuple(claims), path, tuple(headline), tuple(differs))


@dataclass(frozen=True)
class _Words:
    """A table of the file, with the lines that it spans and the name that messages give it."""

    source: Source
    said: dict[str, Any]
    first: int
    last: int
    what: str

    def complain(self, key: str, words: str) -> NoReturn:
        raise UserError(f"{self.source.path}:{self.source.line_of(key, self.first, self.last)}: {self.what}: {words}")

    def know(self, keys: Collection[str]) -> None:
        if not isinstance(self.said, dict) or not self.said:
            self.complain("", "missing or empty")
        for key in self.said:
            if key not in keys:
                self.complain(key, str(unknown_name("key", key, keys)))

    def text(self, key: str, default: str | None = None) -> str:
        value = self.said.get(key, default)
        if not isinstance(value, str) or (not value and default is None):
            self.complain(key, f"{key} is missing, or is not a text")
        return value

    def word(self, key: str, known: Collection[str], default: str | None = None) -> str:
        value = self.text(key, default)
        if value not in known:
            self.complain(key, str(unknown_name(key, value, known)))
        return value

    def names(self, key: str) -> tuple[str, ...]:
        value = self.said.get(key)
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not values or not all(isinstance(entry, str) for entry in values):
            self.complain(key, f"{key} must be a name or a list of names")
        return tuple(values)

    def span(self, key: str, default: say.Span | None = None) -> say.Span:
        if key not in self.said and default is not None:
            return default
        value = self.said.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return say.Span(float(value), float(value))
        try:
            return say.parse_span(str(value))
        except ValueError:
            self.complain(key, f"{key} is '{value}', expected a range like 1.13..4.33, 2.., ..2, >1 or <1")

    def number(self, key: str, default: float | None = None) -> float:
        value = self.said.get(key, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
            self.complain(key, f"{key} must be a positive number")
        return float(value)


@dataclass(frozen=True)
class _Selecting:
    """The conditions that a claim, a part or a side sets on its rows. A value in an inner table replaces the value in an outer table."""

    suite: str = ""
    case: str = ""
    metric: str = ""
    where: tuple[Condition, ...] = ()
    statistic: str = "median"

    def deeper(self, words: _Words) -> _Selecting:
        said = words.said
        metric = words.word("metric", METRICS) if "metric" in said else self.metric
        where = said.get("where", {})
        if not isinstance(where, dict):
            words.complain("where", "where must be a table of conditions")
        found: dict[str, Condition] = {condition.key: condition for condition in self.where}
        for key, value in where.items():
            try:
                found[key] = read_condition(key, value)
            except ValueError as error:
                words.complain(key, str(error))
        return _Selecting(
            suite=words.text("suite") if "suite" in said else self.suite,
            case=words.text("case") if "case" in said else self.case,
            metric=metric,
            where=tuple(found.values()),
            statistic=words.word("statistic", say.STATISTICS) if "statistic" in said else self.statistic,
        )


def _groups(source: Source) -> dict[str, tuple[str, ...]]:
    first, last = (source.tables("groups") or [(1, 1)])[0]
    words = _Words(source, source.said.get("groups", {}), first, last, "[groups]")
    words.know(list(words.said) if isinstance(words.said, dict) else ())
    groups: dict[str, tuple[str, ...]] = {}
    for key in words.said:
        if key in (*ALLOCATORS, *BASELINES, *MODES, say.SAME, say.OTHERS):
            words.complain(key, f"'{key}' cannot name a group: the word has a meaning of its own here")
        groups[key] = _allocators(words, key, groups)
    if say.ALL not in groups:
        words.complain(say.ALL, f"there is no group '{say.ALL}': it lists the allocators that the paper compares")
    return groups


def _allocators(words: _Words, key: str, groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in words.names(key):
        if name in groups:
            found |= dict.fromkeys(groups[name])
        elif name in (*ALLOCATORS, *BASELINES, *MODES):
            found[name] = None
        else:
            words.complain(key, str(unknown_name("allocator or group", name, [*ALLOCATORS, *BASELINES, *MODES, *groups])))
    return tuple(found)


def _claim(words: _Words, paper: str, suite: str, groups: Mapping[str, tuple[str, ...]]) -> say.Claim:
    name = words.text("name")
    words = dataclasses.replace(words, what=f"claim '{name}'")
    relation: say.Relation | None = None
    published = words.text("published", "")
    if published:
        words.know(("name", "says", "at", "published"))
    else:
        relation = _relation(words, _Selecting(suite=suite), groups, extra=_CLAIM_KEYS)
    return say.Claim(paper, name, words.text("says"), words.text("at"), relation, published, words.source.path, words.first)


def _why(words: _Words, name: str) -> str:
    """Checks a text that must be one sentence, short enough for a table."""
    words = dataclasses.replace(words, what=f"claim '{name}'")
    why = words.text("why", "")
    if not why.strip():
        words.complain("why", "why is empty, expected one sentence: why the claim does not hold by the recorded rows")
    if why != why.strip() or not why.endswith(".") or re.search(r"[.!?]\s|[\r\n]", why):
        words.complain("why", "why is not a single sentence, expected one sentence on one line, with a full stop at its end only")
    if len(why) > _LONGEST_WHY:
        words.complain("why", f"why has {len(why)} characters, expected {_LONGEST_WHY} at most")
    return why


def _relation(words: _Words, outer: _Selecting, groups: Mapping[str, tuple[str, ...]], extra: tuple[str, ...] = ()) -> say.Relation:
    kind = words.word("relation", _RELATION_KEYS)
    required, optional = _RELATION_KEYS[kind]
    words.know(("relation", *required, *optional, *_SELECTING, *extra))
    for key in required:
        if key not in words.said:
            words.complain(key, f"{kind} needs {key}")
    if "part" in words.said and "part" not in required:
        words.complain("part", f"{kind} has no parts")
    selecting = outer.deeper(words)
    over = words.word("over", say.QUANTIFIERS if kind == "better" else say.QUANTIFIERS[:3], "all")
    by = words.names("by") if words.said.get("by") else () if "by" in words.said else None
    if kind in _OF_PARTS:
        return _OF_PARTS[kind](_parts(words, selecting, groups))
    if kind == "order":
        entries = words.said["order"]
        if not isinstance(entries, list) or len(entries) < 2:
            words.complain("order", "order must be a list of at least two sides")
        return say.Order(tuple(_side(words, entry, "order", selecting, groups, pick="best") for entry in entries), over, by)
    left = _side(words, words.said["left"], "left", selecting, groups)
    if kind in ("better", "crossover", "winners") and METRICS[left.metric].lower_is_better is None:
        words.complain("metric", f"{left.metric} has no better direction")
    if kind == "better":
        right = _side(words, words.said["right"], "right", selecting, groups, left=left)
        return say.Better(left, right, words.span("factor", say.Span(low=1, open=True)), over, by)
    if kind == "value":
        return say.Value(left, words.span("within"), over)
    if kind == "alike":
        return say.Alike(left, words.number("factor"), over, by)
    if kind == "status":
        endings = words.names("is")
        for ending in endings:
            if ending not in say.ENDINGS:
                words.complain("is", str(unknown_name("ending", ending, say.ENDINGS)))
        return say.Status(left, endings, over)
    if kind == "winners":
        return say.Winners(left, words.span("within"), by)
    axis = words.text("axis")
    if kind == "trend":
        shape = words.word("shape", say.SHAPES)
        return say.Trend(left, axis, shape, words.number("factor", _DEFAULT_FACTOR[shape]), over)
    at = words.span("at_value")
    if kind == "jump":
        return say.Jump(left, axis, at, words.number("factor", 2.0), over)
    if kind == "peak":
        return say.Peak(left, axis, at, over)
    if kind == "crossover":
        right = _side(words, words.said["right"], "right", selecting, groups, left=left)
        return say.Crossover(left, right, axis, at, over)
    return say.FirstFailure(left, axis, at, over)


def _parts(words: _Words, outer: _Selecting, groups: Mapping[str, tuple[str, ...]]) -> tuple[say.Relation, ...]:
    entries = words.said["part"]
    places = words.source.tables("claim.part", words.first, words.last)
    if not isinstance(entries, list) or not entries or len(entries) != len(places):
        words.complain("part", "expected parts, each under a line [[claim.part]]")
    parts: list[say.Relation] = []
    for number, (entry, (first, last)) in enumerate(zip(entries, places, strict=True), start=1):
        part = _Words(words.source, entry, first, last, f"{words.what}, part {number}")
        if part.said.get("relation") in _OF_PARTS:
            part.complain("relation", "a part cannot have parts")
        parts.append(_relation(part, outer, groups))
    return tuple(parts)


def _side(
    words: _Words,
    said: Any,
    key: str,
    outer: _Selecting,
    groups: Mapping[str, tuple[str, ...]],
    left: say.Side | None = None,
    pick: str = "each",
) -> say.Side:
    """A side is a name, a list of names, or a table with `of`. If `left` is given, a side may also be `same` or `others`."""
    table = said if isinstance(said, dict) else {"of": said}
    line = words.source.line_of(key, words.first, words.last)
    side = dataclasses.replace(words, said=table, first=line, last=line)
    for name in table:
        if name not in _SIDE_KEYS:
            words.complain(key, f"{key}: {unknown_name('key', name, _SIDE_KEYS)}")
    selecting = outer.deeper(side)
    for name in ("suite", "case", "metric"):
        if not getattr(selecting, name):
            words.complain(key, f"{key}: no {name}")
    if left is not None and table.get("of") == say.SAME:
        of: tuple[str, ...] = (say.SAME,)
    elif left is not None and table.get("of") == say.OTHERS:
        of = tuple(name for name in groups[say.ALL] if name not in left.of)
    else:
        of = _allocators(side, "of", groups)
    apart = table.get("apart", False)
    if not isinstance(apart, bool):
        words.complain("apart", f"{key}: apart must be true or false")
    picked = side.word("pick", say.PICKS, pick)
    if picked in ("best", "worst") and METRICS[selecting.metric].lower_is_better is None:
        words.complain(key, f"{key}: {selecting.metric} has no better direction")
    own = frozenset(table.get("where", {}))
    return say.Side(of, selecting.suite, selecting.case, selecting.metric, selecting.where, own, selecting.statistic, picked, apart)
