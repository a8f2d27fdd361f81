"""For all tests in Python: a summary of the skipped tests, with a line for each reason, `what: why, and what to do`; and programs that receive signals."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from extent import in_full

ENDING = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)

# Files whose tests take minutes on the one core that runs them: they begin first, so that no other core waits for them at the end.
LONGEST = ("test_abi.py", "test_protocol_mutants.py", "test_suites_run.py", "test_answers.py")
# Files of which the whole takes long, for many values of parameters: unless tests run in full, every third value of a test is tried, the first included.
IN_PART = frozenset(
    "test_answers.py test_bad_input.py test_cases.py test_cli.py test_data.py test_for_claims.py test_host_advise_runs.py test_host_elide.py test_host_heap.py "
    "test_host_pool.py test_host_probe.py test_host_programs.py test_host_trace.py test_merge.py test_mpi.py test_outside.py test_program_suites.py "
    "test_reader_left.py test_reads.py test_run.py test_runner.py test_suite_files.py test_wheel.py test_workers.py".split()
)
SHARE = 3


def left_to_the_night(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests marked `whole`, and of the tests in files of IN_PART all but every third value."""
    seen: Counter[str] = Counter()
    left = []
    for item in items:
        function = item.nodeid.partition("[")[0]
        if item.get_closest_marker("whole") or (item.path.name in IN_PART and seen[function] % SHARE != 0):
            left.append(item)
        seen[function] += 1
    return left


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "whole: takes long for what a change breaks, and runs if tests run in full, as ./test --all-schedules does")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not in_full():
        left = set(left_to_the_night(items))
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


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
