"""The summary of skipped tests: a line for each reason, `what: why, and what to do`, with the number of tests."""

from __future__ import annotations

from collections import Counter

import pytest


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped") if isinstance(report.longrepr, tuple))
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"skipped: {reason} ({number} of the Python tests)")
