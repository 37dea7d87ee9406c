"""Suites that say more than an answer, or the memory kept for them, can hold."""

import json
import re

import pytest

from toolbox_mcp.tools.settings import ToolSettings

PASSING = 'i=0; while [ $i -lt 300 ]; do echo "PASSING"; i=$((i + 1)); done\n'
# What each runner says before its first failure, and from there on.
SUITES = {
    "pytest": ("pytest", ".......... [ 50%]", "=================================== FAILURES ===================================\nE  the reason\n"),
    "rspec": ("rspec", "..........", "Failures:\n\n  1) x\n     the reason\n"),
    "minitest": ("rake", "..........", "  1) Failure:\nT#test_b [t.rb:3]:\nthe reason\n"),
    "unittest": ("python3", "test_a ... ok", "======================================================================\nFAIL: test_b\nthe reason\n"),
    "cargo": ("cargo", "test many::a ... ok", "failures:\n\n---- b stdout ----\nthe reason\n"),
    "npm": ("npm", "ok 1 - a", "not ok 2 - b\n  ---\n  the reason\n"),
}  # fmt: skip


@pytest.fixture
def short(call):
    call.tokens = 150
    return call


@pytest.mark.parametrize("framework", SUITES)
async def test_failures_come_first_without_what_passed(call, fake, framework):
    program, passing, failure = SUITES[framework]
    fake(program, PASSING.replace("PASSING", passing) + f"cat <<'EOF'\n{failure}EOF\nexit 1\n")
    headline, command, status, stream, *rest = (await call("run_tests", framework=framework)).splitlines()
    assert (headline, status, stream) == ("TESTS FAILED: exit 1", "exit: 1", "--- stdout ---")
    assert command.startswith("$ ")
    assert rest == failure.rstrip("\n").splitlines()


@pytest.mark.parametrize("framework", SUITES)
async def test_of_a_suite_that_passes_no_dots_are_told(call, fake, framework):
    program, passing, _ = SUITES[framework]
    fake(program, PASSING.replace("PASSING", passing) + "echo 'a warning'\n")
    assert (await call("run_tests", framework=framework)).endswith("exit: 0\n--- stdout ---\na warning")


async def test_a_suite_that_passes_keeps_head_and_tail(short, fake):
    fake("pytest", PASSING)
    answer = await short("run_tests", framework="pytest")
    assert answer.startswith("TESTS PASSED: exit 0\n") and answer.endswith("PASSING")
    assert re.search(r'tokens cut; process_output id="out_1" from_line=[0-9]+\] \.\.\.', answer)


async def test_all_that_a_tool_printed_can_be_read_on(short, fake, files):
    fake("bundle", PASSING)
    files(Gemfile="")
    answer = await short("bundle", action="check")
    line = int(re.search(r'process_output id="out_1" from_line=([0-9]+)\]', answer)[1])
    rest = await short("process_output", id="out_1", from_line=line)
    assert rest.startswith("out_1 [") and "PASSING" in rest


def events(*rows):
    return "".join(
        json.dumps(dict(zip(("Action", "Package", "Test", "Output"), row, strict=False))) + "\n" for row in rows
    )


async def test_the_output_of_tests_that_failed_comes_first_in_go(short, fake, project):
    rows = []
    for number in range(300):
        rows += [("output", "p", f"T{number}", f"    passing {number}\n"), ("pass", "p", f"T{number}")]
        if number == 150:
            rows += [("output", "p", "Bad", "    \x1b[31mthe reason\x1b[0m\x07\n"), ("fail", "p", "Bad")]
    rows += [("output", "p", None, "FAIL\tp\n"), ("fail", "p")]
    (project / "events").write_text(events(*rows))
    fake("go", "cat events\nexit 1\n")
    assert (await short("run_tests", framework="go")).splitlines() == [
        "TESTS FAILED: 1 of 301", "$ go test -json ./...", "exit: 1", "--- stdout ---", "    the reason", "FAIL\tp",
    ]  # fmt: skip


async def test_text_of_go_has_no_control_characters(call, fake, project):
    (project / "events").write_text(events(("output", "p", "T", "\x1b[31mred\x1b[0m\u202e\n"), ("pass", "p", "T")))
    fake("go", "cat events\n")
    assert (await call("run_tests", framework="go")).splitlines()[-1] == "red"


