"""Where a repository lies, and whether git may be let near it.

git follows what a repository says of itself: a `.git` file, `commondir`, alternates, links. Each of them can lead out of the
roots, and a FIFO among them stops git for ever. So all parts that git reads are looked at before git is.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from .errors import Code, ToolError
from .os_errors import refusal
from .path_jail.roots import JailedPath, Roots

MAX_POINTER = 4096
"""Bytes of a file that holds one path (PATH_MAX)."""
MAX_ALTERNATES = 65536
"""Bytes of a list of other object stores; a guess."""
_ALTERNATES_DEPTH = 5
"""Stores that borrow from each other; git follows as many (object-file.c, link_alt_odb_entries)."""
_MAX_DEPTH = 20
"""Folders in each other below refs, logs and objects; a branch name has at most 255 bytes in a component and few of them."""
_TREES = ("objects", "refs", "logs", "reftable")
_FILES = ("HEAD", "config", "config.worktree", "index", "packed-refs", "shallow", "commondir", "gitdir")
_INFO = ("attributes", "exclude", "sparse-checkout", "grafts")
_IN_FOLDERS = frozenset({".gitignore", ".gitattributes"})
"""What git reads of every folder of a work tree."""
_IN_WORK_TREE = (*sorted(_IN_FOLDERS), ".gitmodules", ".mailmap")

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCH = re.compile(r"refs/[^\x00-\x20\x7f~^:?*\[\\]{1,500}")
_BAD_BRANCH = re.compile(r"\.\.|//|/\.|\.lock(?:/|\Z)|@\{|[./]\Z")
"""What no reference may have in its name (git-check-ref-format)."""
_REFTABLE_HEAD = "ref: refs/heads/.invalid"
"""What HEAD holds where references are in a table."""

Times = dict[str, int]
"""For each folder that was looked through, when its content had last changed."""


@dataclass(frozen=True)
class Repository:
    """A work tree with its repository, all of it inside the roots.

    git_dir: what belongs to this work tree alone; common_dir: what all work trees of the repository share.
    """

    work_tree: JailedPath
    git_dir: str
    common_dir: str
    alternates: tuple[str, ...] = field(default=(), repr=False)

    @cached_property
    def prefix(self) -> str:
        """What stands before a path of the repository in results: "" for a repository in the base, `lib/` elsewhere."""
        shown = self.work_tree.shown
        return "" if shown == "." else shown.rstrip("/") + "/"

    def inside(self, place: JailedPath) -> str:
        """Return the path of a place relative to the work tree, `.` for the work tree. ToolError invalid_args outside it."""
        at = place.target().absolute
        tree = self.work_tree.absolute
        if at == tree:
            return "."
        if not at.startswith(tree.rstrip("/") + "/"):
            raise ToolError(
                Code.INVALID_ARGS,
                f"{place.shown} is not in the repository at {self.work_tree.shown}",
                f"paths are relative to the base folder: {self.prefix}{place.shown}" if self.prefix else None,
            )
        return at[len(tree.rstrip("/")) + 1 :]


def find(folder: JailedPath, known: Times) -> Repository:
    """Return the repository whose work tree a folder is in, having looked at all of its parts that git reads.

    known: what earlier calls looked through. ToolError not_a_directory, not_a_repo, refused.
    """
    at = folder.target()
    os.close(at.open_folder())
    for tree in _upwards(at):
        try:
            status = os.lstat(os.path.join(tree.absolute, ".git"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as e:
            raise refusal(e, tree.shown) from None
        return _Looking(at.roots, tree, known).repository(status)
    raise ToolError(
        Code.NOT_A_REPO,
        f"{folder.shown} is in no git repository",
        "one that begins above the allowed folders is not used; the operator can add its folder as another root",
    )


def _upwards(at: JailedPath) -> Iterator[JailedPath]:
    """Yield a folder and those above it: to the top of its root, and on where another root holds that one."""
    for count in range(len(at.parts), -1, -1):
        yield replace(at, parts=at.parts[:count])
    for above in replace(at, parts=()).path.parents:
        try:
            yield at.roots.place(str(above)).target()
        except ToolError:
            return


def special_file(tree: JailedPath, stop: Callable[[], bool]) -> str | None:
    """Return the path, relative to a work tree, of a FIFO or device that git would read there; None where there is none.

    It goes through every folder, so it is for a git that takes long.
    """
    top = tree.absolute
    folders = [top]
    while folders and not stop():
        with suppress(OSError):
            for entry in _entries(folders.pop()):
                if entry.is_dir(follow_symlinks=False):
                    if entry.path != os.path.join(top, ".git"):
                        folders.append(entry.path)
                elif entry.name in _IN_FOLDERS and not (entry.is_symlink() or entry.is_file(follow_symlinks=False)):
                    return os.path.relpath(entry.path, top)
    return None


class _Looking:
    def __init__(self, roots: Roots, tree: JailedPath, known: Times) -> None:
        self._roots = [os.path.realpath(folder) for folder in roots.folders]
        self._tree = tree
        self._known = known

    def repository(self, status: os.stat_result) -> Repository:
        dot = os.path.join(self._tree.absolute, ".git")
        self._owned(status)
        if stat.S_ISLNK(status.st_mode):
            raise self._refused("its .git is a link")
        if stat.S_ISREG(status.st_mode):
            pointer = self._pointer(dot)
            if not pointer.startswith("gitdir: "):
                raise self._none()
            git_dir = self._led(os.path.dirname(dot), pointer[len("gitdir: ") :], "its .git file")
        elif stat.S_ISDIR(status.st_mode):
            git_dir = dot
        else:
            raise self._refused("its .git is a special file")
        common_dir = git_dir
        commondir = os.path.join(git_dir, "commondir")
        if os.path.lexists(commondir):
            self._regular(commondir)
            common_dir = self._led(git_dir, self._pointer(commondir), "its commondir")
        if not os.path.lexists(os.path.join(git_dir, "HEAD")) or not os.path.isdir(os.path.join(common_dir, "objects")):
            raise self._none()
        for part in dict.fromkeys((git_dir, common_dir)):
            self._look_at(part)
        self._check_head(git_dir, common_dir)
        self._look_at_work_tree()
        alternates = self._alternates(os.path.join(common_dir, "objects"), 0)
        return Repository(self._tree, git_dir, common_dir, tuple(dict.fromkeys(alternates)))

    def _look_at(self, git_dir: str) -> None:
        """Look at all that git reads in one folder of a repository."""
        self._owned(os.lstat(git_dir))
        shared = (name for name in os.listdir(git_dir) if name.startswith("sharedindex."))
        for name in chain(_FILES, shared, (f"info/{name}" for name in _INFO)):
            self._regular(os.path.join(git_dir, name))
        if os.path.lexists(os.path.join(git_dir, "info", "grafts")):
            raise self._refused("it has grafts, which show another history than the one there is")
        for name in ("info", *_TREES):
            path = os.path.join(git_dir, name)
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                continue
            if not stat.S_ISDIR(mode):
                raise self._refused(f".git/{name} is not a folder")
            if name != "info":
                self._look_through(path, 0)

    def _check_head(self, git_dir: str, common_dir: str) -> None:
        """Refuse a HEAD that names no branch and no commit, or a branch that is another name: git would write where it leads."""
        head = self._pointer(os.path.join(git_dir, "HEAD"))
        if head == _REFTABLE_HEAD and os.path.isdir(os.path.join(common_dir, "reftable")):
            return
        if _HASH.fullmatch(head):
            return
        name = head.removeprefix("ref:").lstrip(" ") if head.startswith("ref:") else ""
        if not _BRANCH.fullmatch(name) or _BAD_BRANCH.search(name):
            raise self._none() if not name else self._refused("its HEAD is not the name of a branch")
        branch = os.path.join(common_dir, name)
        if os.path.isfile(branch) and self._read(branch, MAX_POINTER).startswith("ref:"):
            raise self._refused("its current branch is only another name")

    def _look_at_work_tree(self) -> None:
        for name in _IN_WORK_TREE:
            try:
                mode = os.lstat(os.path.join(self._tree.absolute, name)).st_mode
            except OSError:
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
                raise self._refused(f"{name} is a special file")

    def _look_through(self, folder: str, depth: int) -> None:
        """Refuse a folder that holds anything but files and folders. One that was looked through is not read again."""
        if depth > _MAX_DEPTH:
            raise self._refused("its folders lie too deep in each other")
        changed = os.lstat(folder).st_mtime_ns
        below = []
        if self._known.get(folder) != changed:
            for entry in _entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    raise self._refused(f".git has a link or special file among its {os.path.basename(folder)}")
            self._known[folder] = changed
            self._known.pop(folder + "/", None)
            if below:
                self._known[folder + "/"] = 1
        elif self._known.get(folder + "/"):
            below = [entry.path for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]
        for path in below:
            self._look_through(path, depth + 1)

    def _alternates(self, objects: str, depth: int) -> Iterator[str]:
        """Yield the stores that a store borrows from, each looked through."""
        listed = os.path.join(objects, "info", "alternates")
        if not os.path.lexists(listed):
            return
        if depth == _ALTERNATES_DEPTH:
            raise self._refused("its alternates borrow from each other too often")
        self._regular(listed)
        for line in self._read(listed, MAX_ALTERNATES).split("\n"):
            if not line or line.startswith("#"):
                continue
            if line.startswith('"'):
                raise self._refused("its alternates are quoted")
            other = self._led(objects, line, "its alternates")
            self._look_through(other, 0)
            yield other
            yield from self._alternates(other, depth + 1)

    def _led(self, start: str, pointer: str, what: str) -> str:
        """Return the folder that a path leads to, links followed. ToolError refused outside the roots."""
        path = os.path.realpath(os.path.join(start, pointer))
        if not any(path == root or path.startswith(root.rstrip("/") + "/") for root in self._roots):
            raise self._refused(f"{what} leads outside the allowed folders")
        if not os.path.isdir(path):
            raise self._none()
        return path

    def _pointer(self, path: str) -> str:
        return self._read(path, MAX_POINTER).rstrip("\r\n")

    def _read(self, path: str, most: int) -> str:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise self._refused(f"{os.path.basename(path)} is too long")
        return os.fsdecode(data)

    def _regular(self, path: str) -> None:
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        if not stat.S_ISREG(mode):
            raise self._refused(f".git has a link or special file in place of {os.path.basename(path)}")

    def _owned(self, status: os.stat_result) -> None:
        if os.name != "nt" and status.st_uid != os.geteuid():
            raise self._refused("it belongs to another user than this server runs as")

    def _refused(self, why: str) -> ToolError:
        return ToolError(
            Code.REFUSED, f"the repository at {self._tree.shown} is not used: {why}", "look at it with git yourself"
        )

    def _none(self) -> ToolError:
        return ToolError(Code.NOT_A_REPO, f"the .git of {self._tree.shown} is no git repository")


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)
