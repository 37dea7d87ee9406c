import pytest

from tests.tables import each_row
from toolbox_mcp.tools.settings import ToolSettings


@pytest.fixture
def call(call):
    call.allowed_commands = ("printf", "cat", "sh", "env", "pwd", "sleep", "absent-program")
    return call


@pytest.mark.parametrize(
    ("command", "args", "text"),
    [
        ("printf", ["a b"], "exit: 0\n--- stdout ---\na b"),
        ("printf", ["%s|", "$HOME", "*", ";ls", "`id`", "$(id)"], "exit: 0\n--- stdout ---\n$HOME|*|;ls|`id`|$(id)|"),
        ("sh", ["-c", "exit 3"], "exit: 3\n(no output)"),
        ("sh", ["-c", "echo out; echo err >&2; exit 1"], "exit: 1\n--- stdout ---\nout\n--- stderr ---\nerr"),
        ("sh", ["-c", "kill -9 $$"], "result: killed: external\n(no output)"),
        ("sh", ["-c", "kill -15 $$"], "exit: 143\n(no output)"),
        ("cat", [], "exit: 0\n(no output)"),
        ("printf", ["\\033[31mred\\033[0m\\007"], "exit: 0\n--- stdout ---\nred"),
    ],
)
async def test_runs_one_program_without_a_shell(call, command, args, text):
    assert await call("bash", command=command, args=args) == text


async def test_runs_in_the_base_with_a_scrubbed_environment(call, project):
    assert await call("bash", command="pwd") == f"exit: 0\n--- stdout ---\n{project}"
    names = {line.split("=")[0] for line in (await call("bash", command="env")).split("\n")[2:]}
    assert names - {"TOOLBOX_CALL"} <= {"PATH", "LANG"}


async def test_answers_with_the_exec_fields(call):
    result = await call.result("bash", {"command": "sh", "args": ["-c", "printf abc; kill -15 $$"]})
    fields = result.structured_content
    duration = fields.pop("duration_ms")
    assert duration >= 0
    assert fields == {
        "exit_code": 143, "signal": "SIGTERM", "stdout": "abc", "stderr": "",
    }  # fmt: skip
    assert not result.is_error


@each_row(
    ("command", "args"),
    [
        ("", []), ("  ", []), ("/bin/cat", []), ("./cat", []), ("bin\\cat", []), ("cat;ls", []), ("cat ", []),
        ("cat\n", []), ("$(cat)", []), ("`cat`", []), ("c*t", []), ("~cat", []), ("#cat", []), ("rm", []), ("CAT", []),
        ("cat", ["a\0b"]), ("cat -", []), ("{cat}", []), ("cat|sh", []), ("!cat", []), ("c?t", []), ("[cat]", []),
    ],
)  # fmt: skip
async def test_what_is_not_exactly_allowed_is_denied(call, command, args):
    assert await call.code("bash", command=command, args=args) == "command_denied"


async def test_the_refusal_lists_what_is_allowed(call):
    call.allowed_commands = ("cat", "ls")
    assert "cat, ls" in (await call("bash", command="rm"))["error"]


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("cat -n a.txt", "the words after cat belong into args"),
        ("cat src/a.txt", "the words after cat belong into args"),
        ("cat *.txt", "put the arguments into args, each as it is; shell takes a whole line"),
        ("rm -rf x", "delete_file deletes"),
        ("rm", "delete_file deletes"),
        ("nosuch", "allowed_commands in the configuration names what may run"),
        ("src/cat", "cat without a folder is the project's own, if it has one"),
        ("cat;ls", "put the arguments into args, each as it is; shell takes a whole line"),
    ],
)
async def test_the_refusal_of_a_whole_line_says_where_its_words_belong(call, command, hint):
    assert (await call("bash", command=command))["hint"] == hint


async def test_an_empty_list_says_none(call):
    call.allowed_commands = ()
    assert "(none)" in (await call("bash", command="ls"))["error"]


