"""The orbiter profile, field by field against TOOLS.md §9."""

import json
import os
import sys

import pytest

from tests.sandbox.test_processes import alive, eventually
from tests.tables import each_row
from toolbox_mcp.server.call.exposure import ExposurePolicy
from toolbox_mcp.server.call.pipeline import Rules
from toolbox_mcp.tools.catalogue import PROFILES, load_tools
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


async def test_a_command_needs_the_shell_switch_beside_the_exec_switch(call, folder):
    call.gate = ExposurePolicy(enable_exec_tools=True)
    assert {tool.name for tool in (await (await call.client()).list_tools()).tools} & {*PROFILES["orbiter"]} == {
        "filesystem"
    }
    # What is disabled says nothing about its arguments.
    for arguments in ({"command": "touch made"}, {"command": " "}, {"other": 1}):
        assert await call.code("terminal", **arguments) == "shell_disabled"
    assert not (folder / "made").exists()


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


async def test_a_blocked_name_is_found_in_every_part_and_spelling(call, folder):
    lines = [
        "RM a.txt", "\\rm a.txt", "r''m a.txt", '"rm" a.txt', "rm.exe a.txt", "X=1 rm a.txt", "env A=1 rm a.txt",
        "nohup rm a.txt", "exec rm a.txt", "command rm a.txt", "timeout 5 rm a.txt", "nice -n 5 rm a.txt",
        "setsid rm a.txt", "stdbuf -o0 rm a.txt", "time rm a.txt", "busybox rm a.txt", "sudo rm a.txt",
        "sudo -u root A=1 rm a.txt", "su -c 'rm a.txt'", "doas rm a.txt", "if true; then rm a.txt; fi",
        "for f in a.txt; do rm $f; done", "f() { rm a.txt; }; f", "case x in x) rm a.txt;; esac", "(rm a.txt)",
        "{ rm a.txt; }", "! rm a.txt", "true & rm a.txt", "true\nrm a.txt", "echo `rm a.txt`", 'echo "$(rm a.txt)"',
        "cat <(rm a.txt)", "true | tee >(rm a.txt)", "cat <<E\n$(rm a.txt)\nE", "eval rm a.txt",
        "bash -c 'true; rm a.txt'", "trap 'rm a.txt' EXIT", "printf a.txt | xargs -0 rm",
    ]  # fmt: skip
    failed = {line: error for line in lines if "Command 'rm' is blocked" not in (error := await said(call, line))}
    unreadable = [
        "$(echo rm) a.txt", "X=rm; $X a.txt", 'eval "$X"', "alias x=rm; x a.txt", "sh <<< 'rm a.txt'", "a\0b",
        "c" * 70_000,
    ]  # fmt: skip
    failed |= {line[:50]: error for line in unreadable if "is refused" not in (error := await said(call, line))}
    assert failed == {}
    assert (folder / "a.txt").exists()
    for line in ("echo rm", "echo 'rm a.txt'", "# rm a.txt", "echo format"):
        assert (await call.result("terminal", {"command": line})).structured_content["exit_code"] == 0


async def said(call, command):
    """Return the error of a command that has to be refused."""
    failure = await call("terminal", command=command)
    return failure["error"] if isinstance(failure, dict) and failure["code"] == "command_denied" else str(failure)


async def test_names_of_the_operators_replace_the_blocked_ones(call, folder):
    call.settings = ToolSettings(terminal_blocklist=("Secret-Tool",))
    assert "Command 'secret-tool' is blocked" in await said(call, "true; secret-tool x")
    result = await call.result("terminal", {"command": "rm a.txt"})
    assert result.structured_content["exit_code"] == 0 and not (folder / "a.txt").exists()


async def test_what_is_read_and_written_has_bounds(call, folder):
    (folder / "most").write_bytes(b"x\n" * 2**23)
    assert len(await call("filesystem", action="read", path="most")) == 2**24
    with (folder / "above").open("wb") as file:
        file.truncate(2**24 + 1)
    (folder / "empty").touch()
    os.mkfifo(folder / "fifo")
    outside = folder.parent / "outside"
    outside.write_text("there")
    (folder / "file").symlink_to(outside)
    (folder / "nowhere").symlink_to(folder.parent / "none")
    assert await call("filesystem", action="read", path="empty") == ""
    table = [
        ("read", "above", "too_large"), ("read", "fifo", "not_a_file"), ("read", "sub", "not_a_file"),
        ("read", "file", "path_denied"), ("write", "file", "path_denied"), ("write", "nowhere", "path_denied"),
        ("write", "fifo", "not_a_file"), ("write", "sub", "is_a_directory"), ("write", ".GIT/x", "protected_path"),
        ("write", "git~1/x", "protected_path"), ("list", "file", "path_denied"), ("list", "fifo", "not_a_directory"),
        ("read", str(outside), "path_denied"), ("read", "sub/../../outside", "path_denied"),
        ("read", f"{folder}-other/x", "path_denied"), ("write", "n" * 256, "path_denied"),
    ]  # fmt: skip
    failed = [
        (action, path, code)
        for action, path, want in table
        if (code := await call.code("filesystem", action=action, path=path, content="x")) != want
    ]
    assert failed == []
    assert outside.read_text() == "there" and not (folder.parent / "none").exists()
    # Through a link the answer names what was written.
    assert await call("filesystem", action="write", path="way/x", content="x") == f"Wrote 1 chars to {folder / 'sub/x'}"


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


async def test_what_a_command_above_its_time_began_is_killed_with_it(call, folder):
    call.settings = ToolSettings(terminal_timeout=1)
    lines = "sleep 60 & echo $! >> pids; sh -c 'echo $$ >> pids; exec sleep 60' & echo $$ >> pids; wait"
    assert await call.code("terminal", command=lines) == "timeout"
    pids = (folder / "pids").read_text().split()
    assert len(pids) == 3
    await eventually(lambda: not any(alive(int(pid)) for pid in pids))
