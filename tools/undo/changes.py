"""What a call did to files, as steps that can be taken back."""

import stat
from collections import OrderedDict
from dataclasses import dataclass, field
from os import stat_result

from ...safety.path_jail.roots import JailedPath
from ...safety.writes.file_version import FileVersion
from ...safety.writes.metadata import Attributes, Owner

RENEWED = 10_000
"""Files put back whose former state is remembered; a guess far above what 50 calls usually change."""


@dataclass(frozen=True)
class Content:
    """A file, or a symbolic link, at one moment.

    mode: permission bits. size: bytes. data: the bytes, of a link its target; None where only the rest is known. seen: the
    state by which the system knew the file. owner, attributes: to whom it belonged, and its extended attributes, where these
    were looked at.
    """

    etag: str
    mode: int
    size: int
    data: bytes | None = field(default=None, repr=False)
    link: bool = False
    seen: FileVersion | None = None
    owner: Owner | None = None
    attributes: Attributes | None = field(default=None, repr=False)

    def same(self, other: "Content") -> bool:
        """Return True if another one has the same bytes and mode."""
        return (self.etag, self.mode, self.size, self.link) == (other.etag, other.mode, other.size, other.link)


@dataclass(frozen=True)
class Put:
    """A file got other content, came to be (before is None) or went away (after is None).

    quiet: it belongs to the trash, and no answer names it.
    """

    place: JailedPath
    before: Content | None
    after: Content | None
    quiet: bool = False


@dataclass(frozen=True)
class Moved:
    """An entry got another name; left is its signature there. from_trash, to_trash: that name is in a trash folder."""

    old: JailedPath
    new: JailedPath
    left: str
    from_trash: bool = False
    to_trash: bool = False


@dataclass(frozen=True)
class Made:
    """A folder was made, with a mode; or, where it is gone, an empty folder was removed."""

    folder: JailedPath
    mode: int
    gone: bool = False


Step = Put | Moved | Made


class Renewed:
    """Knows files that were put back, so that they count as what they were before, in all but the name."""

    def __init__(self) -> None:
        self._former: OrderedDict[FileVersion, tuple[int, int]] = OrderedDict()

    def put_back(self, now: FileVersion, before: FileVersion) -> None:
        """Remember that a file equals in content what had another state before."""
        self._former[now] = self._of(before)
        while len(self._former) > RENEWED:
            self._former.popitem(last=False)

    def state(self, status: stat_result) -> tuple[int, int]:
        """Return the identity of a file's content in signatures: size and time, those of before where put back."""
        return self._of(FileVersion.of(status))

    def _of(self, seen: FileVersion) -> tuple[int, int]:
        return self._former.get(seen, (seen.size, seen.mtime_ns))


def touched(steps: list[Step]) -> list[JailedPath]:
    """Return every place that the steps speak of."""
    out: list[JailedPath] = []
    for step in steps:
        match step:
            case Put():
                out.append(step.place)
            case Moved():
                out += (step.old, step.new)
            case Made():
                out.append(step.folder)
    return out


def named(steps: list[Step]) -> list[JailedPath]:
    """Return the places that an answer names, each once: none in the trash."""
    out: list[JailedPath] = []
    for step in steps:
        match step:
            case Put(quiet=False):
                out.append(step.place)
            case Moved():
                out += ([] if step.from_trash else [step.old]) + ([] if step.to_trash else [step.new])
            case Made():
                out.append(step.folder)
    return [*{place.path: place for place in out}.values()]


def permissions(status: stat_result) -> int:
    """Return the permission bits of a status."""
    return stat.S_IMODE(status.st_mode)
