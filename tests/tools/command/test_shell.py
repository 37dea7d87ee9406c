import os
import re
import sys
from types import SimpleNamespace

import pytest

from tests.tables import each_row
from toolbox_mcp.sandbox.process.tree import look
from toolbox_mcp.server.call.exposure import ExposurePolicy
from toolbox_mcp.tools.settings import ToolSettings


def step_of(result):
    """Return the fields of the only command of an answer."""
    (step,) = result.structured_content["results"]
    return step


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo a; echo b >&2", "exit: 0\n--- stdout ---\na\n--- stderr ---\nb"),
        ("echo $((1 + 2)) | cat", "exit: 0\n--- stdout ---\n3"),
        ("exit 3", "exit: 3\n(no output)"),
        ("x=1; [ $x = 1 ] && echo yes", "exit: 0\n--- stdout ---\nyes"),
        ("no-such-command", "exit: 127"),
        ("kill -9 $$", "result: killed: external\n(no output)"),
    ],
)
async def test_runs_a_command_line(call, command, text):
    answer = await call("shell", command=command)
    assert answer == text or (text == "exit: 127" and answer.startswith(text))


async def test_answers_with_the_fields_of_the_contract(call):
    result = await call.result("shell", {"command": "printf abc", "shell": "sh"})
    fields = result.structured_content
    (step,) = fields["results"]
    told = {"exit_code", "duration_ms", "stdout", "stderr"}
    assert fields.keys() == {"session", "shell", "platform", "results"}
    assert step.keys() == {"command", "work_dir", "shell_path"} | told
    assert (fields["shell"], fields["platform"]) == ("sh", sys.platform)
    assert (step["command"], step["work_dir"], step["shell_path"]) == ("printf abc", ".", "/usr/bin/sh")
    assert step["stdout"] == "abc" and re.fullmatch(r"sess_[0-9a-f]{32}", fields["session"])


@pytest.mark.parametrize("target", [os.getpid(), os.getppid(), -os.getpid()], ids=["server", "parent", "group"])
async def test_no_command_signals_the_server_or_its_guardian(call, target):
    # Signal 0 only asks, should the refusal fail.
    answer = await call("shell", command=f"kill -0 {target}")
    assert answer["code"] == "command_denied"


async def test_a_command_ends_what_it_started(call):
    answer = await call("shell", command="sleep 60 & kill $!; wait $!; echo $?", shell="sh")
    assert answer.startswith("exit: 0\n--- stdout ---\n143")


async def test_several_commands_run_one_after_another_until_one_fails(call):
    result = await call.result("shell", {"commands": ["echo one", "exit 2", "echo three"]})
    assert result.content[0].text == "$ echo one\nexit: 0\n--- stdout ---\none\n$ exit 2\nexit: 2\n(no output)"
    assert result.structured_content["stopped_at"] == 1
    assert [step["command"] for step in result.structured_content["results"]] == ["echo one", "exit 2"]


async def test_or_all_of_them(call):
    result = await call.result("shell", {"commands": ["exit 2", "echo two"], "continue_on_error": True})
    assert result.content[0].text == "$ exit 2\nexit: 2\n(no output)\n$ echo two\nexit: 0\n--- stdout ---\ntwo"
    assert "stopped_at" not in result.structured_content


async def test_every_command_is_checked_before_the_first_runs(call, project):
    answer = await call("shell", commands=["touch ran", "rm -rf *"])
    assert answer == {
        "error": "`rm -rf *` is refused: rm is not allowed in shell commands",
        "code": "command_denied",
        "hint": "delete_file deletes, and so does rm of literal project paths at the start of a line",
    }
    assert not (project / "ran").exists()


