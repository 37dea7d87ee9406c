from dataclasses import replace

import pytest

from toolbox_mcp.tools.settings import ToolSettings

READ_AND_WRITE_OUTSIDE = "cat ../canary; echo x > ../canary; echo x > made"


@pytest.fixture
def project(open_project):
    return open_project


@pytest.fixture
async def call(call, verdicts):
    call.sandbox = replace(call.sandbox, state=verdicts)
    call.settings = ToolSettings(shell_timeout=5, command_timeout=5)
    call.allowed_commands = ("sh", "env", "absent-program")
    return call


@pytest.fixture
async def confining(call):
    if await call("shell", command="true", sandboxed=True) != "exit: 0\n(no output)":
        pytest.skip("no sandbox back end without shortcomings works here")
    return call


async def run(call, tool, line, **more):
    given = {"command": line, "shell": "sh"} if tool == "shell" else {"command": "sh", "args": ["-c", line]}
    fields = (await call.result(tool, given | more)).structured_content
    return fields["results"][0] if tool == "shell" else fields


@pytest.mark.parametrize("tool", ["bash", "shell"])
async def test_a_sandboxed_command_reaches_the_base_and_nothing_beside_it(confining, project, tool):
    inside = await run(confining, tool, READ_AND_WRITE_OUTSIDE, sandboxed=True)
    assert "outside" not in inside["stdout"]
    assert (project / "made").read_text() == "x\n"
    assert (project.parent / "canary").read_text() == "outside"
    unconfined = await run(confining, tool, READ_AND_WRITE_OUTSIDE)
    assert unconfined["stdout"] == "outside"
    assert (project.parent / "canary").read_text() == "x\n"


@pytest.mark.parametrize("tool", ["bash", "shell"])
async def test_a_sandboxed_command_gets_nothing_of_the_host_environment(confining, tool):
    confining.env["OF_THE_HOST"] = "1"
    assert "OF_THE_HOST" not in (await run(confining, tool, "env", sandboxed=True))["stdout"]
    assert "OF_THE_HOST" in (await run(confining, tool, "env"))["stdout"]


async def test_the_bounds_of_commands_hold_in_the_sandbox_too(call):
    assert await call.code("bash", command="rm", sandboxed=True) == "command_denied"
    assert await call.code("shell", command="x" * 70_000, sandboxed=True) == "command_denied"


@pytest.mark.parametrize("tool", ["bash", "shell"])
async def test_without_a_back_end_nothing_runs(call, project, tool):
    call.sandbox = replace(call.sandbox, runtime="none")
    given = {"command": "sh", "args": ["-c", "echo x > made"]} if tool == "bash" else {"command": "echo x > made"}
    assert await call.code(tool, **given, sandboxed=True) == "sandbox_unavailable"
    assert not (project / "made").exists()


@pytest.fixture
def installed_elsewhere(call, tmp_path):
    """A program in a folder of the PATH that is none of the system's."""
    program = tmp_path / "absent-program"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    call.env["PATH"] += f":{tmp_path}"


async def test_a_program_that_only_the_sandbox_does_not_have_is_not_called_missing(installed_elsewhere, confining):
    assert await confining("bash", command="absent-program") == "exit: 0\n--- stdout ---\nhere"
    refused = await confining("bash", command="absent-program", sandboxed=True)
    told = "absent-program is not installed where a sandboxed program sees it"
    assert (refused["code"], refused["error"]) == ("unavailable", told)


async def test_a_sandboxed_command_and_its_variables_may_be_as_long_as_others(confining):
    env = {f"V{n}": "x" * 32_000 for n in range(7)}
    line = f"echo $((${{#V0}} + ${{#V6}})); echo {'é' * 30_000} | wc -c"
    assert (await run(confining, "shell", line, env=env, sandboxed=True))["stdout"] == "64000\n60001\n"


@pytest.mark.parametrize("args", [["x" * 140_000], ["x" * 1000] * 4000])
async def test_arguments_that_the_system_does_not_take_are_too_large_in_a_sandbox_too(confining, args):
    for sandboxed in (False, True):
        assert await confining.code("bash", command="sh", args=args, sandboxed=sandboxed) == "too_large"


@pytest.mark.parametrize("tool", ["bash", "shell"])
async def test_the_projects_own_programs_are_found_first_in_the_sandbox(confining, project, tool):
    folder = project / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "cat").write_text("#!/bin/sh\necho the own\n")
    (folder / "cat").chmod(0o755)
    assert (await run(confining, tool, "cat", sandboxed=True))["stdout"] == "the own\n"
