"""Claude Code, Codex and Gemini CLI without a person: each runs one task, of a model that follows a script.

Each reads the server from its own settings file, as `toolbox-mcp install` wrote it.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from .conftest import SERVER, START_DEADLINE, Clients, Done
from .scripted_model import GEMINI, MESSAGES, RESPONSES, Answer, Interface, Script, scripted


def _claude_code(clients: Clients, home: Path, root: Path, url: str) -> Done:
    env = {"HOME": str(home), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "ENABLE_TOOL_SEARCH": "false"}
    return clients.run("claude", "-p", "go", "--allowedTools", "mcp__toolbox", cwd=root, env=env)


def _codex(clients: Clients, home: Path, root: Path, url: str) -> Done:
    settings = {
        "model": "stand-in",
        "model_provider": "loopback",
        "model_providers.loopback": {"name": "loopback", "base_url": f"{url}/v1", "wire_api": "responses"},
        "tool_output_token_limit": 10_000,
        "mcp_servers.toolbox.default_tools_approval_mode": "approve",
        "mcp_servers.toolbox.startup_timeout_sec": 60,
        "mcp_servers.toolbox.required": True,
        # It asks the outside for updates and plugins otherwise.
        "check_for_update_on_startup": False,
        "analytics.enabled": False,
        "features.apps": False,
        "features.plugins": False,
    }
    args = [word for name, value in settings.items() for word in ("-c", f"{name}={_toml(value)}")]
    return clients.run("codex", "exec", *args, "--skip-git-repo-check", "go", cwd=root, env={"HOME": str(home)})


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)


def _gemini(clients: Clients, home: Path, root: Path, url: str) -> Done:
    # Settings of the folder that it runs in count beside those of the user.
    work = home / "work"
    (work / ".gemini").mkdir(parents=True)
    (work / ".gemini" / "settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    env = {
        "HOME": str(home),
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "none",
        # It connects to servers only in a folder that is trusted.
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    return clients.run("gemini", "-m", "gemini-2.5-pro", "-p", "go", "--approval-mode", "yolo", cwd=work, env=env)


CODING_CLIENTS: dict[str, tuple[Interface, Callable[[Clients, Path, Path, str], Done]]] = {
    "claude-code": (MESSAGES, _claude_code),
    "codex": (RESPONSES, _codex),
    "gemini": (GEMINI, _gemini),
}


def installed(client: str, root: Path, home: Path, preset: str) -> Path:
    """Return the settings file in which `toolbox-mcp install` made the entry, in a home that holds nothing else."""
    argv = [*SERVER, "install", client, "--root", str(root), "--preset", preset]
    done = subprocess.run(
        argv,
        input="y\n",
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=START_DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [file] = [path for path in home.rglob("*") if path.suffix in (".json", ".toml")]
    return file


def handed(clients: Clients, client: str, script: Script, root: Path, home: Path) -> list[Answer]:
    """Return what a client hands to its model of the answers to a script, of a server with the preset `coder`."""
    installed(client, root, home, "coder")
    return asked(clients, client, script, root, home)


def asked(clients: Clients, client: str, script: Script, root: Path, home: Path) -> list[Answer]:
    """Return what a client with settings in its home hands to its model of the answers to a script."""
    interface, run = CODING_CLIENTS[client]
    with scripted(script, interface) as model:
        done = run(clients, home, root, model.url)
    assert done.code == 0, done.out + done.err
    return model.results


def connected(clients: Clients, client: str, transport: str, url: str, home: Path) -> None:
    """Make the entry of a server that is reached by a URL, as a person would."""
    if client == "claude-code":
        args = ("mcp", "add", "-s", "user", "--transport", transport, "toolbox", url)
        done = clients.run("claude", *args, cwd=home, env={"HOME": str(home)})
        assert done.code == 0, done.out + done.err
    elif client == "codex":
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(f"[mcp_servers.toolbox]\nurl = {json.dumps(url)}\n")
    else:
        (home / ".gemini").mkdir()
        entry = {"httpUrl" if transport == "http" else "url": url}
        (home / ".gemini" / "settings.json").write_text(json.dumps({"mcpServers": {"toolbox": entry}}))
