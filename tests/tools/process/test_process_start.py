import pytest


async def test_says_what_was_started(call):
    result = await call.result("process_start", {"command": "sleep", "args": ["60", "a b"], "name": "nap"})
    fields = result.structured_content
    pid = fields.pop("pid")
    told = {"id": "proc_1", "name": "nap", "command": "sleep 60 'a b'", "status": "running"}
    assert fields == told | {"stdout": "", "stderr": "", "dropped_bytes": 0}
    assert result.content[0].text == f"Started proc_1 (pid {pid}): sleep 60 'a b'"


async def test_runs_in_the_base_with_a_scrubbed_environment(start, ended, project):
    _, text = await ended(await start("sh", "-c", "pwd; env"))
    first, *rest = text.splitlines()
    assert first == str(project)
    assert {line.split("=")[0] for line in rest} <= {"PATH", "LANG", "TOOLBOX_CALL", "PWD", "_", "SHLVL", "OLDPWD"} | {
        "PYTHONUNBUFFERED"
    }


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


async def test_waits_for_the_first_line_in_the_same_call(call):
    line = "echo serving on 8000; exec sleep 60"
    text = await call("process_start", command="sh", args=["-c", line], wait_for="serving on [0-9]+")
    first, *rest = text.split("\n")
    assert first.startswith("Started proc_1 (pid ") and rest == [
        "proc_1: running, matched",
        "--- stdout ---",
        "serving on 8000",
    ]


async def test_says_that_nothing_matched_or_that_it_ended(call):
    text = await call("process_start", command="sh", args=["-c", "echo no; exec sleep 60"], wait_for="yes", wait=0.2)
    assert "\nproc_1: running, no match\n--- stdout ---\nno" in text
    text = await call("process_start", command="sh", args=["-c", "echo bad >&2; exit 3"], wait_for="yes", wait=10)
    assert "\nproc_2: exited, exit 3, no match\n--- stderr ---\nbad" in text


async def test_a_bad_pattern_starts_nothing(call):
    assert await call.code("process_start", command="sleep", args=["60"], wait_for="(") == "bad_pattern"
    assert await call("process_list") == "no processes"


async def test_runs_in_a_folder_with_variables(call, project, ended):
    (project / "sub").mkdir()
    given = {"command": "sh", "args": ["-c", "pwd; echo $A"], "work_dir": "sub", "env": {"A": "b"}}
    started = (await call.result("process_start", given)).structured_content
    _, text = await ended(started["id"])
    assert (started["stdout"] + text).split() == [str(project / "sub"), "b"]


async def test_a_name_is_as_good_as_an_id(call):
    await call.result("process_start", {"command": "sleep", "args": ["60"], "name": "web"})
    assert (await call("process_output", id="web")).startswith("web: running")
    assert (await call("process_kill", id="web")).startswith("Killed")
    assert await call.code("process_output", id="web") == "unknown_process"


async def test_what_a_program_in_python_says_comes_at_once(call):
    call.allowed_commands = ("python3",)
    answer = await call(
        "process_start", command="python3", args=["-c", "print('ready'); input()"], stdin=True, wait_for="ready"
    )
    assert ", matched" in answer
