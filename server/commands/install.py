"""install: this server's entry in the configuration file of a client."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from ..config.errors import ConfigError
from ..config.jsonc import NotJson, member, with_member, without_member
from ..config.load import Config

NAME = "toolbox"
"""The name of the entry."""


@dataclass(frozen=True)
class Client:
    """A client: its file by platform, the key that holds its servers, and the shape of an entry."""

    file: Callable[[Path, str], Path]
    servers: str
    entry: Callable[[str, list[str]], dict[str, Any]]
    after: str
    toml: bool = False


def _plain(command: str, args: list[str]) -> dict[str, Any]:
    return {"command": command, "args": args}


def _stdio(command: str, args: list[str]) -> dict[str, Any]:
    return {"type": "stdio", "command": command, "args": args}


def _home(*parts: str) -> Callable[[Path, str], Path]:
    return lambda home, platform: home.joinpath(*parts)


def _user_folder(*parts: str) -> Callable[[Path, str], Path]:
    """Return the function that finds a file in the folder where desktop programs keep their settings."""

    def find(home: Path, platform: str) -> Path:
        folder = "Library/Application Support" if platform == "darwin" else ".config"
        return home.joinpath(folder, *parts)

    return find


CLIENTS: Mapping[str, Client] = MappingProxyType(
    {
        "claude-desktop": Client(
            _user_folder("Claude", "claude_desktop_config.json"), "mcpServers", _plain, "Restart Claude Desktop."
        ),
        "claude-code": Client(_home(".claude.json"), "mcpServers", _stdio, "Start a session; /mcp shows the server."),
        "cursor": Client(
            _home(".cursor", "mcp.json"), "mcpServers", _plain, "Enable it in Cursor's settings, under MCP."
        ),
        "vscode": Client(
            _user_folder("Code", "User", "mcp.json"), "servers", _stdio, "Run `MCP: List Servers` and start it."
        ),
        "codex": Client(_home(".codex", "config.toml"), "mcp_servers", _plain, "Start Codex anew.", toml=True),
        "gemini": Client(
            _home(".gemini", "settings.json"),
            "mcpServers",
            _plain,
            "Start Gemini CLI in a trusted folder; /mcp shows it.",
        ),
        "windsurf": Client(
            _home(".codeium", "windsurf", "mcp_config.json"), "mcpServers", _plain, "Refresh the servers in Cascade."
        ),
        "zed": Client(
            _home(".config", "zed", "settings.json"), "context_servers", _plain, "The Agent panel's settings show it."
        ),
    }
)


def install(
    name: str,
    config: Config,
    out: IO[str],
    answers: IO[str],
    *,
    print_only: bool = False,
    remove: bool = False,
    yes: bool = False,
) -> int:
    """Add or remove the entry after showing the difference and asking; return the exit status, 1 when declined.

    answers: where the person's answer is read from.

    A copy of the file as it was is kept beside it. Everything else in the file stays, comments included. Raises
    ConfigError where the file cannot be read as what it should be.
    """
    client = CLIENTS[name]
    entry = client.entry(own_command(), arguments(config))
    file = client.file(config.places.home, sys.platform)
    # The file may be a link into a folder of dotfiles, which stays one.
    file = Path(os.path.realpath(file))
    old = _read(file)
    new = changed(old, client, None if remove else entry, file)
    if print_only:
        out.write(f"{file}\n{changed('', client, entry, file)}")
        return 0
    if new == old:
        out.write(f"{file} {'has no entry' if remove else 'already has this entry'}\n")
        return 0
    names = (str(file), str(file))
    out.writelines(unified_diff(old.splitlines(True), new.splitlines(True), *names))
    if not yes:
        out.write(f"\nwrite {file}? [y/N] ")
        out.flush()
        if answers.readline().strip().lower() not in ("y", "yes"):
            out.write("nothing was changed\n")
            return 1
    if backup := _replace(file, old, new):
        out.write(f"the old file is {backup}\n")
    out.write(f"{'Removed' if remove else 'Added'} {NAME}. {client.after}\n")
    return 0


def changed(text: str, client: Client, entry: dict[str, Any] | None, file: Path) -> str:
    """Return the text of a client's file with the entry, or without one where entry is None."""
    path = [client.servers, NAME]
    if client.toml:
        return _changed_toml(text, path, entry, file)
    try:
        if entry is None:
            return without_member(text, path)
        # What a person added to the entry, such as env, stays.
        kept = member(text, path)
        text = with_member(text, path, {**kept, **entry} if isinstance(kept, dict) else entry)
        return text if text.endswith("\n") else text + "\n"
    except NotJson as e:
        raise ConfigError(f"{file} cannot be changed: {e}") from None


def _changed_toml(text: str, path: list[str], entry: dict[str, Any] | None, file: Path) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        servers = document.setdefault(path[0], tomlkit.table(is_super_table=True))
        if entry is None:
            servers.pop(path[1], None)
            if not servers:
                document.pop(path[0])
        else:
            own = servers.setdefault(path[1], tomlkit.table())
            own.update(entry)
        return tomlkit.dumps(document)
    except (TOMLKitError, AttributeError, TypeError) as e:
        raise ConfigError(f"{file} cannot be changed: {e}") from None


def own_command() -> str:
    """Return the full path of the running command, so that a client finds it whatever its PATH."""
    beside = Path(sys.executable).with_name("toolbox-mcp")
    found = shutil.which(sys.argv[0]) if Path(sys.argv[0]).name == "toolbox-mcp" else None
    return os.path.abspath(found or beside)


def arguments(config: Config) -> list[str]:
    """Return the flags that give a server this folder and preset, and the settings file if one was named."""
    found = [part for root in config.roots for part in ("--root", str(root))]
    if config.sources["preset"] != "default":
        found += ["--preset", config.preset]
    if config.config_file and config.config_file != config.places.config_file:
        found += ["--config", str(config.config_file)]
    return found


def _read(file: Path) -> str:
    try:
        with open(file, encoding="utf-8", newline="") as opened:
            return opened.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{file} cannot be read: {e}") from None


def _replace(file: Path, old: str, new: str) -> Path | None:
    """Write the file by a rename and return the copy of what it was."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        backup = None
        if file.exists():
            backup = file.with_name(f"{file.name}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}.bak")
            shutil.copy2(file, backup)
            if _read(file) != old:
                raise ConfigError(f"{file} has just been changed by another program; run the command again")
        descriptor, spare = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with open(descriptor, "w", encoding="utf-8", newline="") as made:
            made.write(new)
        if backup:
            shutil.copymode(file, spare)
        os.replace(spare, file)
        return backup
    except OSError as e:
        raise ConfigError(f"{file} cannot be written: {e.strerror}") from None
