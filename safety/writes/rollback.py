"""Taking back that a file came into a place, and nothing that somebody else has written there since."""

import errno
import os
from contextlib import suppress
from enum import Enum, auto

from ..errors import Code, ToolError
from ..path_jail.roots import JailedPath
from .file_version import FileVersion
from .renameat2 import exchange, rename_no_replace
from .temp_names import is_staging, temporary_name

_TURNS = 100
"""Saves that may each fall into the instant of one exchange; nobody saves that often."""


class Outcome(Enum):
    """What has the name after something was taken back.

    BACK: what had it before, or nothing where nothing had. THEIRS: what somebody else has put there. MIXED: the file that
    was to go, since somebody has written into it.
    """

    BACK = auto()
    THEIRS = auto()
    MIXED = auto()


def put_back(dir_fd: int, spare: str, name: str, put: FileVersion) -> Outcome:
    """Give a file its name back, at which another one is, and remove that; the former has the name spare meanwhile.

    put: the state of the one that is to go. Where something else has the name by now, that stays and the former is
    removed: it would have been overwritten. Where nothing has it, the one that was to go may be elsewhere, and the former
    gets its name. OSError: then the spare name may still be there, with the former or with what somebody has saved since.
    """
    try:
        meant = put.holds(dir_fd, name)
    except FileNotFoundError:
        with suppress(FileExistsError):
            rename_no_replace(dir_fd, spare, dir_fd, name)
            return Outcome.BACK
        meant = False
    if meant:
        return _exchanged(dir_fd, spare, name, put)
    outcome = _left(dir_fd, name, put)
    os.unlink(spare, dir_fd=dir_fd)
    return outcome


def remove_again(dir_fd: int, spare: str, name: str, put: FileVersion) -> Outcome:
    """Remove a file that has come to a name which was free; spare: a free name. OSError."""
    try:
        if not put.holds(dir_fd, name):
            return _left(dir_fd, name, put)
        rename_no_replace(dir_fd, name, dir_fd, spare)
    except FileNotFoundError:
        return Outcome.THEIRS
    outcome = Outcome.BACK
    if not put.holds(dir_fd, spare):
        # Somebody has saved it in the instant before. Who saves it in this one comes later still.
        outcome = Outcome.MIXED if put.is_file(FileVersion.at(dir_fd, spare)) else Outcome.THEIRS
        with suppress(FileExistsError):
            rename_no_replace(dir_fd, spare, dir_fd, name)
    with suppress(FileNotFoundError):
        os.unlink(spare, dir_fd=dir_fd)
    return outcome


def kept_for_good(dir_fd: int, spare: str) -> str:
    """Give what could not be put back a name under which no other server takes it for a left-over, and return that."""
    if not is_staging(spare):
        return spare
    name = temporary_name()
    try:
        os.rename(spare, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        return spare
    return name


def not_back(place: JailedPath, dir_fd: int, spare: str, failure: OSError) -> ToolError:
    """Return the error for something that could not be put back."""
    kept = place.folder().child(kept_for_good(dir_fd, spare)).shown
    return ToolError(
        Code.REFUSED,
        f"{place.shown} could not be put back: what it held, or somebody has saved since, is in {kept}: {failure.strerror}",
        "look at both",
    )


def stays_mixed(place: JailedPath) -> ToolError:
    """Return the error for Outcome.MIXED."""
    message = f"{place.shown} has just changed, and again since it was written; it stays so"
    return ToolError(Code.FILE_CHANGED, message, "read it again")


def name_again(place: JailedPath, dir_fd: int, spare: str) -> None:
    """Give what has a spare name its own again. ToolError refused, also where something else has that by now."""
    try:
        rename_no_replace(dir_fd, spare, dir_fd, place.name)
    except OSError as e:
        raise not_back(place, dir_fd, spare, e) from None


def _exchanged(dir_fd: int, spare: str, name: str, put: FileVersion) -> Outcome:
    """Let the files change names, until the one that loses its name is the one that it was given to."""
    given = put
    for _ in range(_TURNS):
        coming = FileVersion.at(dir_fd, spare)
        try:
            if not exchange(dir_fd, spare, name):
                os.rename(spare, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
                return Outcome.BACK
        except FileNotFoundError:
            rename_no_replace(dir_fd, spare, dir_fd, name)
            return Outcome.BACK
        if given.holds(dir_fd, spare):
            outcome = Outcome.BACK if given is put else _left(dir_fd, name, put)
            os.unlink(spare, dir_fd=dir_fd)
            return outcome
        # Somebody was quicker: theirs is the latest, and gets the name again.
        given = coming
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))


def _left(dir_fd: int, name: str, put: FileVersion) -> Outcome:
    # A file that is new may have the number of the one that is gone: then too much is said, and nothing lost.
    with suppress(FileNotFoundError):
        if put.is_file(FileVersion.at(dir_fd, name)):
            return Outcome.MIXED
    return Outcome.THEIRS
