"""Outputs that do not fit into an answer, read on by process_output."""

import re

import pytest

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.tools.outputs import MAX_BYTES, MAX_OUTPUTS, Outputs

COUNT = "for n in range(1, 5001): print(f'line {n}')"
MARKER = re.compile(r'\.\.\. \[about \d+ tokens cut; process_output id="(out_\d+)" from_line=(\d+)\] \.\.\.')


@pytest.fixture
async def cut(call):
    """Return (the answer of a program that wrote 5,000 lines, the call)."""
    call.tokens = 300
    call.allowed_commands = ("python3",)
    return await call("bash", command="python3", args=["-c", COUNT])


async def test_the_marker_says_where_to_read_on_and_following_it_misses_no_line(call, cut):
    answer, seen = cut, []
    for _ in range(60):
        marker = MARKER.search(answer)
        head = answer[: marker.start()] if marker else answer
        lines = [int(n) for n in re.findall(r"^line (\d+)$", head, re.MULTILINE)]
        assert lines[0] == len(seen) + 1
        seen += lines
        if not marker or len(seen) > 1000:
            break
        name, line = marker.groups()
        assert int(line) == len(seen) + 1
        answer = await call("process_output", id=name, from_line=int(line))
        assert answer.startswith(f"{name} [{5001 - int(line)} of 5000 lines]\n")
    assert seen == [*range(1, len(seen) + 1)] and len(seen) > 1000


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"tail": 2}, "out_1 [2 of 5000 lines]\n--- stdout ---\nline 4999\nline 5000"),
        (
            {"pattern": "00$", "tail": 2},
            "out_1 [2 of 5000 lines]\n--- stdout ---\n4900: line 4900\n5000: line 5000",
        ),
        ({"pattern": "line 10$"}, "out_1 [1 of 5000 lines]\n--- stdout ---\n10: line 10"),
        ({"from_line": 5000}, "out_1 [1 of 5000 lines]\n--- stdout ---\nline 5000"),
        ({"from_line": 6000}, "out_1 [no lines of 5000]\n(no new output)"),
        ({"pattern": "nowhere"}, "out_1 [no lines of 5000]\n(no new output)"),
    ],
)
async def test_lines_are_chosen(call, cut, arguments, answer):
    assert await call("process_output", id="out_1", **arguments) == answer


async def test_a_cut_choice_says_how_to_go_on_with_it(call, cut):
    answer = await call("process_output", id="out_1", pattern="line")
    name, line = re.search(r'process_output id="(out_\d)" from_line=(\d+) and the same pattern\]', answer).groups()
    rest = await call("process_output", id=name, from_line=int(line), pattern="line")
    assert f"\n{line}: line {line}\n" in rest


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"id": "out_2"}, "unknown_process"),
        ({"id": "out_0"}, "unknown_process"),
        ({"id": "out_x"}, "unknown_process"),
        ({"id": "out_1", "wait": 1}, "invalid_args"),
        ({"id": "out_1", "pattern": "("}, "bad_pattern"),
        ({"id": "out_1", "from_line": 0}, "invalid_args"),
        ({"id": "out_1", "tail": 0}, "invalid_args"),
    ],
)
async def test_what_cannot_be_read_is_refused(call, cut, arguments, code):
    assert await call.code("process_output", **arguments) == code


def test_the_latest_outputs_are_kept_and_an_older_one_is_told_from_one_that_never_was():
    outputs = Outputs()
    for number in range(MAX_OUTPUTS + 1):
        outputs.keep(str(number))
    with pytest.raises(ToolError, match="no longer kept") as gone:
        outputs.get("out_1")
    assert gone.value.code == "output_expired"
    assert outputs.get("out_2") == "1"
    outputs.keep("x" * MAX_BYTES)
    with pytest.raises(ToolError, match="no longer kept"):
        outputs.get(f"out_{MAX_OUTPUTS + 1}")
    assert len(outputs.get(f"out_{MAX_OUTPUTS + 2}")) == MAX_BYTES


async def test_a_chosen_part_of_what_a_process_wrote_leaves_the_rest_to_read(call, project):
    call.allowed_commands = ("python3",)
    await call("process_start", command="python3", args=["-c", "print('a\\nb\\nc')"], wait_for="c")
    await call("process_start", command="python3", args=["-uc", "print('a\\nb\\nc'); input()"], stdin=True)
    answer = await call("process_output", id="proc_2", wait_for="c", tail=1)
    assert re.fullmatch(r"proc_2: running, matched \[1 of 3 lines; all: out_1\]\n--- stdout ---\nc", answer), answer
    assert (await call("process_output", id="out_1")).endswith("a\nb\nc")


async def test_without_process_output_the_marker_advises_something_else(call):
    call.tokens = 300
    call.allowed_commands = ("python3",)
    call.catalogue = tuple(tool for tool in call.catalogue if tool.name != "process_output")
    answer = await call("bash", command="python3", args=["-c", COUNT])
    assert "tokens cut; have the program print less, or write to a file and read that] ..." in answer


async def test_a_pattern_that_explodes_is_given_up(call, cut):
    await call("bash", command="python3", args=["-c", "print('a' * 5000 + '\\n' * 5000)"])
    assert await call.code("process_output", id="out_2", pattern="(a|aa)+$b") == "regex_timeout"
