"""The settings that tools read, with their defaults. server/config/ takes the defaults from here and fills the values in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class ToolSettings:
    """Values of TOOLS.md §2 by the same names; times in seconds, sizes in bytes.

    system_trash: the folder of the desktop's trash; it belongs to the system, not to the configuration.
    """

    ignored_dirs: tuple[str, ...] = (
        ".git", ".hg", ".svn", "node_modules", "vendor", "tmp", "log", "coverage", ".bundle", "__pycache__",
        ".venv", "target", "dist", "build", ".tox", ".mypy_cache", ".trash",
    )  # fmt: skip
    respect_gitignore: bool = True
    max_grep_matches: int = 200
    regex_timeout: float = 2.0
    command_timeout: float = 120.0
    toolchain_timeout: float = 600.0
    shell_timeout: float = 60.0
    max_tool_timeout: float = 600.0
    delete_mode: Literal["trash", "permanent"] = "trash"
    trash_dir: Path | Literal["auto"] = "auto"
    system_trash: Path | None = None
    undo_max_bytes: int = 10 * 2**20
    http_timeout: float = 10.0
    max_fetch_bytes: int = 2_000_000
    max_download_bytes: int | None = None
    max_redirects: int = 5
    script_interpreters: Mapping[str, str] = field(default_factory=dict)
    shell_sandbox: bool | Literal["auto"] = False
    shell_blocklist_extra: tuple[str, ...] = ()
    shell_heuristics: bool = True
    shell_max_commands: int = 64
    shell_max_command_bytes: int = 65_536
    http_writes: bool = False
    orbiter_writes: bool = False
    terminal_blocklist: tuple[str, ...] | None = None
    terminal_timeout: float = 30.0
    gem_url: str = "https://rubygems.org"
