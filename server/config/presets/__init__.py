"""Presets: settings for one kind of work, as YAML files beside this module, and the set of commands that they allow."""

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


def expanded(commands: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of commands, with those that `@dev` stands for in its place, each once."""
    names = [name for each in commands for name in (DEV_COMMANDS if each == "@dev" else (each,))]
    return tuple(dict.fromkeys(names))
