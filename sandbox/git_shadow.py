"""The folder that stands for the own folder of a git repository."""

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ..safety.errors import Code, ToolError
from ..safety.git_repo import Repository

MAX_CONFIG = 2**20
MAX_COPIED = 2**20
"""Bytes of the repository's configuration, and of other files that are copied."""

_LINKED = ("objects", "refs", "packed-refs", "logs", "shallow", "reftable")
_STATES = ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE")
"""What git notes of a merge under way, and takes away when it is committed."""
_NAMED = ("ORIG_HEAD", "FETCH_HEAD", *_STATES)

_BASE = """[core]
\tbare = false
\thooksPath = {hooks}
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tfsmonitor = false
\tuntrackedCache = false
\tcommitGraph = false
\tprotectHFS = true
\tprotectNTFS = true
\tquotePath = false
\tbigFileThreshold = 32m
\tlogAllRefUpdates = true
[diff]
\torderFile = /dev/null
[log]
\tshowSignature = false
\tmailmap = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[protocol]
\tallow = never
[submodule]
\trecurse = false
[commit]
\tgpgSign = false
[branch]
\tautoSetupMerge = false
[rerere]
\tenabled = false
[safe]
\tbareRepository = explicit
"""


class ShadowFolder:
    """The folder that stands for the own folder of a repository."""

    def __init__(self, repo: Repository, folder: str) -> None:
        self.repo = repo
        self.folder = folder
        self.home = os.path.join(folder, "home")
        self._copied: dict[str, bytes | None] = {}
        self._configured: tuple[object, ...] | None = None
        self._pending: tuple[object, ...] | None = None
        os.mkdir(self.home)
        os.mkdir(os.path.join(folder, "info"))
        for name in _LINKED:
            if name != "logs" or repo.git_dir == repo.common_dir:
                os.symlink(os.path.join(repo.common_dir, name), os.path.join(folder, name))
        if repo.git_dir != repo.common_dir:
            os.mkdir(os.path.join(folder, "logs"))
            os.symlink(os.path.join(repo.common_dir, "logs", "refs"), os.path.join(folder, "logs", "refs"))
            os.symlink(os.path.join(repo.git_dir, "logs", "HEAD"), os.path.join(folder, "logs", "HEAD"))

    def changed_config(self) -> list[str] | None:
        """Return the configuration files to read, the later winning; None where they are as they were. ToolError refused."""
        places = [os.path.join(self.repo.common_dir, "config"), os.path.join(self.repo.git_dir, "config.worktree")]
        there: list[str] = []
        states: list[tuple[int, ...] | None] = []
        for place in places:
            try:
                status = os.lstat(place)
            except OSError:
                states.append(None)
                continue
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_CONFIG:
                raise ToolError(Code.REFUSED, "the configuration of the repository is too large")
            there.append(place)
            states.append((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        if self._configured == tuple(states):
            return None
        self._pending = tuple(states)
        return there

    def configure(self, taken: Mapping[str, Sequence[str]], hooks: str) -> None:
        """Write the configuration."""
        extended = any(name.startswith("extensions.") for name in taken)
        lines = [_BASE.format(hooks=_quoted(hooks)), f"[core]\n\trepositoryformatversion = {int(extended)}\n"]
        for name, values in taken.items():
            section, _, rest = name.partition(".")
            sub, _, key = rest.rpartition(".")
            head = f"[{section} {_quoted(sub)}]" if sub else f"[{section}]"
            lines += [f"{head}\n\t{key} = {_quoted(value)}\n" for value in values]
        _put(os.path.join(self.folder, "config"), os.fsencode("".join(lines)))
        self._configured = self._pending

    def refresh(self) -> None:
        """Copy what is copied anew."""
        repo = self.repo
        for name in ("HEAD", *_NAMED):
            self._copy(os.path.join(repo.git_dir, name), name)
        for name in ("exclude", "sparse-checkout"):
            folder = repo.git_dir if name == "sparse-checkout" else repo.common_dir
            self._copy(os.path.join(folder, "info", name), f"info/{name}")
        for name in os.listdir(repo.git_dir):
            if name.startswith("sharedindex."):
                with suppress(FileExistsError):
                    os.symlink(os.path.join(repo.git_dir, name), os.path.join(self.folder, name))

    def _copy(self, source: str, name: str) -> None:
        data = read_regular(source)
        if self._copied.get(name, b"") == data and name in self._copied:
            return
        target = os.path.join(self.folder, name)
        if data is None:
            with suppress(FileNotFoundError):
                os.unlink(target)
        else:
            _put(target, data)
        self._copied[name] = data

    def taken_away(self) -> list[str]:
        """Return the notes of a merge that were copied and that a command has removed since."""
        return [name for name in _STATES if self._copied.get(name) is not None and self.read(name) is None]

    def read(self, name: str) -> bytes | None:
        """Return the content of a file of the folder."""
        return read_regular(os.path.join(self.folder, name))


def read_regular(path: str) -> bytes | None:
    """Return the content of a regular file; None where there is none. ToolError refused above MAX_COPIED."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = file.read(MAX_COPIED + 1)
    if len(data) > MAX_COPIED:
        raise ToolError(Code.REFUSED, f"{os.path.basename(path)} of the repository is too large")
    return data


def _put(path: str, data: bytes) -> None:
    """Give a file of ours its content in one step."""
    spare = f"{path}.{os.urandom(6).hex()}"
    with open(spare, "xb") as file:
        file.write(data)
    os.rename(spare, path)


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
