import pytest

from toolbox_mcp.server.call.exposure import ExposurePolicy
from toolbox_mcp.tools.settings import ToolSettings


@pytest.fixture
def call(call):
    call.settings = ToolSettings(
        script_interpreters={".sh": "sh", ".py": "python3", ".x": "absent-program", ".opt": "sh -e"}, shell_timeout=20
    )
    return call


@pytest.fixture
def script(project):
    def script(name, text):
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return name

    return script


async def test_runs_a_script_with_its_arguments(call, script, project):
    path = script("bin/a b.sh", 'echo "$0|$1|$2|$X|$N"; pwd; echo err >&2; exit 3\n')
    result = await call.result("run_script", {"path": path, "args": ["x y", "$HOME"], "env": {"X": "1 2", "N": 5}})
    assert result.content[0].text == (
        f"exit: 3\n--- stdout ---\n{project}/bin/a b.sh|x y|$HOME|1 2|5\n{project}\n--- stderr ---\nerr"
    )
    fields = result.structured_content
    assert (fields["path"], fields["interpreter"], fields["exit_code"]) == ("bin/a b.sh", "sh", 3)


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("a.PY", "print('py')", "exit: 0\n--- stdout ---\npy"),
        ("a.opt", "false\necho no", "exit: 1\n(no output)"),
        ("a.sh", "", "exit: 0\n(no output)"),
    ],
)
async def test_the_extension_says_what_runs_it(call, script, name, text, answer):
    assert await call("run_script", path=script(name, text)) == answer


async def test_runs_where_it_is_told(call, script, project):
    (project / "sub").mkdir()
    assert (
        await call("run_script", path=script("a.sh", "pwd"), work_dir="sub")
        == f"exit: 0\n--- stdout ---\n{project}/sub"
    )


async def test_a_script_that_takes_too_long_is_killed(call, script):
    call.settings = ToolSettings(script_interpreters={".sh": "sh"}, shell_timeout=0.2)
    assert (await call("run_script", path=script("a.sh", "echo x; sleep 60"))).startswith("result: timed out after ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"path": "a.rb"}, "script_denied"),
        ({"path": "noext"}, "script_denied"),
        ({"path": "a.x"}, "unavailable"),
        ({"path": "none.sh"}, "not_a_file"),
        ({"path": "dir.sh"}, "not_a_file"),
        ({"path": "../a.sh"}, "path_denied"),
        ({"path": "a.sh", "work_dir": "/"}, "path_denied"),
        ({"path": "a.sh", "work_dir": "a.rb"}, "not_a_directory"),
        ({"path": "a.sh", "args": ["x\0"]}, "command_denied"),
        ({"path": "a.sh", "args": ["x"] * 257}, "invalid_args"),
        ({"path": "a.sh", "args": ["x" * 16385]}, "invalid_args"),
        ({"path": "a.sh", "env": {"A=B": "1"}}, "command_denied"),
        ({"path": "a.sh", "env": {"A": None}}, "invalid_args"),
    ],
)
async def test_refuses(call, script, project, arguments, code):
    for name in ("a.rb", "noext", "a.x", "a.sh"):
        script(name, "touch ran")
    (project / "dir.sh").mkdir()
    assert await call.code("run_script", **arguments) == code
    assert not (project / "ran").exists()


async def test_an_interpreter_in_a_relative_folder_of_the_path_is_not_used(call, script, project, monkeypatch):
    monkeypatch.chdir(project)
    (project / "sh").write_text("#!/bin/sh\necho planted\n")
    (project / "sh").chmod(0o755)
    call.env["PATH"] = ":.:/usr/bin:/bin"
    assert await call("run_script", path=script("a.sh", "echo real")) == "exit: 0\n--- stdout ---\nreal"


async def test_a_call_names_no_folder_for_the_interpreter(call, script, project):
    (project / "python3").write_text("#!/bin/sh\necho planted\n")
    (project / "python3").chmod(0o755)
    made = script("a.py", "print('real')")
    for name, value in (("PATH", str(project)), ("LD_PRELOAD", str(project / "x.so")), ("PYTHONPATH", str(project))):
        assert await call.code("run_script", path=made, env={name: value}) == "env_denied"
    assert "real" in await call("run_script", path=made, env={"PLAIN": str(project)})


async def test_needs_the_second_switch(call, script):
    call.gate = ExposurePolicy(enable_exec_tools=True)
    assert await call.code("run_script", path=script("a.sh", "")) == "shell_disabled"
