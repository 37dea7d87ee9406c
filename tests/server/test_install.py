import io
import json
import sys
import tomllib
from pathlib import Path

import pytest

from toolbox_mcp.server.commands.install import CLIENTS, install
from toolbox_mcp.server.config.errors import ConfigError

FILES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "zed": ".config/zed/settings.json",
}


def run(user, client, *argv, answer="y\n", **more):
    out = io.StringIO()
    status = install(client, user.load(argv), out, io.StringIO(answer), **more)
    return status, out.getvalue()


def entry(client, file):
    text = file.read_text()
    return (tomllib.loads(text) if file.suffix == ".toml" else json.loads(text))[CLIENTS[client].servers]["toolbox"]


@pytest.fixture
def linux(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_is_not_there_is_made_with_the_full_command(user, client, linux):
    status, told = run(user, client, "--preset", "coder")
    file = user.home / FILES[client]
    made = entry(client, file)
    assert status == 0 and f"+++ {file}" in told
    assert Path(made["command"]).is_absolute() and Path(made["command"]).name == "toolbox-mcp"
    assert made["args"] == ["--root", str(user.project), "--preset", "coder"]
    assert made.get("type") == ("stdio" if client in ("claude-code", "vscode") else None)
    assert [each.name for each in file.parent.iterdir() if each.is_file()] == [file.name]


def test_every_client_has_a_file():
    assert set(FILES) == set(CLIENTS)


@pytest.mark.parametrize("client", CLIENTS)
def test_other_entries_and_comments_stay_and_a_copy_is_kept(user, client, linux):
    file = user.home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    servers = CLIENTS[client].servers
    if CLIENTS[client].toml:
        old = f'# mine\nmodel = "x"\n\n[{servers}.other]\ncommand = "o" # why\n\n[tail]\na = 1\n'
    else:
        old = f'// mine\n{{\n  "model": "x",\n  "{servers}": {{\n    "other": {{"command": "o"}} // why\n  }}\n}}\n'
    file.write_text(old)
    file.chmod(0o600)
    assert run(user, client)[0] == 0
    text = file.read_text()
    assert "mine" in text and "why" in text and '"x"' in text and "other" in text
    assert file.stat().st_mode & 0o777 == 0o600
    [backup] = file.parent.glob(f"{file.name}.*.bak")
    assert backup.read_text() == old
    assert run(user, client)[1] == f"{file} already has this entry\n"
    assert run(user, client, remove=True)[0] == 0
    text = file.read_text()
    assert "toolbox" not in text and "mine" in text and "why" in text and "other" in text


@pytest.mark.parametrize("answer", ["", "n\n", "\n", "yeah\n"])
def test_nothing_is_written_without_a_yes(user, answer, linux):
    status, told = run(user, "cursor", answer=answer)
    assert status == 1 and told.endswith("nothing was changed\n")
    assert not (user.home / ".cursor").exists()


def test_what_a_person_added_to_the_entry_stays(user, linux):
    run(user, "cursor")
    file = user.home / FILES["cursor"]
    whole = json.loads(file.read_text())
    whole["mcpServers"]["toolbox"]["env"] = {"A": "b"}
    file.write_text(json.dumps(whole))
    run(user, "cursor", "--preset", "editor")
    made = entry("cursor", file)
    assert made["env"] == {"A": "b"} and made["args"][-1] == "editor"


def test_print_shows_the_entry_and_changes_nothing(user, linux):
    status, told = run(user, "vscode", print_only=True)
    place, _, text = told.partition("\n")
    assert status == 0 and place == str(user.home / FILES["vscode"])
    assert set(json.loads(text)["servers"]["toolbox"]) == {"type", "command", "args"}
    assert not (user.home / ".config").exists()


def test_a_link_to_the_file_stays_a_link(user, linux):
    real = user.outside / "dotfiles.json"
    real.write_text("{}\n")
    link = user.home / FILES["cursor"]
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    run(user, "cursor")
    assert link.is_symlink() and entry("cursor", real)


@pytest.mark.parametrize(
    ("client", "text"),
    [("cursor", "{"), ("cursor", '{"mcpServers": []}'), ("codex", "a = = 1"), ("codex", "mcp_servers = 1")],
)
def test_a_file_that_is_not_what_it_should_be_is_left_alone(user, client, text, linux):
    file = user.home / FILES[client]
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(ConfigError, match="cannot be changed"):
        run(user, client)
    assert file.read_text() == text