async def test_a_program_that_is_not_installed_is_unavailable(call):
    assert await call.code("bash", command="absent-program") == "unavailable"


async def test_a_program_is_killed_at_its_time_out_and_says_so(call):
    call.settings = ToolSettings(command_timeout=0.3)
    result = await call.result("bash", {"command": "sh", "args": ["-c", "echo begun; sleep 60 & sleep 60"]})
    assert (
        result.content[0].text
        == "result: timed out after 0s (killed)\n--- stdout ---\nbegun\n(timeout takes up to 600 s; process_start is for what runs on)"
    )
    assert (result.structured_content["exit_code"], result.structured_content["timed_out"]) == (124, True)


async def test_output_is_cut_to_the_budget_and_counted_whole(call):
    call.tokens = 200
    result = await call.result("bash", {"command": "sh", "args": ["-c", "seq 1 100000; echo oops >&2"]})
    fields = result.structured_content
    assert fields["stdout_bytes"] == sum(len(str(n)) + 1 for n in range(1, 100001))
    assert fields["stdout_truncated"] is True
    assert "stderr_truncated" not in fields
    assert fields["stderr"] == "oops\n"
    assert result.content[0].text.endswith("--- stderr ---\noops")
    assert result.meta["truncated"]["cut"] > 0


async def test_unsafe_lifts_the_list_and_the_slash_rule_but_no_more(call):
    from toolbox_mcp.server.call.pipeline import Rules

    call.rules = Rules(allow_unsafe=True)
    assert await call("bash", command="/bin/echo", args=["x"], unsafe=True) == "exit: 0\n--- stdout ---\nx"
    assert await call("bash", command="true", unsafe=True) == "exit: 0\n(no output)"
    assert len(call.overrides) == 2
    assert await call.code("bash", command="echo;ls", unsafe=True) == "command_denied"
    assert await call.code("bash", command="echo", args=["a\0"], unsafe=True) == "command_denied"


async def test_a_disabled_tool_tells_nothing_about_its_arguments(call):
    from toolbox_mcp.server.call.exposure import ExposurePolicy

    call.gate = ExposurePolicy()
    answer = await call("bash", nonsense=1, unsafe=True)
    assert answer == {
        "error": "bash is not enabled",
        "code": "exec_disabled",
        "hint": "the operator can set enable_exec_tools: true",
    }


@pytest.fixture
def planted(project):
    """Programs in the project that would leave a mark, and a PATH that leads to them by relative folders."""
    (project / "bin").mkdir()
    for place in ("cat", "sh", "bin/cat", "bin/sh"):
        (project / place).write_text("#!/bin/sh\necho planted\n")
        (project / place).chmod(0o755)
    return ":.:bin:./bin:/usr/bin:/bin"


@pytest.mark.parametrize("tool", ["bash", "process_start"])
async def test_a_relative_folder_of_the_path_decides_nothing(call, planted, tool):
    call.env["PATH"] = planted
    if tool == "bash":
        assert await call("bash", command="cat") == "exit: 0\n(no output)"
        return
    await call("process_start", command="cat")
    result = await call.result("process_output", {"id": "proc_1", "wait": 10})
    assert (result.structured_content["stdout"], result.structured_content["exit_code"]) == ("", 0)


async def test_a_program_that_is_only_in_a_relative_folder_is_unavailable(call, planted):
    call.env["PATH"] = ".:bin"
    assert await call.code("bash", command="cat") == "unavailable"


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("cat < /dev/tty || echo none", "none"),
        ('read x; echo "got <$x>"', "got <>"),
        ("exec <&- >&- 2>&-; exit 0", ""),
        ("printf '\\377\\376\\000\\001abc\\r\\n\\342\\200\\256'", "\ufffd\ufffdabc"),
        ("sleep 60 & echo left", "left"),
        ("setsid sleep 60 >/dev/null 2>&1 & echo left", "left"),
        ("trap '' TERM HUP; echo deaf", "deaf"),
    ],
)
async def test_a_program_that_behaves_badly_is_answered(call, script, text):
    result = await call.result("bash", {"command": "sh", "args": ["-c", script]})
    fields = result.structured_content
    assert (fields["exit_code"], "timed_out" in fields, fields["stdout"].strip()) == (0, False, text)


