"""Where deleted entries go, and by what name."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import quote

from ...safety.errors import ToolError
from ...safety.os_errors import refusal
from ...safety.path_jail.opening import Links
from ...safety.path_jail.roots import MAX_NAME, JailedPath
from ...safety.writes import atomic
from ...safety.writes.fs_ops import make_folders, remove, remove_folders
from ..settings import ToolSettings
from .changes import Put
from .journal import put

OWN = ".trash"
MAX_SUFFIX = 64
"""Bytes of an extension that a name in the trash keeps; above that it is no extension."""


@dataclass(frozen=True)
class Trash:
    """A folder for deleted entries.

    info: the folder of notes that a desktop's trash keeps beside it. private: the folder is made for its owner alone, with
    an ignore file of its own where ignored.
    """

    folder: JailedPath
    info: JailedPath | None = None
    private: bool = False
    ignored: bool = False

    @classmethod
    def of(cls, entry: JailedPath, wanted: JailedPath | None, settings: ToolSettings) -> "Trash":
        """Return the trash for an entry, which exists. wanted: the folder that the call names. ToolError path_denied."""
        if wanted is not None:
            return cls(wanted.target())
        if settings.trash_dir != "auto":
            return cls(entry.roots.place(str(settings.trash_dir)).target())
        if system := system_trash(entry, settings):
            return system
        return cls(replace(entry, parts=(OWN,), links=Links.FOLLOW).target(), private=True, ignored=True)

    @property
    def ignore(self) -> JailedPath:
        """Return the place of the ignore file."""
        return self.folder.child(".gitignore")

    @contextmanager
    def made(self) -> Iterator[tuple[JailedPath, ...]]:
        """Make the folders that are missing, and take them back where what follows fails.

        Lends those that go with the call: what keeps what is deleted for all calls stays.
        """
        folders: list[JailedPath] = []
        try:
            for folder in filter(None, (self.folder, self.info)):
                new = make_folders(folder)
                folders += new
                if self.private:
                    for one in new:
                        _owner_only(one)
            if self.ignored and folders:
                atomic.replace(self.ignore, b"*\n")
            yield () if self.private else tuple(folders)
        except BaseException:
            if self.ignored and folders:
                with suppress(ToolError):
                    remove(self.ignore)
            remove_folders(folders)
            raise

    def name(self, entry: JailedPath) -> str:
        """Return a name that nothing in the folder has: when it was deleted, and chance."""
        stem, suffix = os.path.splitext(entry.name)
        if len(os.fsencode(suffix)) > MAX_SUFFIX:
            stem, suffix = entry.name, ""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        end = f".{stamp}.{secrets.token_hex(6)}{suffix}"
        room = MAX_NAME - len(os.fsencode(end)) - len(".trashinfo")
        while len(os.fsencode(stem)) > room:
            stem = stem[:-1]
        return stem + end

    def note(self, entry: JailedPath, name: str) -> Put | None:
        """Leave the note by which a desktop can put the entry back, where it keeps such notes."""
        if self.info is None:
            return None
        when = datetime.now().astimezone().strftime("%Y-%m-%dT%H:%M:%S")
        text = f"[Trash Info]\nPath={quote(os.fsencode(entry.path))}\nDeletionDate={when}\n".encode()
        return replace(put(atomic.replace(self.info.child(f"{name}.trashinfo"), text, overwrite=False)), quiet=True)


def system_trash(entry: JailedPath, settings: ToolSettings) -> Trash | None:
    """Return the desktop's trash if it is inside a root and on the entry's file system."""
    if settings.system_trash is None:
        return None
    try:
        top = entry.roots.place(str(settings.system_trash)).target()
        step = top
        while (status := step.stat()) is None:
            step = step.folder()
        there = entry.stat()
    except ToolError:
        return None
    if there is None or status.st_dev != there.st_dev:
        return None
    if settings.system_trash.name == ".Trash":  # macOS keeps entries in the folder itself, and its notes elsewhere
        return Trash(top, private=True)
    return Trash(top.child("files"), top.child("info"), private=True)


def _owner_only(folder: JailedPath) -> None:
    fd = folder.open_folder()
    try:
        os.fchmod(fd, 0o700)
    except OSError as e:
        raise refusal(e, folder.shown) from None
    finally:
        os.close(fd)
