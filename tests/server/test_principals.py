"""Principals with settings of their own, over HTTP."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from toolbox_mcp.server.config.errors import ConfigError
from toolbox_mcp.server.config.settings import SERVER_WIDE, table

TOKENS = {"alice": "a" * 32, "bob": "b" * 32, "carol": "c" * 32}


@pytest.fixture
def settings(user, tmp_path):
    """Return a settings file by which bob edits a folder of his own, carol runs programs, and alice has the usual."""
    for name in ("shared", "bobs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"{name}\n")
    tokens = user.file("tokens", "\n".join(f"{name}:{token}" for name, token in TOKENS.items()))
    return user.file(
        "settings.yaml",
        f"""root: {tmp_path}/shared
token_file: {tokens}
records_file: {tmp_path}/records.db
principals:
  bob: {{root: {tmp_path}/bobs, preset: editor}}
  carol: {{preset: coder}}
""",
    )


@asynccontextmanager
async def running(user, settings):
    """Run a server over HTTP and lend its URL."""
    argv = ["-P", "-m", "toolbox_mcp", "--config", str(settings), "--transport", "http", "--port", "0"]
    env = {"HOME": str(user.home), "PATH": os.environ["PATH"]}
    server = await asyncio.create_subprocess_exec(
        sys.executable, *argv, env=env, cwd=user.project, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert server.stderr
        line = (await server.stderr.readline()).decode()
        assert "serving at" in line, line
        yield line.split()[-1]
    finally:
        server.terminate()
        await server.wait()


@asynccontextmanager
async def connected(url, name, mode="legacy", **options):
    headers = {"authorization": f"Bearer {TOKENS[name]}"}
    http = httpx2.AsyncClient(headers=headers, timeout=30)
    async with http, Client(streamable_http_client(url, http_client=http), mode=mode, **options) as client:
        yield client


async def said(client, name, **arguments):
    return (await client.call_tool(name, arguments)).content[0].text


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_each_principal_has_its_root_and_its_tools(user, settings, mode):
    async with running(user, settings) as url:
        tools, texts, others = {}, {}, {}
        for name in TOKENS:
            async with connected(url, name, mode) as client:
                tools[name] = {tool.name for tool in (await client.list_tools()).tools}
                texts[name] = await said(client, "read_file", path="a.txt")
                other = settings.parent.parent / ("shared" if name == "bob" else "bobs") / "a.txt"
                others[name] = json.loads(await said(client, "read_file", path=str(other)))["code"]
    assert texts == {"alice": "shared", "bob": "bobs", "carol": "shared"}
    assert set(others.values()) == {"path_denied"}
    assert [name for name in TOKENS if "edit_file" in tools[name]] == ["bob", "carol"]
    assert [name for name in TOKENS if "process_start" in tools[name]] == ["carol"]


@pytest.mark.slow
async def test_nothing_of_a_principal_is_another_ones(user, settings, tmp_path):
    async with running(user, settings) as url, connected(url, "bob") as bob, connected(url, "carol") as carol:
        assert "undo" in await said(bob, "write_file", path="b.txt", content="bob\n")
        assert (tmp_path / "bobs" / "b.txt").read_text() == "bob\n" and not (tmp_path / "shared" / "b.txt").exists()
        started = await said(carol, "process_start", command="sleep", args=["60"])
        await said(carol, "todo_write", todos=[{"content": "carols", "status": "pending"}])
        failed = []
        if json.loads(await said(carol, "undo"))["code"] != "not_found":
            failed.append("undo")
        with pytest.raises(MCPError):
            await bob.read_resource("toolbox://processes/proc_1/stdout")
        with pytest.raises(MCPError):
            await bob.read_resource("toolbox://todos")
        calls = json.loads((await bob.read_resource("toolbox://executions")).contents[0].text)
        if {each["tool"] for each in calls} != {"write_file"}:
            failed.append(f"executions: {calls}")
        async with connected(url, "alice") as alice:
            if json.loads(await said(alice, "write_file", path="x", content=""))["code"] != "exec_disabled":
                failed.append("write_file of alice")
    assert failed == [] and "proc_1" in started


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_log_messages_of_a_session_go_to_nobody_else(user, settings):
    heard = {"one": [], "two": [], "three": []}

    def listens(name):
        async def hear(params):
            heard[name].append(params.data["tool"])

        return {"logging_callback": hear}

    async with (
        running(user, settings) as url,
        connected(url, "alice", **listens("one")) as one,
        connected(url, "alice", **listens("two")) as two,
        connected(url, "alice", "auto", log_level="info", **listens("three")) as three,
    ):
        await one.set_logging_level("info")
        await said(one, "read_file", path="a.txt")
        await said(two, "tree")
        await said(three, "glob", pattern="*")
    assert heard == {"one": ["read_file"], "two": [], "three": ["glob"]}


@pytest.mark.slow
async def test_who_has_no_token_of_the_file_gets_nothing(user, settings):
    async with running(user, settings) as url, httpx2.AsyncClient() as http:
        wrong = [
            "",
            "Bearer",
            f"Bearer {'d' * 32}",
            f"Bearer {TOKENS['bob'][:-1]}",
            f"Bearer {TOKENS['bob']}b",
            "Basic YTpi",
        ]
        got = [(await http.post(url, json={}, headers={"authorization": each})).status_code for each in wrong]
    assert got == [401] * len(wrong)


def test_settings_of_a_principal_are_checked_at_the_start(user, settings, tmp_path):
    text = settings.read_text()
    table_ = [
        ("bob: {root: ", "dave: {root: ", "principals.dave: no token has this name"),
        ("preset: coder", "port: 1", "principals.carol: port is the same for all principals"),
        ("preset: coder", "tavily_api_key: x", "principals.carol: tavily_api_key is the same for all principals"),
        ("preset: coder", "presets: coder", "principals.carol: unknown setting presets"),
        ("preset: coder", "preset: code", "principals.carol"),
        ("preset: coder", f"root: {tmp_path}", "lies inside the root"),
        ("carol: {preset: coder}", "carol: coder", "principals: expected"),
    ]
    wrong = []
    for old, new, message in table_:
        assert old in text
        settings.write_text(text.replace(old, new))
        with pytest.raises(ConfigError) as refused:
            user.load(["--config", str(settings), "--transport", "http"])
        if message not in str(refused.value):
            wrong.append((new, str(refused.value)))
    assert wrong == []


def test_what_no_principal_has_of_its_own_are_settings():
    assert table().keys() >= SERVER_WIDE


def test_scopes_are_presets(user):
    argv = ["--transport", "http", "--set", "oauth_issuer=https://login.example"]
    scopes = json.dumps({"tools:read": "reader", "tools:run": "coder"})
    config = user.load([*argv, "--set", f"oauth_scopes={scopes}"])
    served = {name: own.enable_exec_tools for name, own in config.of_principals.items()}
    assert served == {"scope tools:read": False, "scope tools:run": True}
    with pytest.raises(ConfigError, match="oauth_scopes"):
        user.load(argv)
