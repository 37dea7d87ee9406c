from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolbox_mcp.server.config.load import Config, load


@dataclass
class User:
    """A person with a home, a project to work in, and a settings file that starts out absent."""

    home: Path
    project: Path
    outside: Path

    @property
    def settings(self) -> Path:
        """Return the user's own settings file."""
        return self.home / ".config/toolbox-mcp/config.yaml"

    def write_settings(self, text: str) -> Path:
        """Write the user's own settings file."""
        self.settings.parent.mkdir(parents=True, exist_ok=True)
        self.settings.write_text(text, encoding="utf-8")
        return self.settings

    def file(self, name: str, text: str, mode: int = 0o600) -> Path:
        """Write a file outside the home and the project."""
        made = self.outside / name
        made.write_text(text, encoding="utf-8")
        made.chmod(mode)
        return made

    def load(
        self, argv: Sequence[str] = (), env: Mapping[str, str] | None = None, *, cwd: Path | None = None, **more: Any
    ) -> Config:
        """Load the configuration as this user, on Linux unless said otherwise."""
        surroundings = {"HOME": str(self.home), **(env or {})}
        return load(argv, surroundings, cwd=cwd or self.project, platform=more.pop("platform", "linux"), **more)


@pytest.fixture
def user(tmp_path: Path) -> User:
    base = tmp_path.resolve()
    made = User(base / "home", base / "project", base / "outside")
    for folder in (made.home, made.project, made.outside):
        folder.mkdir()
    return made
