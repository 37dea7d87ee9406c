"""Fail when a test was skipped for a reason that is not allowed. Silent when all is well.

python .ci/check_skips.py ALLOWED JUNIT_XML...
"""

import sys
from pathlib import Path
from xml.etree import ElementTree


def allowed_reasons(text: str) -> set[str]:
    """Return the reasons; each must have a comment directly above it."""
    reasons: set[str] = set()
    above = ""
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith("#"):
            if not above.startswith("#"):
                raise SystemExit(f"no comment says why this skip is allowed: {line}")
            reasons.add(line)
        above = line
    return reasons


def unexpected(report: ElementTree.Element, allowed: set[str]) -> list[str]:
    """Return `test: reason` for each skipped test whose reason is not allowed."""
    found: list[str] = []
    for case in report.iter("testcase"):
        for skipped in case.iter("skipped"):
            reason = skipped.get("message", "").strip()
            if reason not in allowed:
                found.append(f"{case.get('classname')}.{case.get('name')}: {reason}")
    return found


def main() -> int:
    """Compare and report."""
    allowed, *reports = (Path(name) for name in sys.argv[1:])
    reasons = allowed_reasons(allowed.read_text(encoding="utf-8"))
    # The reports are pytest's own, written a moment ago by this run.
    found = [line for report in reports for line in unexpected(ElementTree.parse(report).getroot(), reasons)]
    if found:
        print(f"{len(found)} tests were skipped for reasons that {allowed} does not allow:", *found, sep="\n  ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