@pytest.mark.parametrize("writer", ["head -c 1000000 /dev/zero | tr '\\0' x", "yes | head -c 100000000"])
async def test_a_flood_and_a_line_without_end_are_cut_and_counted(call, writer):
    result = await call.result("bash", {"command": "sh", "args": ["-c", writer]})
    fields = result.structured_content
    assert (fields["exit_code"], fields["stdout_truncated"]) == (0, True)
    assert fields["stdout_bytes"] in (1_000_000, 100_000_000)
    assert len(result.content[0].text) < 20_000


async def test_arguments_longer_than_the_system_takes_are_refused(call):
    assert await call.code("bash", command="printf", args=["x" * (3 << 20)]) == "too_large"


async def test_text_that_is_no_text_is_refused(call):
    assert await call.code("bash", command="printf\ud800") == "command_denied"
    assert await call.code("bash", command="printf", args=["a\ud800"]) == "invalid_args"


async def test_runs_in_a_folder_with_variables_and_input(call, project):
    (project / "sub").mkdir()
    assert await call("bash", command="pwd", work_dir="sub") == f"exit: 0\n--- stdout ---\n{project}/sub"
    answer = await call("bash", command="sh", args=["-c", "echo $A; cat"], env={"A": "b", "N": 1}, stdin="in\n")
    assert answer == "exit: 0\n--- stdout ---\nb\nin"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"work_dir": ".."}, "path_denied"),
        ({"work_dir": "/etc"}, "path_denied"),
        ({"work_dir": "nothing"}, "not_a_directory"),
        ({"env": {"PATH": "x"}}, "env_denied"),
        ({"env": {"LD_PRELOAD": "x"}}, "env_denied"),
        ({"env": {"A": "a\0b"}}, "command_denied"),
        ({"timeout": 0}, "invalid_args"),
        ({"timeout": 601}, "invalid_args"),
        ({"stdin": "x" * (1 << 20) + "x"}, "too_large"),
    ],
)
async def test_folder_variables_time_and_input_are_guarded(call, given, code):
    assert await call.code("bash", command="cat", **given) == code


async def test_a_call_may_shorten_its_time(call):
    answer = await call("bash", command="sleep", args=["60"], timeout=1)
    assert answer.startswith("result: timed out after 1s (killed)")


def tool(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


async def test_tools_of_the_nearest_project_are_found_first(call, project):
    call.allowed_commands = ("pytest", "python3", "cat", "npm")
    tool(project / ".venv/bin", "pytest", "echo top")
    tool(project / "api/venv/bin", "pytest", 'echo api; python3 -c "print(1)"')
    tool(project / "api/venv/bin", "python3", "echo own python")
    (project / "web").mkdir()
    assert await call("bash", command="pytest") == "exit: 0\n--- stdout ---\ntop"
    assert await call("bash", command="pytest", work_dir="web") == "exit: 0\n--- stdout ---\ntop"
    assert await call("bash", command="pytest", work_dir="api") == "exit: 0\n--- stdout ---\napi\nown python"
    (project / "api/tests").mkdir()
    answer = await call("bash", command="python3", work_dir="api/tests")
    assert answer == "exit: 0\n--- stdout ---\nown python"


async def test_who_may_write_files_does_not_become_another_program(call, project):
    """A file named git in the project's own bin would run instead, were it looked for there."""
    call.allowed_commands = ("git", "make")
    for name in ("git", "make"):
        tool(project / ".venv/bin", name, "echo forged")
    call.env = call.env | {"PATH": "/nonexistent"}
    assert await call.code("bash", command="git") == "unavailable"
    assert await call.code("process_start", command="make") == "unavailable"
