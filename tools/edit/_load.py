"""A text file as edits see it: loaded whole, changed in memory, written back in one step."""

from collections.abc import Callable
from dataclasses import dataclass

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.text import HEAD, Decoded, decode, encode_like, is_binary
from ...safety.writes.atomic import Written, locked, read_whole
from ...safety.writes.file_version import FileVersion, etag
from ..undo.journal import Journal
from ._replace import MAX_BYTES, too_large


@dataclass(frozen=True)
class LoadedFile:
    """A text file at one moment: where it is, its bytes, their etag, its text, and what identifies its state."""

    place: JailedPath
    data: bytes
    tag: str
    text: Decoded
    state: FileVersion


@dataclass(frozen=True)
class Edited:
    """A file after an edit, and the etag of what was there before."""

    written: Written
    before: str

    @property
    def key(self) -> str:
        """Return the name under which a session remembers the file."""
        return self.written.place.absolute


def edit(
    place: JailedPath,
    expected_etag: str | None,
    journal: Journal,
    change: Callable[[LoadedFile], tuple[str, str]],
    max_bytes: int = MAX_BYTES,
) -> Edited:
    """Read a file, change it and write it back, as one step among the writers of this server.

    change returns the whole text and what of it is inserted. ToolError not_a_file,
    too_large, binary_file, no_change, file_changed, protected_path, and whatever change raises; then the file is as it was.
    """
    with locked(place) as at:
        file = load(at, expected_etag, max_bytes)
        data = encoded(file, *change(file), max_bytes)
        if data == file.data:
            raise ToolError(Code.NO_CHANGE, f"{place.shown} would stay as it is")
        former = file.data, file.tag
        return Edited(journal.replace(at, data, expect=file.state, old=former), file.tag)


def load(place: JailedPath, expected_etag: str | None = None, max_bytes: int = MAX_BYTES) -> LoadedFile:
    """Read a file to edit. ToolError not_a_file, too_large, binary_file, file_changed."""
    data, state = read_whole(place, max_bytes)
    tag = state.digest or etag(data)
    check_etag(place, tag, expected_etag)
    if is_binary(data[:HEAD]):
        raise ToolError(Code.BINARY_FILE, f"{place.shown} is not a text file")
    return LoadedFile(place, data, tag, decode(data, exact=True), state)


def encoded(file: LoadedFile, text: str, inserted: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of the changed text. ToolError binary_file, too_large."""
    if file.text.lossy and not inserted.isascii():
        raise ToolError(
            Code.BINARY_FILE, f"{file.place.shown} is not valid UTF-8", "only ASCII text can be put into it"
        )
    data = encode_like(text, file.text)
    if len(data) > max_bytes and len(data) > len(file.data):
        raise too_large(max_bytes)
    return data


def check_etag(place: JailedPath, found: str, expected: str | None) -> None:
    """Refuse a file that is not in the state the caller expects."""
    if expected is not None and found != expected:
        raise changed(place)


def changed(place: JailedPath) -> ToolError:
    """Return the refusal of a file that is not what the caller read."""
    return ToolError(
        Code.FILE_CHANGED, f"{place.shown} has changed since it was read", "read it again before changing it"
    )
