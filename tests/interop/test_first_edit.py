"""From a clone to the first edit, by the settings file that `toolbox-mcp install` writes for each client."""

import json
import tomllib

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from .coding_clients import CODING_CLIENTS, handed, installed

# Where each client reads its servers: the key, and the file below the home folder.
CLIENTS = {
    "claude-desktop": ("mcpServers", ".config/Claude/claude_desktop_config.json"),
    "claude-code": ("mcpServers", ".claude.json"),
    "cursor": ("mcpServers", ".cursor/mcp.json"),
    "vscode": ("servers", ".config/Code/User/mcp.json"),
    "codex": ("mcp_servers", ".codex/config.toml"),
    "gemini": ("mcpServers", ".gemini/settings.json"),
    "windsurf": ("mcpServers", ".codeium/windsurf/mcp_config.json"),
    "zed": ("context_servers", ".config/zed/settings.json"),
}
EDIT = ("edit_file", {"path": "hello.py", "old_string": "'hello'", "new_string": "'welcome'"})


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "hello.py").write_text("print('hello')\n")
    return folder


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("client", CLIENTS)
async def test_the_entry_starts_a_server_that_edits(client, root, home):
    servers, place = CLIENTS[client]
    file = installed(client, root, home, "editor")
    assert file == home / place
    text = file.read_text()
    entry = (tomllib.loads(text) if client == "codex" else json.loads(text))[servers]["toolbox"]
    assert entry.get("type", "stdio") == "stdio"
    # Graphical clients are started without a terminal's PATH, and not in the project's folder.
    parameters = StdioServerParameters(
        command=entry["command"], args=entry["args"], env={"PATH": "/usr/bin:/bin", "HOME": str(home)}, cwd=home
    )
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        done = await session.call_tool(*EDIT)
    assert done.is_error is not True, done
    assert (root / "hello.py").read_text() == "print('welcome')\n"


@pytest.mark.parametrize("client", CODING_CLIENTS)
def test_the_client_itself_reads_the_entry_and_edits(clients, client, root, home):
    def script():
        yield EDIT

    [answer] = handed(clients, client, script(), root, home)
    assert "[undo: c1]" in answer.text
    assert (root / "hello.py").read_text() == "print('welcome')\n"
