"""Claude Code, Codex and Gemini CLI without a person: each runs one task, of a model that follows a script."""

import json
from collections.abc import Callable
from pathlib import Path

from .conftest import SERVER, Clients
from .scripted_model import GEMINI, MESSAGES, RESPONSES, Answer, Interface, Script, scripted


def claude_code(clients: Clients, home: Path, root: Path, url: str, args: list[str]) -> None:
    """Run Claude Code until its model says that it is done."""
    config = json.dumps({"mcpServers": {"toolbox": {"command": args[0], "args": args[1:]}}})
    done = clients.run(
        "claude", "-p", "go", "--mcp-config", config, "--strict-mcp-config", "--allowedTools", "mcp__toolbox",
        "--output-format", "json",
        cwd=root,
        env={"HOME": str(home), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "ENABLE_TOOL_SEARCH": "false"},
    )  # fmt: skip
    assert done.code == 0, done.out + done.err


def codex(clients: Clients, home: Path, root: Path, url: str, args: list[str]) -> None:
    """Run Codex until its model says that it is done."""
    (home / ".codex").mkdir(exist_ok=True)
    # Strings of JSON are strings of TOML. The switches keep it from asking the outside for updates and plugins.
    (home / ".codex" / "config.toml").write_text(
        f"""
model = "stand-in"
model_provider = "loopback"
tool_output_token_limit = 10000
check_for_update_on_startup = false
analytics.enabled = false
features.apps = false
features.plugins = false
[model_providers.loopback]
name = "loopback"
base_url = {json.dumps(url + "/v1")}
wire_api = "responses"
[mcp_servers.toolbox]
command = {json.dumps(args[0])}
args = {json.dumps(args[1:])}
default_tools_approval_mode = "approve"
startup_timeout_sec = 60
required = true
"""
    )
    done = clients.run("codex", "exec", "--skip-git-repo-check", "go", cwd=root, env={"HOME": str(home)})
    assert done.code == 0, done.out + done.err


def gemini(clients: Clients, home: Path, root: Path, url: str, args: list[str]) -> None:
    """Run Gemini CLI until its model says that it is done."""
    (home / ".gemini").mkdir(exist_ok=True)
    settings = {
        "mcpServers": {"toolbox": {"command": args[0], "args": args[1:], "trust": True}},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    # It connects to servers only in a folder that is trusted.
    env = {
        "HOME": str(home), "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "none", "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }  # fmt: skip
    done = clients.run("gemini", "-m", "gemini-2.5-pro", "-p", "go", cwd=root, env=env)
    assert done.code == 0, done.out + done.err


CODING_CLIENTS: dict[str, tuple[Interface, Callable[[Clients, Path, Path, str, list[str]], None]]] = {
    "claude": (MESSAGES, claude_code),
    "codex": (RESPONSES, codex),
    "gemini": (GEMINI, gemini),
}


def handed(clients: Clients, name: str, script: Script, root: Path, home: Path) -> list[Answer]:
    """Return what a client hands to its model of the answers to a script, of a server with the preset `coder`."""
    interface, run = CODING_CLIENTS[name]
    with scripted(script, interface) as model:
        run(clients, home, root, model.url, [*SERVER, "--root", str(root), "--preset", "coder"])
    return model.results
