"""How many tests passed, as the test runners say it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...sandbox.process.runner import Finished

COLLECTION_FAILED = 2
NONE_RAN = "TESTS: none ran"
DID_NOT_RUN = "TESTS DID NOT RUN"


@dataclass(frozen=True)
class Counts:
    """Tests by outcome."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0

    @property
    def ran(self) -> int:
        """How many ran or were to run."""
        return self.passed + self.failed + self.errors + self.skipped

    def __str__(self) -> str:
        """Say how many passed, or failed of how many; tests that were skipped are neither."""
        bad = self.failed + self.errors
        told = f"{bad} of {self.ran - self.skipped}" if bad else str(self.passed)
        return f"{told}, {self.skipped} skipped" if self.skipped else told


_DID_NOT_RUN = (
    (r"No module named '?(pytest)\b", "pytest is not installed: pip install pytest"),
    (r"(?:Could not find .* in (?:any of the sources|locally installed gems)|Run `bundle install`|bundler: command not found)",
     'gems are missing: bundle {"action": "install"}'),
    (r"\b([\w.-]+): (?:command )?not found\b", "{} is not installed: install the dependencies (npm install, pip install)"),
    (r"Cannot find (?:module|package) '([^']{1,100})'", "{} is missing: npm install"),
    (r"cannot load such file -- ([\w/.-]{1,100})", "{} cannot be loaded: bundle install"),
    (r"ModuleNotFoundError: No module named '([\w.]{1,100})'", "{} is not installed where the tests run: install the dependencies"),
    (r"E +((?:Syntax|Indentation|Import|Name)Error: [^\n]{1,100})", "{}"),
    (r"error: could not compile|\[(?:build|setup) failed\]", "the code does not compile"),
)  # fmt: skip
"""What runners say where no test ran, and what to do."""


def headline(done: Finished, counts: Counts | None, seconds: float, *, nothing_ran: bool = False) -> str:
    """Return the first line of a report on tests. counts: None where the runner did not say."""
    if done.timed_out:
        return f"TESTS TIMED OUT after {round(seconds)}s"
    if nothing_ran or (counts is not None and counts.ran == 0 and done.exit_code == 0):
        return NONE_RAN
    # pytest ends with 2 where files of tests cannot be imported, and counts those as errors.
    none = counts is None or counts.ran == (counts.errors if done.exit_code == COLLECTION_FAILED else 0)
    if done.exit_code and none and (reason := _reason(done)):
        return f"{DID_NOT_RUN}: {reason}"
    if counts is None or counts.ran == 0:
        return f"TESTS {'FAILED' if done.exit_code else 'PASSED'}: exit {done.exit_code}"
    # A script may swallow the status of its runner (`jest || true`), or fail behind tests that passed.
    if counts.failed + counts.errors:
        return f"TESTS FAILED: {counts}"
    return f"TESTS FAILED: exit {done.exit_code}, {counts} passed" if done.exit_code else f"TESTS PASSED: {counts}"


def _reason(done: Finished) -> str | None:
    text = f"{done.stdout.text}\n{done.stderr.text}"
    for pattern, reason in _DID_NOT_RUN:
        if found := re.search(pattern, text):
            return reason.replace("{}", found[1]) if "{}" in reason else reason
    return None


def pytest(junit: bytes) -> Counts | None:
    """Read the attributes of the suites in a JUnit report."""
    # Attributes only, by expression: nothing of a report that a project wrote reaches an XML parser.
    suites = re.findall(rb"<testsuite\s([^>]*)>", junit)
    if not suites:
        return None
    total: dict[str, int] = {}
    for attributes in suites:
        for name, value in re.findall(rb'\b(tests|failures|errors|skipped)="([0-9]{1,9})"', attributes):
            total[name.decode()] = total.get(name.decode(), 0) + int(value)
    failed, errors, skipped = (total.get(name, 0) for name in ("failures", "errors", "skipped"))
    return Counts(max(0, total.get("tests", 0) - failed - errors - skipped), failed, errors, skipped)


