"""Folders of the user, and what lies inside a root."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import ConfigError

NAME = "toolbox-mcp"
MAX_LINKS = 40
"""Links followed in one path, as the Linux kernel does."""


@dataclass(frozen=True)
class Places:
    """Where the user's files are: the home, and this program's configuration and state folders."""

    home: Path
    config: Path
    state: Path

    @property
    def config_file(self) -> Path:
        """The configuration that is read when none is named."""
        return self.config / "config.yaml"


def places(env: Mapping[str, str], platform: str) -> Places:
    """Return the user's folders by the custom of the platform (a value of sys.platform).

    XDG folders count on Linux and the like, when they are absolute, as their specification asks. Raises ConfigError.
    """
    variable = "USERPROFILE" if platform == "win32" else "HOME"
    home = Path(env.get(variable) or os.path.expanduser("~"))
    if not home.is_absolute():
        raise ConfigError(f"the home folder is not known; set {variable}")
    if platform == "win32":
        roaming = Path(env.get("APPDATA") or home / "AppData/Roaming")
        local = Path(env.get("LOCALAPPDATA") or home / "AppData/Local")
        return Places(home, roaming / NAME, local / NAME)
    if platform == "darwin":
        support = home / "Library/Application Support" / NAME
        return Places(home, support, support)
    config = env.get("XDG_CONFIG_HOME", "")
    state = env.get("XDG_STATE_HOME", "")
    return Places(
        home,
        (Path(config) if os.path.isabs(config) else home / ".config") / NAME,
        (Path(state) if os.path.isabs(state) else home / ".local/state") / NAME,
    )


def path_entries(path: Path) -> Iterator[Path]:
    """Yield every entry that is consulted to reach an absolute path, links and what they lead to included.

    Raises OSError for a loop of links.
    """
    todo = list(reversed(path.parts))
    here = Path(todo.pop())
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            here = here.parent
            continue
        entry = here / part
        yield entry
        if not entry.is_symlink():
            here = entry
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(f"too many links in {path}")
        target = Path(os.readlink(entry))
        if target.is_absolute():
            here = Path(target.anchor)
            target = target.relative_to(target.anchor)
        todo.extend(reversed(target.parts))


def containing_root(path: Path, roots: Sequence[Path]) -> Path | None:
    """Return the root in which path, or a link on the way to it, lies; None when there is none.

    Folders are compared by device and inode, so neither spelling nor a second mount hides a root. path need not exist.
    """
    known = {_identity(root): root for root in roots}
    for entry in path_entries(path):
        for folder in entry.parents:
            identity = _identity(folder)
            if identity is not None and identity in known:
                return known[identity]
    return None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
