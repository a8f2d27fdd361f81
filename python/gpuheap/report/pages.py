"""Divides a large report into pages: a first one with the answers, and one for each suite of each GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuheap.report.page import GpuSection


def page_name(section: GpuSection, suite: str) -> str:
    return f"{section.anchor}-{suite}.html"


def first_page(section: GpuSection, folder: str) -> GpuSection:
    """The section of the first page: without the parts that the suites' pages have, and with links to them."""
    pages = tuple((suite, f"{folder}/{page_name(section, suite)}") for suite in section.suites)
    return replace(section, cases=(), bounds=(), chips=(), summaries=section.summaries[:1], pages=pages)


def suite_pages(sections: Sequence[GpuSection]) -> Iterator[tuple[str, GpuSection]]:
    """The name of each page, and the part of a section that it shows."""
    for section in sections:
        for suite in section.suites:
            cases = section.cases_of(suite)
            names = {chip.name for case in cases for chip in case.chips}
            yield (
                page_name(section, suite),
                replace(
                    section,
                    suite=suite,
                    answers=(),
                    tiles=(),
                    best=None,
                    timeouts=None,
                    failures=(),
                    cases=cases,
                    chips=tuple(chip for chip in section.chips if chip.name in names),
                    summaries=tuple(one for one in section.summaries if one.suite == suite),
                    bounds=tuple(one for one in section.bounds if one.suite == suite),
                ),
            )
