"""The orbiter profile, field by field against TOOLS.md §9."""

import json
import sys

import pytest

from tests.tables import each_row
from toolbox_mcp.server.call.exposure import ExposurePolicy
from toolbox_mcp.server.call.pipeline import Rules
from toolbox_mcp.tools.catalogue import load_tools
from toolbox_mcp.tools.settings import ToolSettings


@pytest.fixture
def call(call):
    call.catalogue = load_tools("orbiter")
    call.rules = Rules()
    call.settings = ToolSettings(orbiter_writes=True)
    return call


@pytest.fixture
def folder(project):
    (project / "a.txt").write_bytes(b"one\r\ntwo\r")
    (project / "sub").mkdir()
    (project / "way").symlink_to("sub")
    (project / "out").symlink_to("/etc")
    (project / "latin").write_bytes(b"\xe9")
    return project


async def test_both_tools_have_the_arguments_of_the_contract(call):
    listed = {tool.name: tool for tool in (await (await call.client()).list_tools()).tools}
    files, terminal = listed["filesystem"], listed["terminal"]
    assert files.description == "Read, write, or list files in the workspace."
    assert files.input_schema["properties"]["action"]["enum"] == ["read", "write", "list"]
    assert (files.input_schema["properties"].keys(), files.input_schema["required"]) == (
        {"action", "path", "content"},
        ["action", "path"],
    )
    assert terminal.input_schema["required"] == ["command"] == [*terminal.input_schema["properties"]]


async def test_files_are_read_written_and_listed(call, folder):
    answer = await call.result("filesystem", {"action": "read", "path": "a.txt"})
    assert (answer.content[0].text, answer.structured_content) == ("one\ntwo\n", None)
    assert await call("filesystem", action="write", path="x/y.txt", content="é\n") == (
        f"Wrote 2 chars to {folder / 'x/y.txt'}"
    )
    assert (folder / "x/y.txt").read_text() == "é\n"
    assert await call("filesystem", action="write", path="x/y.txt", content="") == (
        f"Wrote 0 chars to {folder / 'x/y.txt'}"
    )
    assert (folder / "x/y.txt").read_text() == ""
    listed = await call.result("filesystem", {"action": "list", "path": "."})
    kinds = {"a.txt": "file", "latin": "file", "out": "file", "sub": "dir", "way": "dir", "x": "dir"}
    want = {"directory": str(folder), "entries": [{"name": name, "type": kinds[name]} for name in sorted(kinds)]}
    assert json.loads(listed.content[0].text) == listed.structured_content == want
    (folder / "long").write_text("x y\n" * 100_000)
    assert await call("filesystem", action="read", path="long") == "x y\n" * 100_000


@each_row(
    ("arguments", "code", "said"),
    [
        ({"action": "delete", "path": "../../x"}, "invalid_args", "Unknown filesystem action: delete"),
        ({"action": 7, "path": "a.txt"}, "invalid_args", "Unknown filesystem action: 7"),
        ({"action": "read", "path": "../x"}, "path_denied", "../x is outside allowed directories"),
        ({"action": "read", "path": "/etc/passwd"}, "path_denied", "outside allowed directories"),
        ({"action": "read", "path": "out/passwd"}, "path_denied", "outside allowed directories"),
        ({"action": "write", "path": "out/x", "content": "x"}, "path_denied", "outside allowed directories"),
        ({"action": "list", "path": "out"}, "path_denied", "outside allowed directories"),
        ({"action": "read", "path": "a\0b"}, "path_denied", ""),
        ({"action": "read", "path": "none"}, "not_found", "File not found: none"),
        ({"action": "list", "path": "none"}, "not_found", "Directory not found: none"),
        ({"action": "list", "path": "a.txt"}, "not_a_directory", "Not a directory: a.txt"),
        ({"action": "write", "path": "new"}, "invalid_args", "content: required"),
        ({"action": "write", "path": ".git/config", "content": "x"}, "protected_path", ""),
        ({"action": "read", "path": "latin"}, "binary_file", ""),
        ({"action": "read", "path": "a.txt", "more": 1}, "invalid_args", "more: no such argument"),
        ({"action": "read"}, "invalid_args", "path: required"),
    ],
)
async def test_refusals(call, folder, arguments, code, said):
    failure = await call("filesystem", **arguments)
    assert failure["code"] == code and said in failure["error"]


async def test_only_writing_needs_the_switch(call, folder):
    call.settings, call.gate = ToolSettings(), ExposurePolicy()
    assert await call("filesystem", action="read", path="a.txt") == "one\ntwo\n"
    assert await call.code("filesystem", action="write", path="a.txt", content="x") == "exec_disabled"
    assert (folder / "a.txt").read_bytes() == b"one\r\ntwo\r"
    assert await call.code("terminal", command="true") == "exec_disabled"


async def test_a_command_has_the_fields_of_the_contract(call, folder):
    result = await call.result("terminal", {"command": "echo hi; echo err >&2; pwd; exit 3"})
    want = {"exit_code": 3, "stdout": f"hi\n{folder}\n", "stderr": "err\n", "platform": sys.platform}
    assert json.loads(result.content[0].text) == result.structured_content == want


@each_row(
    ("command", "said"),
    [
        (" \n", "Empty command"),
        ("rm -rf x", "Command 'rm' is blocked by sandbox policy"),
        ("echo a && /bin/rm x", "Command 'rm' is blocked by sandbox policy"),
        ("echo $(dd if=a)", "Command 'dd' is blocked by sandbox policy"),
        ("find . -exec rm {} +", "Command 'rm' is blocked by sandbox policy"),
        ("true; sh -c 'reboot'", "Command 'reboot' is blocked by sandbox policy"),
        ("echo x | xargs kill", "Command 'kill' is blocked by sandbox policy"),
        ("echo 'unclosed", ""),
    ],
)
async def test_blocked_commands(call, folder, command, said):
    failure = await call("terminal", command=command)
    assert failure["code"] == "command_denied" and said in failure["error"]


async def test_the_hard_list_of_shell_does_not_apply(call, folder):
    result = await call.result("terminal", {"command": "command -v curl less sudo >/dev/null; echo done"})
    assert result.structured_content["stdout"] == "done\n"


async def test_an_empty_list_refuses_nothing(call, folder):
    call.settings = ToolSettings(terminal_blocklist=())
    result = await call.result("terminal", {"command": "rm a.txt"})
    assert result.structured_content["exit_code"] == 0 and not (folder / "a.txt").exists()


async def test_a_command_above_its_time_is_killed(call, folder):
    call.settings = ToolSettings(terminal_timeout=0.2)
    failure = await call("terminal", command="sleep 60 & sleep 60")
    assert (failure["code"], failure["error"]) == ("timeout", "Command timed out after 0.2s")