def rspec(report: bytes) -> Counts | None:
    """Read the summary of rspec's JSON report."""
    summary = _json(report).get("summary")
    if not isinstance(summary, dict):
        return None
    total, failed, skipped, errors = (
        _count(summary.get(name))
        for name in ("example_count", "failure_count", "pending_count", "errors_outside_of_examples_count")
    )
    return Counts(max(0, total - failed - skipped), failed, errors, skipped)


def unittest(text: str) -> Counts | None:
    """Read unittest's last lines: `Ran 3 tests in 0.1s` and `FAILED (failures=1, errors=1, skipped=1)`."""
    ran = re.findall(r"^Ran (\d{1,9}) tests? in", text, re.MULTILINE)
    if not ran:
        return None
    # Expected failures are no failures.
    words = dict(
        re.findall(
            r"(?<!expected )\b(failures|errors|skipped|unexpected successes)=(\d{1,9})", _last(text, "OK", "FAILED")
        )
    )
    failed = int(words.get("failures", 0)) + int(words.get("unexpected successes", 0))
    errors, skipped = int(words.get("errors", 0)), int(words.get("skipped", 0))
    return Counts(max(0, int(ran[-1]) - failed - errors - skipped), failed, errors, skipped)


def minitest(text: str) -> Counts | None:
    """Read minitest's summary: `3 runs, 4 assertions, 1 failures, 0 errors, 0 skips` (test-unit says tests)."""
    found = re.findall(
        r"^(\d{1,9}) (?:runs|tests), \d+ assertions, (\d{1,9}) failures, (\d{1,9}) errors"
        r"(?:, (?:\d+ pendings, (\d{1,9}) omissions|(\d{1,9}) skips))?",
        text,
        re.MULTILINE,
    )
    if not found:
        return None
    rows = [[int(value or 0) for value in row] for row in found]
    ran, failed, errors = (sum(row[index] for row in rows) for index in range(3))
    skipped = sum(row[3] + row[4] for row in rows)
    return Counts(max(0, ran - failed - errors - skipped), failed, errors, skipped)


def cargo(text: str) -> Counts | None:
    """Add up cargo's `test result: ok. 3 passed; 1 failed; 0 ignored; ...` lines."""
    found = re.findall(r"^test result: \w+\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored", text, re.MULTILINE)
    if not found:
        return None
    passed, failed, skipped = (sum(int(row[index]) for row in found) for index in range(3))
    return Counts(passed, failed, 0, skipped)


def npm(text: str) -> Counts | None:
    """Read the summary of the usual runners behind npm: node's own, jest and vitest, mocha."""
    tap = re.findall(r"^(?:#|ℹ) (pass|fail|skipped|todo) (\d{1,9})\s*$", text, re.MULTILINE)
    jest = re.findall(r"^\s*Tests:?\s+(.*\d+ (?:passed|failed|skipped|todo).*)$", text, re.MULTILINE)
    mocha = re.findall(r"^\s+(\d{1,9}) (passing|failing|pending)\b", text, re.MULTILINE)
    if tap:
        found = [(int(count), word) for word, count in tap]
    elif jest:
        found = [
            (int(n), word) for line in jest for n, word in re.findall(r"(\d{1,9}) (passed|failed|skipped|todo)", line)
        ]
    elif mocha:
        found = [(int(count), word) for count, word in mocha]
    else:
        return None

    def total(*words: str) -> int:
        # A workspace has a summary for each of its packages.
        return sum(count for count, word in found if word in words)

    return Counts(
        total("pass", "passed", "passing"), total("fail", "failed", "failing"), 0, total("skipped", "todo", "pending")
    )


def _last(text: str, *beginnings: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.startswith(beginnings)), "")


def _json(data: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0
