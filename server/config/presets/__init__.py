"""Presets: settings for one kind of work, as YAML files beside this module, and the set of commands that they allow."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

PRESETS = ("reader", "editor", "coder", "beside")
"""What only reads; also edits; also runs programs; what a client with files and a shell of its own lacks."""

DEV_COMMANDS = (
    "git", "python", "python3", "pip", "uv", "pytest", "ruff", "mypy", "node", "npm", "npx", "pnpm", "yarn", "tsc", "make",
    "cmake", "cargo", "rustc", "go", "java", "mvn", "gradle", "dotnet", "ruby", "bundle", "rake", "ls", "cat", "head",
    "tail", "wc", "sort", "uniq", "diff", "find", "grep", "sed", "awk", "jq", "curl", "env", "which", "echo", "printf",
    "true", "false", "sleep", "date", "mkdir", "touch", "cp", "mv", "ln", "tar", "unzip",
)  # fmt: skip
"""What `@dev` stands for in allowed_commands."""


def preset_file(name: str) -> Path:
    """Return the settings file of a preset."""
    return Path(str(files(__name__).joinpath(f"{name}.yaml")))


def expanded(words: Sequence[str], group: str, members: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a list, with the members of a group in the place of its name, each once."""
    return tuple(dict.fromkeys(name for word in words for name in (members if word == group else (word,))))
