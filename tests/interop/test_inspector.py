"""MCP Inspector's command line, over each transport and in each protocol era."""

import json
from pathlib import Path

import pytest


@pytest.fixture(params=["stdio", "http", "sse"])
def transport(request):
    return request.param


@pytest.fixture(params=["legacy", "modern"])
def era(request):
    return request.param


@pytest.fixture
def inspect(clients, endpoints, transport, era, tmp_path):
    """Run one method; the exit code is part of what is judged."""
    config = tmp_path / "inspector.json"
    config.write_text(json.dumps({"mcpServers": {"tb": endpoints.entry(transport)}}))

    def run(method: str, *more: str):
        return clients.run(
            "mcp-inspector",
            *("--cli", "--config", str(config), "--server", "tb", "--protocol-era", era),
            *("--method", method, "--format", "json", *more),
        )

    return run


def call(inspect, name: str, **arguments):
    return inspect("tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments))


def test_is_told_who_the_server_is_and_the_newest_protocol_of_its_era(inspect, era):
    answer = inspect("initialize").json()["result"]
    assert answer["serverInfo"]["name"] == "toolbox-mcp"
    assert answer["protocolVersion"] == {"legacy": "2025-11-25", "modern": "2026-07-28"}[era]


def test_lists_the_safe_tools_sorted_and_none_that_writes_or_executes(inspect):
    tools = inspect("tools/list").json()["result"]["tools"]
    names = [tool["name"] for tool in tools]
    assert names == sorted(names)
    assert {"read_file", "list_directory", "tree", "glob", "grep_files"} <= set(names)
    assert {"write_file", "edit_file", "bash", "shell"}.isdisjoint(names)


@pytest.mark.parametrize("structured", ["true", "false"])
def test_finds_no_portability_problem_in_any_schema(clients, endpoints, structured, tmp_path):
    config = tmp_path / "inspector.json"
    command, *args = [*endpoints.stdio, "--preset", "coder", "--set", f"structured_output={structured}"]
    config.write_text(json.dumps({"mcpServers": {"tb": {"command": command, "args": args}}}))
    listing = ("--method", "tools/list", "--format", "json")
    done = clients.run("mcp-inspector", "--cli", "--config", str(config), "--server", "tb", *listing, "--strict")
    assert (done.code, "warning" in done.err) == (0, False), done.err
    assert len(done.json()["result"]["tools"]) > 50


def test_reads_a_file(inspect):
    done = call(inspect, "read_file", path="a.txt")
    assert done.code == 0, done.err
    assert done.json()["result"]["content"] == [{"type": "text", "text": "one\ntwo\nthree"}]


def test_exits_with_5_when_a_tool_refuses(inspect, project: Path):
    assert (project.parent / "secret.txt").read_text() == "outside\n"
    done = call(inspect, "read_file", path="../secret.txt")
    assert done.code == 5, done.err
    answer = done.json()["result"]
    assert answer["isError"] is True
    assert answer["structuredContent"]["code"] == "path_denied"
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
    assert "outside\n" not in done.out


def test_an_unlisted_tool_is_not_found(inspect):
    done = call(inspect, "no_such_tool")
    assert done.code != 0
    assert "no_such_tool" in done.err
