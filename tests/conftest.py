"""For all tests in Python: a summary of the skipped tests, with a line for each reason, `what: why, and what to do`; and programs that receive signals."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator

import pytest

ENDING = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)

# Files whose tests take minutes on the one core that runs them: they begin first, so that no other core waits for them at the end.
LONGEST = ("test_suites_run.py",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped") if isinstance(report.longrepr, tuple))
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"skipped: {reason} ({number} of the Python tests)")


@pytest.fixture(autouse=True)
def signals_are_heard() -> Iterator[None]:
    """A program inherits the signals that its parent ignores. Under nohup, or in the background of a script, a test's programs would not hear those that the
    test sends."""
    ignored = [number for number in ENDING if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
