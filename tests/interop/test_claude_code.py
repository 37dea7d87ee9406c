"""Claude Code connects, as its own `mcp list` says. No login, no model."""

import re

import pytest


@pytest.fixture(scope="module")
def listed(clients, endpoints, tmp_path_factory):
    """What `claude mcp list` says of each server, by name; `dead` is a port that nothing listens on."""
    home = tmp_path_factory.mktemp("claude")
    work = home / "work"
    work.mkdir()
    dead = "http://127.0.0.1:1/mcp"
    for name, how in {
        "over-stdio": ["--", *endpoints.stdio],
        "over-http": ["--transport", "http", endpoints.http],
        "over-sse": ["--transport", "sse", endpoints.sse],
        "dead": ["--transport", "http", dead],
    }.items():
        args = [*how[:-1], name, how[-1]] if how[0] != "--" else [name, *how]
        added = clients.run("claude", "mcp", "add", "-s", "user", *args, cwd=work, env={"HOME": str(home)})
        assert added.code == 0, added.out + added.err
    # It exits with 0 whatever it finds, so the text is what counts.
    done = clients.run("claude", "mcp", "list", cwd=work, env={"HOME": str(home)})
    found = dict(re.findall(r"^([a-z-]+): .* - (.+)$", done.out, re.MULTILINE))
    assert set(found) == {"over-stdio", "over-http", "over-sse", "dead"}, done.out + done.err
    return found


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
def test_connects(listed, transport):
    assert listed[f"over-{transport}"] == "✔ Connected"


def test_says_otherwise_of_a_server_that_is_not_there(listed):
    assert "Connected" not in listed["dead"]
