import os
import subprocess
from pathlib import Path

import pytest

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ann Author",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Carl Committer",
    "GIT_COMMITTER_EMAIL": "carl@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+0000",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+0000",
    "LC_ALL": "C.UTF-8",
}


class Git:
    """Plain git in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = dict(ENV)

    def __call__(self, *args: str, code: int | None = 0, **more: str) -> str:
        done = subprocess.run(
            ["git", *args],
            check=False,
            cwd=self.folder,
            env=self.env | more,
            capture_output=True,
            text=True,
            timeout=60,
            errors="replace",
        )
        assert code is None or done.returncode == code, done.stderr
        return done.stdout

    def write(self, name: str, text: str | bytes) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def commit(self, message: str = "a commit", **files: str) -> str:
        """Commit files; `__` in a name is a slash, `_dot_` a dot."""
        for name, text in files.items():
            self.write(name.replace("__", "/").replace("_dot_", "."), text)
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", message)
        return self("rev-parse", "HEAD").strip()


@pytest.fixture
def git(project):
    """Return plain git in the project, which is a repository without a commit."""
    plain = Git(project)
    plain("init", "-q", "-b", "main")
    return plain


@pytest.fixture
def plain():
    """Return what makes plain git for another folder."""
    return Git
