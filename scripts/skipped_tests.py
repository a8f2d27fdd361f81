"""Prints the reason of each test that a run of ctest skipped, once, with the number of its tests.

usage: skipped_tests.py JUNIT
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

# GoogleTest prints the place of a skip, and the reason in the next line.
REASON = re.compile(r": Skipped\n(.+)")


def reasons(junit: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        if case.find("skipped") is not None and (reason := REASON.search(case.findtext("system-out") or "")):
            found[reason[1]] += 1
    return found


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        found = reasons(Path(arguments[0]))
    except (OSError, ElementTree.ParseError) as error:
        print(f"{arguments[0]} is not readable as the result of ctest --output-junit ({error}): run the tests again", file=sys.stderr)
        return 2
    for reason, number in found.most_common():
        print(f"{reason} ({number} of the C++ tests)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