@each_row(
    ("arguments", "code"),
    [
        ({}, "invalid_args"),
        ({"command": "ls", "commands": ["ls"]}, "invalid_args"),
        ({"commands": []}, "invalid_args"),
        ({"commands": ["ls"] * 65}, "command_denied"),
        ({"command": "echo " + "x" * 65536}, "command_denied"),
        ({"command": ""}, "invalid_args"),
        ({"command": " "}, "command_denied"),
        ({"command": "ls &"}, "command_denied"),
        ({"command": "sudo ls"}, "command_denied"),
        ({"command": "$(echo rm) x"}, "command_denied"),
        ({"command": "terraform apply"}, "command_denied"),
        ({"command": "ls", "env": {f"A{i}": "1" for i in range(257)}}, "command_denied"),
        ({"command": "ls", "env": {"A=B": "1"}}, "command_denied"),
        ({"command": "ls", "env": {"A\0": "1"}}, "command_denied"),
        ({"command": "ls", "env": {"BASH_ENV": "x"}}, "env_denied"),
        ({"command": "ls", "session": "sess_" + "0" * 32}, "not_found"),
        ({"command": "ls", "shell": "ksh"}, "unavailable"),
        ({"command": "ls", "shell": "tcsh"}, "invalid_args"),
        ({"command": "ls", "work_dir": "../x"}, "path_denied"),
        ({"command": "ls", "work_dir": "none"}, "not_a_directory"),
    ],
)
async def test_refuses(call, arguments, code):
    call.settings = ToolSettings(shell_blocklist_extra=("terraform",))
    assert await call.code("shell", **arguments) == code


async def test_a_shell_that_is_missing_is_named(call):
    assert (await call("shell", command="ls", shell="ksh"))["error"] == "ksh is not installed"


async def test_a_session_keeps_folder_and_environment_and_nothing_else(call, project):
    (project / "sub").mkdir()
    first = await call.result(
        "shell", {"command": "cd /; export B=2; echo $A; pwd", "work_dir": "sub", "env": {"A": 1}}
    )
    session = first.structured_content["session"]
    assert step_of(first)["stdout"] == "1\n/\n"
    again = await call.result("shell", {"command": "pwd; echo $A,$B,$C", "session": session, "env": {"C": "3"}})
    assert step_of(again)["stdout"] == f"{project}/sub\n1,,3\n"
    assert again.structured_content["session"] == session
    third = await call.result("shell", {"command": "pwd; echo $C", "session": session, "work_dir": "."})
    assert step_of(third)["stdout"] == f"{project}\n3\n"
    fresh = await call.result("shell", {"command": "echo $A,$C", "session": ""})
    assert step_of(fresh)["stdout"] == ",\n"
    assert fresh.structured_content["session"] != session


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": "echo a"}, False),
        ({"commands": ["echo a"]}, False),
        ({"command": "echo a", "session": ""}, False),
        ({"command": "echo a", "env": {"A": "1"}}, True),
        ({"command": "exit 3", "work_dir": "."}, True),
        ({"commands": ["echo a", "exit 1", "echo b"], "work_dir": "."}, True),
    ],
)
async def test_the_text_names_a_session_once_when_it_keeps_something(call, arguments, told):
    first = await call.result("shell", arguments)
    session = first.structured_content["session"]
    assert (first.content[0].text.split("\n")[-1] == f"session: {session}") == told
    again = await call.result("shell", {**arguments, "session": session})
    assert session not in again.content[0].text
    assert again.structured_content["session"] == session


async def test_the_name_of_a_session_stays_when_the_output_is_cut(call):
    call.tokens = 200
    result = await call.result("shell", {"command": "seq 1 100000", "work_dir": "."})
    assert result.content[0].text.endswith(f"\nsession: {result.structured_content['session']}")


async def test_the_environment_of_a_session_is_bounded_as_that_of_a_call(call):
    env = {f"A{number}": "1" for number in range(200)}
    session = (await call.result("shell", {"command": "true", "env": env})).structured_content["session"]
    more = {f"B{number}": "1" for number in range(57)}
    assert await call.code("shell", command="true", session=session, env=more) == "command_denied"
    assert await call("shell", command="echo $A199$B1", session=session) == "exit: 0\n--- stdout ---\n1"


async def test_the_environment_is_scrubbed_and_layered(call):
    call.shell = {"base_env": {"BASE": "base", "A": "base"}}
    result = await call.result("shell", {"command": "env; echo $A", "env": {"A": "call"}})
    names = step_of(result)["stdout"]
    assert names.endswith("call\n")
    assert {line.split("=")[0] for line in names.splitlines()[:-1]} <= {"PATH", "LANG", "BASE", "A", "TOOLBOX_CALL", "PWD", "_", "SHLVL", "OLDPWD"}  # fmt: skip


