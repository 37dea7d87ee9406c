import socket
from dataclasses import replace

import pytest

from toolbox_mcp.sandbox.backends.local import NOBODY
from toolbox_mcp.sandbox.linux.privileges import can_become
from toolbox_mcp.tools.settings import ToolSettings


@pytest.fixture
def project(open_project):
    return open_project


@pytest.fixture
async def call(call, project, verdicts):
    call.sandbox = replace(call.sandbox, state=verdicts)
    call.settings = ToolSettings(shell_sandbox=True, shell_timeout=5, script_interpreters={".sh": "sh"})
    if await call("shell", command="true") != "exit: 0\n(no output)":
        pytest.skip("no sandbox back end without shortcomings works here")
    return call


async def out(call, command, **more):
    return (await call.result("shell", {"command": command, "shell": "sh", **more})).structured_content["results"][0][
        "stdout"
    ]


async def test_the_base_is_writable_and_is_where_it_runs(call, project):
    assert await out(call, "pwd; echo x > made; cat made") == f"{project}\nx\n"
    assert (project / "made").read_text() == "x\n"


async def test_what_lies_outside_cannot_be_read_or_written(call, project):
    # What is above the base may be the sandbox's own scratch folder, where writing succeeds and changes nothing.
    command = f"cat {project.parent}/canary ../canary; echo x > ../made; echo x > {project.parent}/canary; echo done"
    assert await out(call, command) == "done\n"
    assert (project.parent / "canary").read_text() == "outside"
    assert sorted(entry.name for entry in project.parent.iterdir()) == ["canary", "project"]


async def test_the_argument_of_a_call_cannot_lift_it(call, project):
    command = f"cat {project.parent}/canary || echo contained"
    assert await out(call, command, sandboxed=False) == "contained\n"


async def test_a_port_of_this_machine_cannot_be_reached(call):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        result = await call.result(
            "shell", {"command": f'/usr/bin/python3 -c "{text}" || echo contained', "shell": "sh"}
        )
        assert result.structured_content["results"][0]["stdout"] == "contained\n", result.content[0].text
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_the_environment_of_the_host_stays_outside(call):
    names = {line.split("=")[0] for line in (await out(call, "env", env={"GIVEN": "1"})).splitlines()}
    assert "GIVEN" in names
    assert names <= {
        "GIVEN",
        "PATH",
        "HOME",
        "LANG",
        "MPLBACKEND",
        "TMPDIR",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "TOOLBOX_CALL",
        "container",
    }


async def test_a_script_runs_there_as_well(call, project):
    (project / "a.sh").write_text(f"cat {project.parent}/canary || echo contained")
    answer = await call("run_script", path="a.sh")
    assert answer.startswith("exit: 0\n--- stdout ---\ncontained")


@pytest.mark.slow
async def test_a_command_that_takes_too_long_is_killed(call):
    assert (await call("shell", command="while :; do :; done")).startswith("result: ")


async def test_lines_are_not_judged_where_the_sandbox_is_the_boundary(call, project):
    assert await out(call, "echo x > made; rm made; ls | wc -l") == "0\n"


@pytest.mark.parametrize(("runtime", "confined"), [("none", False), ("auto", True)])
async def test_auto_takes_a_sandbox_where_one_works_and_judges_lines_where_none_does(call, runtime, confined):
    await call.aclose()
    other = type(call)(call.roots[0])
    other.sandbox = replace(call.sandbox, runtime=runtime)
    other.settings = replace(call.settings, shell_sandbox="auto")
    try:
        answer = await other("shell", command="rm nothing || echo tried", shell="sh")
        assert ("tried" in answer) if confined else (answer["code"] == "command_denied")
        assert "hello" in await other("shell", command="echo hello", shell="sh")
    finally:
        await other.aclose()


async def test_a_project_that_may_only_be_read_is_told(call, project):
    if not can_become(NOBODY):
        pytest.skip("what is sandboxed has the user of the server")
    assert "can only be read" not in await call("shell", command="true")
    project.chmod(0o755)
    first = (await call("shell", command="echo x > made")).split("\n")[0]
    assert first.endswith(
        "[degraded: the project can only be read: this server runs as root, and programs in its sandbox as nobody]"
    )


async def test_the_projects_own_programs_are_found_first(call, project):
    folder = project / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "cat").write_text("#!/bin/sh\necho the own\n")
    (folder / "cat").chmod(0o755)
    assert await out(call, "cat") == "the own\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("curl -s http://127.0.0.1:1/", "[the sandbox has no network]"),
        ("echo 'curl: (6) Could not resolve host: x' >&2", "[the sandbox has no network]"),
        ("echo 'Unable to create .git/index.lock: Read-only file system' >&2; exit 1", "[in the sandbox .git is only read: the git tools and bash change it]"),
        ("echo curl", None),
        ("exit 3", None),
    ],
)  # fmt: skip
async def test_says_what_the_sandbox_lacks(call, line, told):
    answer = await call("shell", command=line, shell="sh")
    assert answer.endswith(told) if told else "[" not in answer
