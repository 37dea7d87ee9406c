"""filesystem, of the orbiter profile."""

import os
import stat
from typing import Annotated, Any, Literal

from pydantic import Field

from ...safety.errors import Code, ToolError
from ...safety.guard import Guard, GuardContext
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import FreePath
from ...safety.text import visible_name
from ...safety.writes.atomic import read_whole
from ..base import EMPTY_COUNTS, Access, tool
from ..blocking import run_read, run_write
from ..edit.write_file import write_whole
from ..results import Verbatim
from ..services import Journal, Seen, Settings

MAX_BYTES = 16 * 2**20
"""Size of a file that is read (TOOLS.md §9)."""

Action = Literal["read", "write", "list"]


def _known(action: Any, judging: GuardContext) -> str:
    if action not in ("read", "write", "list"):
        raise ToolError(
            Code.INVALID_ARGS, f"Unknown filesystem action: {str(action)[:100]}", "one of read, write, list"
        )
    return str(action)


@tool(Access.WRITE, gated=False)
async def filesystem(
    seen: Seen,
    journal: Journal,
    settings: Settings,
    action: Annotated[Action, Guard(_known, accepts=Action, raw=True)],
    path: FreePath,
    content: Annotated[str | None, Field(description="for write"), EMPTY_COUNTS] = None,
) -> Verbatim:
    """Read, write, or list files in the workspace."""
    if action == "read":
        return Verbatim(await run_read(lambda _: _text(path)))
    if action == "list":
        return Verbatim(await run_read(lambda _: _entries(path)))
    if not settings.orbiter_writes:
        raise ToolError(
            Code.EXEC_DISABLED,
            "filesystem write is not enabled",
            "the operator can set enable_exec_tools: true, and add filesystem to exec_tools where that is a list",
        )
    if content is None:
        raise ToolError(Code.INVALID_ARGS, "content: required with action=write")
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise ToolError(Code.INVALID_ARGS, "content: expected valid Unicode") from None
    written = await run_write(lambda _: write_whole(path, data, None, False, True, True, journal))
    seen.record(str(written.place.path), written.etag)
    return Verbatim(f"Wrote {len(content)} chars to {visible_name(str(written.place.path))}")


def _text(place: JailedPath) -> str:
    if place.stat() is None:
        raise ToolError(Code.NOT_FOUND, f"File not found: {place.shown}")
    data, _ = read_whole(place, MAX_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ToolError(Code.BINARY_FILE, f"{place.shown} is not UTF-8 text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _entries(place: JailedPath) -> dict[str, Any]:
    status = place.stat()
    if status is None:
        raise ToolError(Code.NOT_FOUND, f"Directory not found: {place.shown}")
    if not stat.S_ISDIR(status.st_mode):
        raise ToolError(Code.NOT_A_DIRECTORY, f"Not a directory: {place.shown}")
    fd = place.open_folder()
    try:
        with os.scandir(fd) as entries:
            found = sorted((entry.name, _is_folder(place, entry)) for entry in entries)
    finally:
        os.close(fd)
    return {
        "directory": visible_name(str(place.target().path)),
        "entries": [{"name": visible_name(name), "type": "dir" if is_folder else "file"} for name, is_folder in found],
    }


def _is_folder(place: JailedPath, entry: "os.DirEntry[str]") -> bool:
    if not entry.is_symlink():
        return entry.is_dir(follow_symlinks=False)
    try:
        status = place.child(entry.name).stat()
    except ToolError:
        return False
    return status is not None and stat.S_ISDIR(status.st_mode)
