"""The command line: what a person sees on stdout and stderr, and the exit status."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each_row
from toolbox_mcp.sandbox.service import Sandbox
from toolbox_mcp.sandbox.spec import Probe
from toolbox_mcp.server.cli import COMMANDS, Surroundings, main, run
from toolbox_mcp.server.config.flags import flag_names
from toolbox_mcp.server.config.settings import table
from toolbox_mcp.tools.catalogue import load_tools

TOOLS = load_tools()

TOKEN = "0123456789abcdef0123456789abcdef"


@dataclass
class Printed:
    status: int
    out: str
    err: str


@pytest.fixture
def cli(user, monkeypatch) -> Any:
    """Return a function that runs a command line in this process, as the user in the project."""

    def typed(*argv: str, stdin: str = "", cwd: Path | None = None, **env: str) -> Printed:
        out, err = io.StringIO(), io.StringIO()
        everything = {"HOME": str(user.home), "PATH": os.environ["PATH"], **env}
        around = Surroundings(everything, cwd or user.project, out, err, io.StringIO(stdin), lambda work: work())
        return Printed(run(argv, around), out.getvalue(), err.getvalue())

    return typed


def spawn(user, argv: Sequence[str], *, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    everything = {"HOME": str(user.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **env}
    return subprocess.run(
        [sys.executable, "-P", "-m", "toolbox_mcp", *argv],
        check=False,
        input=stdin,
        capture_output=True,
        text=True,
        env=everything,
        cwd=user.project,
        timeout=60,
    )


# --- help


@each_row("argv", [["--help"], ["-h"], ["--root", ".", "--help"]])
def test_help_names_every_command_and_flag(cli, argv):
    shown = cli(*argv)
    assert (shown.status, shown.err) == (0, "")
    for word in (*COMMANDS, *flag_names(), "examples:"):
        assert word in shown.out
    assert max(map(len, shown.out.splitlines())) <= 120


@each_row("command", COMMANDS)
def test_every_command_has_help(cli, command):
    shown = cli(command, "--help")
    assert shown.status == 0
    assert f"toolbox-mcp {command}" in shown.out
    assert "Every flag of `toolbox-mcp --help`" in shown.out


def test_help_needs_no_usable_configuration(cli):
    assert cli("--help", TOOLBOX_NONSENSE="1").status == 0


def test_the_version_is_printed(cli):
    shown = cli("--version")
    assert shown.status == 0
    assert shown.out.startswith("toolbox-mcp ")


# --- what cannot be used


@each_row(
    ("argv", "part"),
    [
        (["tols"], "no command tols; did you mean tools?"),
        (["install", "notepad"], "invalid choice: 'notepad'"),
        (["--rot", "x"], "did you mean --root?"),
        (["tools", "--rot", "x"], "did you mean --root?"),
        (["tools", "--jsn"], "did you mean --json?"),
        (["tools", "extra"], "unexpected argument extra"),
        (["call"], "NAME"),
        (["call", "read_file", "{"], "not JSON"),
        (["call", "read_file", "[1]"], "JSON object"),
        (["log", "--limit", "0"], "--limit"),
        (["serve", "--port", "x"], "port: expected a whole number"),
        (["--toolsets", "reed"], "did you mean read?"),
        (["call", "--token", TOKEN, "read_file"], "secrets never come by flag"),
        (["config", "--show", "--set", f"token={TOKEN}"], "secrets never come by flag"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(cli, argv, part):
    shown = cli(*argv)
    assert (shown.status, shown.out) == (2, "")
    assert shown.err.startswith("toolbox-mcp: ")
    assert shown.err.count("\n") == 1
    assert part in shown.err
    assert TOKEN not in shown.err


@each_row("command", COMMANDS)
def test_every_command_answers_bad_configuration_in_one_line(cli, command):
    rest = ["read_file"] if command == "call" else []
    shown = cli(command, *rest, "--set", "max_processes=none")
    assert (shown.status, shown.out, shown.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("argv", [["serve", "--set", "port=x"], ["--rot"], ["tols"], ["--help"]])
def test_an_early_answer_imports_neither_the_sdk_nor_pydantic(user, argv):
    code = (
        "import sys; from toolbox_mcp.server.cli import main; status = main(sys.argv[1:]);"
        "heavy = {'mcp', 'mcp_types', 'pydantic', 'anyio', 'httpx', 'tiktoken', 'yaml', 'asyncio'};"
        "sys.exit(f'imported {heavy & sys.modules.keys()}' if heavy & sys.modules.keys() else status)"
    )
    env = {"HOME": str(user.home), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        check=False,
        cwd=user.project,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == (0 if argv == ["--help"] else 2), done.stderr


# --- flags before and after the command


@each_row(
    "argv",
    [
        ["--port", "1", "config", "--show", "--json"],
        ["config", "--port", "1", "--show", "--json"],
        ["config", "--show", "--json", "--port", "1"],
        ["config", "--json", "--port=1"],
    ],
)
def test_a_flag_may_stand_anywhere(cli, argv):
    shown = cli(*argv)
    assert json.loads(shown.out)["settings"]["port"] == {"value": 1, "source": "flag --port"}


def test_what_follows_two_dashes_is_no_flag(cli):
    shown = cli("call", "--set", "records=no", "--", "--root", "{}")
    assert "no tool --root" in shown.err


# --- config --show


def test_show_has_every_setting_with_its_source(cli, user):
    user.write_settings("max_processes: 3\nsandbox_memory: 1g\n")
    shown = cli("config", "--show", "--json", TOOLBOX_PORT="9")
    settings = json.loads(shown.out)["settings"]
    assert list(settings) == list(table())
    assert settings["max_processes"] == {"value": 3, "source": "file"}
    assert settings["sandbox_memory"] == {"value": "1g", "source": "file"}
    assert settings["port"] == {"value": 9, "source": "env TOOLBOX_PORT"}
    assert settings["root"] == {"value": str(user.project), "source": "default"}
    assert json.loads(shown.out)["config_file"] == str(user.settings)


def test_show_is_a_table_for_people(cli):
    lines = cli("config", "--show", "--enable-exec").out.splitlines()
    assert lines[0].startswith("settings file: none")
    row = next(line for line in lines if "enable_exec_tools" in line)
    assert row.split() == ["enable_exec_tools", "true", "flag", "--enable-exec"]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_show_masks_every_secret(cli, user, form):
    tokens = user.file("tokens", f"ada:{TOKEN}\n")
    user.write_settings("tavily_api_key: hunter2\n")
    env = {"TOOLBOX_BRAVE_API_KEY": "hunter3", "TOOLBOX_TOKEN": TOKEN[::-1]}
    shown = cli("config", "--show", "--token-file", str(tokens), *form, **env)
    assert shown.status == 0
    for secret in ("hunter2", "hunter3", TOKEN, TOKEN[::-1]):
        assert secret not in shown.out + shown.err
    assert shown.out.count("********") == 2
    assert "ada" in shown.out
    assert "env TOOLBOX_BRAVE_API_KEY" in shown.out


# --- tools


def test_tools_lists_the_catalogue_with_what_would_open_each(cli):
    rows = {row["name"]: row for row in json.loads(cli("tools", "--json", "--toolsets", "read,command").out)}
    assert set(rows) == {tool.name for tool in TOOLS}
    assert rows["read_file"]["state"] == "exposed"
    assert rows["bash"]["state"] == "set enable_exec_tools: true"
    assert rows["calculator"]["state"] == "add util to toolsets"
    assert all(row["tokens"] > 0 for row in rows.values())


def test_a_toolset_or_profile_of_which_there_are_no_tools_stops_the_start(cli):
    for argv in (["--profile", "orbit"], ["--toolsets", "read,orbiter"], ["--exec-tools", "bash,no_such_tool"]):
        assert cli("tools", *argv).status == 2


def test_tools_is_a_table_that_ends_with_its_sums(cli):
    lines = cli("tools").out.splitlines()
    assert lines[0].split() == ["NAME", "GROUP", "ACCESS", "TOKENS", "STATE"]
    tokens = sum(int(line.split()[3]) for line in lines[1:-1] if line.split()[4] == "exposed")
    listed = sum(line.split()[4] == "exposed" for line in lines[1:-1])
    assert lines[-1] == f"{len(TOOLS)} tools, {listed} listed with {tokens} tokens"


# --- call


def test_call_prints_the_answer(user):
    (user.project / "a.txt").write_text("one\ntwo\n")
    done = spawn(user, ["call", "read_file", '{"path": "a.txt"}', "--set", "records=no"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\ntwo\n", "")


def test_call_reads_its_arguments_from_stdin(user):
    (user.project / "a.txt").write_text("one\n")
    done = spawn(user, ["call", "read_file", "-", "--set", "records=no"], stdin='{"path": "a.txt"}')
    assert (done.returncode, done.stdout) == (0, "one\n")


def test_an_error_of_a_call_is_printed_with_status_1(user):
    done = spawn(user, ["call", "read_file", '{"path": "../x"}', "--set", "records=no", "--json"])
    assert done.returncode == 1
    assert json.loads(done.stdout)["structuredContent"]["code"] == "path_denied"


def test_a_call_of_a_tool_that_does_not_exist_is_one_line(user):
    done = spawn(user, ["call", "read_fil", "--set", "records=no"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "toolbox-mcp: no tool read_fil; did you mean read_file?\n"


def test_a_call_is_recorded_and_log_shows_it(user, cli):
    (user.project / "a.txt").write_text("one\n")
    assert spawn(user, ["call", "read_file", '{"path": "a.txt"}']).returncode == 0
    assert spawn(user, ["call", "read_file", '{"path": "nope"}']).returncode == 1
    shown = cli("log", "--json", "--status", "error")
    (row,) = [json.loads(line) for line in shown.out.splitlines()]
    assert (row["tool"], row["code"], json.loads(row["input"])) == ("read_file", "not_a_file", {"path": "nope"})
    assert len(cli("log").out.splitlines()) == 2


# --- serve


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def test_serve_is_the_default_and_speaks_only_protocol_on_stdout(user):
    done = spawn(user, ["--set", "records=no"], stdin=json.dumps(HELLO) + "\n")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["result"]["serverInfo"]["name"] == "toolbox-mcp"
    assert (done.returncode, done.stderr) == (0, "")


def test_whoever_starts_it_in_a_terminal_is_told_what_it_waits_for(user):
    argv = [sys.executable, "-P", "-m", "toolbox_mcp", "--set", "records=no"]
    env = {"HOME": str(user.home), "PATH": os.environ["PATH"]}
    terminal, stdin = os.openpty()
    with subprocess.Popen(
        argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=user.project
    ) as server:
        os.close(stdin)
        assert server.stderr and server.stdout
        line = server.stderr.readline()
        os.write(terminal, b"\x04")
        out, rest = server.communicate(timeout=30)
    os.close(terminal)
    assert line == "toolbox-mcp: an MCP client is expected on stdin and stdout; Ctrl-C ends this\n"
    assert (out, rest, server.returncode) == ("", "", 0)


@pytest.mark.parametrize(("transport", "path"), [("http", "/mcp"), ("sse", "/sse")])
def test_serving_http_says_where_on_stderr_and_ends_by_a_signal(user, transport, path):
    argv = [sys.executable, "-P", "-m", "toolbox_mcp", "--transport", transport, "--port", "0"]
    env = {"HOME": str(user.home), "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=user.project
    ) as server:
        assert server.stderr and server.stdout
        line = server.stderr.readline()
        server.terminate()
        out, rest = server.communicate(timeout=30)
    assert re.fullmatch(rf"toolbox-mcp: serving at http://127\.0\.0\.1:[0-9]+{path}\n", line)
    assert (out, rest, server.returncode) == ("", "", -signal.SIGTERM)


def test_a_port_that_is_taken_is_one_line(user):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = spawn(user, ["--transport", "http", "--port", str(port)])
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"port {port} is in use at 127.0.0.1; --port 0 picks a free one" in done.stderr


def test_what_is_found_wrong_while_starting_is_one_line(user):
    done = spawn(user, ["--set", "records=no", "--set", "unsafe_logger=no_such_module:f"])
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "unsafe_logger" in done.stderr


# --- doctor


@pytest.fixture
def no_attacks(monkeypatch):
    """Have the doctor say what it says of all but the sandbox, without the attacks on it, which take seconds."""

    async def doctor(sandbox: Sandbox) -> dict[str, Probe]:
        return {}

    monkeypatch.setattr(Sandbox, "doctor", doctor)


def findings(shown: Printed) -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in json.loads(shown.out)}


def test_doctor_finds_what_the_default_configuration_needs(cli):
    shown = cli("doctor", "--json")
    assert shown.status == 0
    found = findings(shown)
    for name in ("roots", "git", "ripgrep", "tokenizer", "records"):
        assert found[name]["state"] == "ok", found[name]


@each_row(
    ("model", "detail"),
    [
        ("gpt-4o", "gpt-4o: the encoding o200k_base"),
        ("claude-x", "claude-x: no vocabulary on board, so four characters count as a token"),
    ],
)
def test_doctor_says_how_tokens_are_counted(cli, model, detail, no_attacks):
    assert findings(cli("doctor", "--json", "--set", f"tokenizer_model={model}"))["tokenizer"]["detail"] == detail


def test_doctor_names_what_the_configuration_needs_and_the_machine_lacks(cli, user, no_attacks):
    shown = cli("doctor", "--allow-command", "no-such-program", "--set", "search_adapter=brave")
    assert shown.status == 1
    assert shown.out.splitlines()[-1] == "the configuration needs what is missing here: web_search, no-such-program"


@pytest.mark.parametrize(("runtime", "status"), [("docker", 1), ("auto", 0)])
def test_doctor_misses_a_named_back_end_that_is_not_here(cli, no_attacks, runtime, status):
    shown = cli("doctor", "--json", "--set", f"sandbox_runtime={runtime}")
    state = findings(shown).get("sandbox docker", {}).get("state")
    assert (shown.status, state) == (status, "MISSING" if status else None)


def test_doctor_misses_git_only_where_there_are_git_tools(cli, user, no_attacks):
    bare = user.outside / "bin"
    bare.mkdir()
    assert findings(cli("doctor", "--json", PATH=str(bare)))["git"]["state"] == "MISSING"
    assert findings(cli("doctor", "--json", "--toolsets", "read", PATH=str(bare)))["git"]["state"] == "absent"


@pytest.mark.parametrize("name", ["folder", "file/r.db"])
def test_doctor_misses_a_place_for_the_records(cli, user, name, no_attacks):
    (user.outside / "folder").mkdir()
    user.file("file", "")
    shown = cli("doctor", "--json", "--set", f"records_file={user.outside / name}")
    assert (shown.status, findings(shown)["records"]["state"]) == (1, "MISSING")


# --- the process


def test_a_reader_that_leaves_ends_the_command_quietly(user):
    env = {"HOME": str(user.home), "PATH": os.environ["PATH"]}
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-P", "-m", "toolbox_mcp", "config", "--show"]
    done = subprocess.run(
        argv, check=False, stdout=write, stderr=subprocess.PIPE, env=env, cwd=user.project, timeout=60
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("argv", [["config"], ["--help"], ["call", "calculator", '{"expression": "1"}']], ids=" ".join)
def test_output_that_cannot_be_written_is_one_line(user, argv):
    env = {"HOME": str(user.home), "PATH": os.environ["PATH"]}
    with open("/dev/full", "w") as full:
        argv = [sys.executable, "-P", "-m", "toolbox_mcp", *argv]
        done = subprocess.run(
            argv, check=False, stdout=full, stderr=subprocess.PIPE, env=env, cwd=user.project, timeout=60
        )
    assert (done.returncode, done.stderr) == (
        1,
        b"toolbox-mcp: the output cannot be written: No space left on device\n",
    )


def test_a_reader_that_leaves_before_a_call_is_answered_ends_it_quietly(user):
    env = {"HOME": str(user.home), "PATH": os.environ["PATH"]}
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-P", "-m", "toolbox_mcp", "call", "calculator", '{"expression": "1"}']
    done = subprocess.run(
        argv, check=False, stdout=write, stderr=subprocess.PIPE, env=env, cwd=user.project, timeout=60
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("command", "status", "out"),
    [
        ("config >&-", 0, ""),
        ("--rot 2>&-", 2, ""),
        ("""call calculator '{"expression": "1"}' <&- 2>&-""", 0, "= 1\n"),
        ("""call calculator '{"expression": "1"}' >&-""", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
    ],
)
def test_streams_that_were_closed_from_the_start_are_done_without(user, command, status, out):
    env = {"HOME": str(user.home), "PATH": os.environ["PATH"], "PY": sys.executable}
    line = f'"$PY" -P -m toolbox_mcp {command}'
    done = subprocess.run(
        ["sh", "-c", line], check=False, capture_output=True, text=True, env=env, cwd=user.project, timeout=60
    )
    assert (done.returncode, done.stdout) == (status, out)
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode_still_shows_every_answer(user):
    (user.project / "\u2603").write_text("snow")
    done = spawn(user, ["call", "list_directory"], PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout, done.stderr) == (0, "file\t4\t\\u2603\n", "")


def test_a_call_logs_as_much_as_it_is_told(user):
    argv = ["call", "calculator", '{"expression": "1"}']
    assert "DEBUG" in spawn(user, [*argv, "--log-level", "debug"]).stderr
    assert spawn(user, argv).stderr == ""


def test_a_working_directory_that_is_gone_is_one_line(user):
    gone = user.outside / "gone"
    gone.mkdir()
    code = (
        f"import os; os.rmdir({str(gone)!r}); from toolbox_mcp.server.cli import main; import sys; sys.exit(main([]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=gone, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr == "toolbox-mcp: the working directory does not exist any more\n"


def test_main_answers_with_a_status(user, monkeypatch, capsys):
    monkeypatch.chdir(user.project)
    monkeypatch.setenv("HOME", str(user.home))
    assert main(["--rot"]) == 2
    assert "did you mean --root?" in capsys.readouterr().err
