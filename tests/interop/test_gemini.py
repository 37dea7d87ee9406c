"""Gemini CLI connects, as its own `mcp list` says. No login, no model."""

import json
import re

import pytest


@pytest.fixture(scope="module")
def listed(clients, endpoints, tmp_path_factory):
    """What `gemini mcp list` says of each server, by name; `dead` is a port that nothing listens on."""
    home = tmp_path_factory.mktemp("gemini")
    (home / "work").mkdir()
    (home / ".gemini").mkdir()
    servers = {
        "over-stdio": endpoints.entry("stdio"),
        "over-http": {"httpUrl": endpoints.http},
        "over-sse": {"url": endpoints.sse, "type": "sse"},
        "dead": {"httpUrl": "http://127.0.0.1:1/mcp"},
    }
    settings = {
        "mcpServers": servers,
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    # It connects to servers only in a folder that is trusted.
    env = {"HOME": str(home), "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    done = clients.run("gemini", "mcp", "list", cwd=home / "work", env=env)
    said = done.out + done.err
    found = dict(re.findall(r"^\S+ ([a-z-]+): .* - (\w+)$", said, re.MULTILINE))
    assert set(found) == set(servers), said
    return found


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
def test_connects(listed, transport):
    assert listed[f"over-{transport}"] == "Connected"


def test_says_otherwise_of_a_server_that_is_not_there(listed):
    assert listed["dead"] == "Disconnected"
