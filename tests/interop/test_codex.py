"""Codex connects and reads every tool, with an MCP client of its own in Rust. No login, no model."""

import json

import pytest


@pytest.fixture(scope="module")
def servers(clients, endpoints, tmp_path_factory):
    """What Codex's app server tells of each configured server, by name."""
    home = tmp_path_factory.mktemp("codex")
    (home / ".codex").mkdir()
    # Strings of JSON are strings of TOML. The switches keep it from asking the outside for updates and plugins.
    (home / ".codex" / "config.toml").write_text(
        f"""
check_for_update_on_startup = false
analytics.enabled = false
features.apps = false
features.plugins = false
[mcp_servers.stdio]
command = {json.dumps(endpoints.stdio[0])}
args = {json.dumps(endpoints.stdio[1:])}
[mcp_servers.http]
url = {json.dumps(endpoints.http)}
[mcp_servers.dead]
url = "http://127.0.0.1:1/mcp"
"""
    )
    answer = clients.talk(
        "codex",
        "app-server",
        lines=[
            {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "interop", "version": "1"}}},
            {"method": "initialized"},
            {"id": 2, "method": "mcpServerStatus/list", "params": {}},
        ],
        until=2,
        env={"HOME": str(home)},
    )
    return {server["name"]: server for server in answer["result"]["data"]}


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_connects_and_reads_the_tools(servers, transport):
    server = servers[transport]
    assert server["serverInfo"]["name"] == "toolbox-mcp"
    read_file = server["tools"]["read_file"]
    assert {"path", "paths"} <= set(read_file["inputSchema"]["properties"])
    assert read_file["annotations"]["readOnlyHint"] is True


def test_knows_nothing_of_a_server_that_is_not_there(servers):
    assert not servers.get("dead", {}).get("tools")
