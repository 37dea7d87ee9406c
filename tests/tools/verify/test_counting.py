from tests.tables import each_row
from toolbox_mcp.tools.verify import _counts as counting
from toolbox_mcp.tools.verify._counts import Counts
from toolbox_mcp.tools.verify._output import GoEvents


@each_row(
    ("read", "text", "counts"),
    [
        (counting.pytest, b'<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10" time="1"><testcase/></testsuite></testsuites>', Counts(4, 2, 1, 3)),
        (counting.pytest, b"", None),
        (counting.pytest, b"<testsuite >", Counts()),
        (counting.rspec, b'{"summary": {"example_count": 5, "failure_count": 1, "pending_count": 1, "errors_outside_of_examples_count": 0}}', Counts(3, 1, 0, 1)),
        (counting.rspec, b'{"summary": {"example_count": "5", "failure_count": true}}', Counts()),
        (counting.rspec, b"[]", None),
        (counting.rspec, b"{" * 100_000, None),
        (counting.unittest, "Ran 4 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)\n", Counts(1, 1, 1, 1)),
        (counting.unittest, "Ran 1 test in 0.1s\n\nOK\n", Counts(1)),
        (counting.unittest, "Ran 2 tests in 0.1s\n\nFAILED (unexpected successes=1)\n", Counts(1, 1)),
        (counting.unittest, "Ran 2 tests in 0.1s\n\nOK (expected failures=1)\n", Counts(2)),
        (counting.unittest, "Ran 5 tests in 0.1s\n\nFAILED (failures=2, errors=1, skipped=1, expected failures=1)\n", Counts(1, 2, 1, 1)),
        (counting.unittest, "", None),
        (counting.minitest, "4 runs, 2 assertions, 1 failures, 1 errors, 1 skips\n", Counts(1, 1, 1, 1)),
        (counting.minitest, "3 tests, 4 assertions, 1 failures, 0 errors, 0 pendings, 1 omissions, 0 notifications\n", Counts(1, 1, 0, 1)),
        (counting.cargo, "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured\ntest result: ok. 2 passed; 0 failed; 0 ignored;\n", Counts(3, 1, 0, 1)),
        (counting.npm, "# tests 3\n# pass 1\n# fail 1\n# skipped 1\n", Counts(1, 1, 0, 1)),
        (counting.npm, "# pass 1\n# fail 0\n# pass 2\n# fail 1\n# todo 1\n", Counts(3, 1, 0, 1)),
        (counting.npm, "ℹ pass 2\nℹ fail 0\n", Counts(2)),
        (counting.npm, "Tests:       1 failed, 1 skipped, 2 passed, 4 total\n", Counts(2, 1, 0, 1)),
        (counting.npm, "      Tests  2 passed (2)\n", Counts(2)),
        (counting.npm, "  3 passing (5ms)\n  1 pending\n  1 failing\n", Counts(3, 1, 0, 1)),
        (counting.npm, "nothing", None),
    ],
)  # fmt: skip
def test_counts_are_read_off_what_a_runner_says(read, text, counts):
    assert read(text) == counts


@each_row(
    ("counts", "words"),
    [
        (Counts(3, 1), "1 of 4"),
        (Counts(16), "16"),
        (Counts(0, 0, 1), "1 of 1"),
        (Counts(1, 1, 2, 1), "3 of 4, 1 skipped"),
        (Counts(), "0"),
    ],
)
def test_counts_in_words(counts, words):
    assert str(counts) == words


@each_row(
    "event",
    [b'{"Action": []}', b'{"Action": "output", "Package": {}, "Output": "x"}', b'{"Action": "fail", "Test": []}'],
)
def test_what_is_no_event_of_go_is_passed_over(event):
    events = GoEvents()
    events.feed("stdout", event + b'\n{"Action": "pass", "Package": "p", "Test": "T"}\n')
    assert events.counts() == Counts(1)
