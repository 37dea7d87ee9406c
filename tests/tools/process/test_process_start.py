import pytest


async def test_says_what_was_started(call):
    result = await call.result("process_start", {"command": "sleep", "args": ["60", "a b"], "name": "nap"})
    fields = result.structured_content
    pid = fields.pop("pid")
    assert fields == {"id": "proc_1", "name": "nap", "command": "sleep 60 'a b'"}
    assert result.content[0].text == f"Started proc_1 (pid {pid}): sleep 60 'a b'"


async def test_runs_in_the_base_with_a_scrubbed_environment(start, ended, project):
    _, text = await ended(await start("sh", "-c", "pwd; env"))
    first, *rest = text.splitlines()
    assert first == str(project)
    assert {line.split("=")[0] for line in rest} <= {"PATH", "LANG", "TOOLBOX_CALL", "PWD", "_", "SHLVL", "OLDPWD"}


async def test_stdin_is_empty_unless_asked_for(start, ended):
    assert (await ended(await start("cat")))[1] == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"command": ""}, "command_denied"),
        ({"command": "/bin/sh"}, "command_denied"),
        ({"command": "rm"}, "command_denied"),
        ({"command": "sh;ls"}, "command_denied"),
        ({"command": "sh", "args": ["a\0b"]}, "command_denied"),
        ({"command": "absent-program"}, "unavailable"),
        ({"command": "absent-program", "pty": True}, "unavailable"),
        ({"command": "sh", "name": "x" * 65}, "invalid_args"),
        ({"command": "sh", "args": "x"}, "invalid_args"),
        ({}, "invalid_args"),
        ({"command": "sh", "unsafe": True}, "unsafe_denied"),
    ],
)
async def test_refuses(call, arguments, code):
    result = await call.result("process_start", arguments)
    assert result.structured_content["code"] == code
    assert await call("process_list") == "no processes"


async def test_the_ninth_live_process_is_refused(call, start):
    for _ in range(8):
        await start("sleep", "60")
    assert await call("process_start", command="sleep", args=["60"]) == {
        "error": "8 background processes are running, which is the most there may be",
        "code": "too_many_processes",
        "hint": "end one with process_kill",
    }
    await call("process_kill", id="proc_1")
    assert await start("sleep", "60") == "proc_9"


async def test_ended_processes_do_not_count(call, start, ended):
    call.max_processes = 1
    for _ in range(3):
        await ended(await start("true"))