async def test_a_command_that_takes_too_long_is_asked_before_it_is_killed(call):
    call.settings = ToolSettings(shell_timeout=0.3)
    result = await call.result(
        "shell", {"command": "trap 'echo asked; exit 9' TERM; while :; do sleep 0.01; done", "shell": "bash"}
    )
    fields = step_of(result)
    assert (fields["exit_code"], fields["timed_out"], fields["killed_by"], fields["stdout"]) == (
        124,
        True,
        "wall",
        "asked\n",
    )


async def test_one_that_does_not_listen_is_killed_with_all_it_started(call):
    call.settings = ToolSettings(shell_timeout=0.3)
    result = await call.result(
        "shell", {"command": "trap '' TERM; sleep 61 & echo $!; while :; do :; done", "shell": "bash"}
    )
    fields = step_of(result)
    assert (fields["exit_code"], fields["timed_out"]) == (124, True)
    seen = look(int(fields["stdout"]))
    assert seen is None or seen.dead


async def test_the_start_and_the_end_of_long_output_are_kept(call):
    call.shell = {"output_bytes": 1024}
    fields = step_of(await call.result("shell", {"command": "seq 1 100000"}))
    assert fields["stdout"].startswith("1\n2\n") and fields["stdout"].endswith("\n99999\n100000\n")
    assert (fields["stdout_bytes"], fields["stdout_truncated"]) == (588_895, True)


async def test_several_commands_share_the_budget(call):
    result = await call.result("shell", {"commands": ["seq 1 20000"] * 8})
    assert len(str(result.structured_content)) < 40_000
    assert len(result.content[0].text) < 12_000


async def test_needs_the_second_switch(call):
    call.gate = ExposurePolicy(enable_exec_tools=True)
    assert await call.code("shell", command="ls") == "shell_disabled"
    assert await call.code("shell", command="rm") == "shell_disabled"


async def test_counts_of_bytes_are_sent_of_cut_streams_alone(call):
    whole = step_of(await call.result("shell", {"command": "echo a"}))
    cut = step_of(await call.result("shell", {"command": "seq 1 100000"}))
    assert not {"stdout_bytes", "stderr_bytes", "stdout_truncated"} & whole.keys()
    assert (cut["stdout_bytes"], cut["stdout_truncated"], "stderr_bytes" in cut) == (588_895, True, False)


async def test_the_rest_of_an_output_can_be_read(call):
    answer = await call("shell", command="seq 1 500000")
    assert answer.startswith("exit: 0\n--- stdout ---\n1\n2\n") and answer.endswith("\n500000")
    name = re.search(r'process_output id="(out_\d+)"', answer)
    assert name, answer[:200]
    assert (await call("process_output", id=name[1], pattern="^123456$")).count("123456") >= 1


@pytest.fixture
def own_tools(project):
    """Put programs into the project's folder for its own: a tool, and one that would stand in for git."""
    folder = project / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("pytest", "git", "own"):
        (folder / name).write_text(f"#!/bin/sh\necho the own {name} $1\n")
        (folder / name).chmod(0o755)


@pytest.mark.usefixtures("own_tools")
async def test_where_temporary_files_cannot_run_the_system_is_found(call, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    assert "own" not in await call("shell", command="pytest --version; git --version", shell="sh")


@pytest.mark.usefixtures("own_tools")
async def test_the_projects_tools_are_found_first_and_nothing_else_of_it(call, project):
    (project / "sub").mkdir()
    for where in (None, "sub"):
        answer = await call(
            "shell", command="pytest 'a b'; git --version; own || echo none", shell="sh", work_dir=where
        )
        assert "the own pytest a b\ngit version " in answer
        assert "the own git" not in answer and "none" in answer


async def test_a_call_may_say_how_long_each_command_runs(call):
    answer = await call("shell", command="sleep 60", timeout=1, shell="sh")
    assert answer == (
        "result: timed out after 1s (killed)\n(no output)\n(timeout takes up to 600 s; process_start is for what runs on)"
    )
    assert await call.code("shell", command="true", timeout=601) == "invalid_args"