async def test_every_test_of_go_is_counted_whatever_the_output(call, fake, project):
    rows = [
        (action, "package", f"Test{number}", "x" * 100 + "\n")
        for number in range(4000)
        for action in ("run", "output", "skip" if number % 2 else "pass")
    ]
    (project / "events").write_text(events(*rows))
    assert (project / "events").stat().st_size > 4 * 256 * 1024
    fake("go", "cat events\n")
    assert (await call("run_tests", framework="go")).splitlines()[0] == "TESTS PASSED: 2000, 2000 skipped"


@pytest.mark.parametrize(
    ("framework", "program", "first", "second", "counts"),
    [
        ("cargo", "cargo", "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured", "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured", "5, 1 skipped"),
        ("minitest", "rake", "3 runs, 4 assertions, 0 failures, 0 errors, 1 skips", "2 runs, 2 assertions, 0 failures, 0 errors, 0 skips", "4, 1 skipped"),
        ("npm", "npm", "Tests:       1 skipped, 3 passed, 4 total", "\x1b[1mTests:\x1b[22m       \x1b[32m2 passed\x1b[39m, 2 total", "5, 1 skipped"),
    ],
)  # fmt: skip
async def test_a_summary_in_the_midst_of_much_output_is_counted(
    call, fake, project, framework, program, first, second, counts
):
    noise = "noise\n" * 20_000
    (project / "said").write_text(f"{noise}{first}\n{noise}{noise}{noise}{second}\n")
    fake(program, "cat said\n")
    assert (await call("run_tests", framework=framework)).splitlines()[0] == f"TESTS PASSED: {counts}"


async def test_a_line_without_end_is_passed_over(call, fake):
    fake(
        "cargo", "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo 'test result: ok. 3 passed; 0 failed; 0 ignored'\n"
    )
    assert (await call("run_tests", framework="cargo")).splitlines()[0] == "TESTS PASSED: 3"


@pytest.mark.parametrize("instead", ["mkfifo", "ln -s /etc/passwd", "mkdir"])
@pytest.mark.parametrize(
    ("tool", "arguments", "program", "option", "headline"),
    [
        ("run_tests", {"framework": "pytest"}, "pytest", "--junitxml=", "TESTS FAILED: exit 1"),
        ("run_tests", {"framework": "rspec"}, "rspec", "--out=", "TESTS FAILED: exit 1"),
        ("lint", {"linter": "ruff"}, "ruff", "--output-file=", "LINT ERROR"),
        ("lint", {"linter": "rubocop"}, "rubocop", "--out=", "LINT ERROR"),
    ],
)
async def test_something_else_in_the_place_of_a_report_holds_nothing_up(
    call, fake, tool, arguments, program, option, headline, instead
):
    fake(program, f"for a; do case $a in {option}*) {instead} ${{a#{option}}};; esac; done; exit 1\n")
    assert (await call(tool, **arguments)).splitlines()[0] == headline


RUNS = [
    ("run_tests", {"framework": "pytest"}, "pytest", "TESTS TIMED OUT after 1s"),
    ("python_tests", {}, "pytest", "TESTS TIMED OUT after 1s"),
    ("lint", {"linter": "ruff"}, "ruff", "LINT ERROR"),
    ("lint", {"linter": "rubocop"}, "rubocop", "LINT ERROR"),
    ("bundle", {"action": "check"}, "bundle", "BUNDLE FAILED: check"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "arguments", "program", "headline"), RUNS)
async def test_each_tool_reports_progress_while_it_runs(call, fake, project, tool, arguments, program, headline):
    if tool == "bundle":
        (project / "Gemfile").touch()
    fake(program, "until [ -e told ]; do sleep 0.02; done\n")
    told = []

    async def progress(done, total, message):
        told.append((done, total))
        (project / "told").touch()

    # The in-memory client of the other protocol passes no progress on.
    call.client_options = {"mode": "legacy"}
    client = await call.client()
    result = await client.call_tool(tool, arguments, progress_callback=progress)
    assert not result.is_error
    assert told


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "arguments", "program", "headline"), RUNS)
async def test_each_tool_stops_at_its_time_out_and_says_so(call, fake, project, tool, arguments, program, headline):
    call.settings = ToolSettings(toolchain_timeout=0.6)
    (project / "Gemfile").touch()
    fake(program, "echo begun; sleep 60\n")
    lines = (await call(tool, **arguments)).splitlines()
    assert (lines[0], lines[2:]) == (headline, ["result: timed out after 1s (killed)", "--- stdout ---", "begun"])
