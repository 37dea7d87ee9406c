"""Files of the roots as resources: toolbox://files/{+path}."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import quote, unquote

import mcp_types as t
from anyio import to_thread

from ...safety.errors import ToolError
from ...safety.path_jail.roots import JailedPath, Roots
from ...safety.text import HEAD, decode, is_binary
from ...safety.writes.atomic import read_whole
from ...safety.writes.file_version import FileVersion

PREFIX = "toolbox://files/"
MAX_BYTES = 5 << 20
"""Bytes of a file that is read as a resource (TOOLS.md §10)."""
WATCHED = 100
"""Files that one owner may watch; a guess at more than any client shows."""


class Files:
    """Reads files, and watches those that an owner has subscribed to. Every path is judged as read_file's."""

    def __init__(
        self, roots: Roots, changed: Callable[[str, str], object], pause: Callable[[], Awaitable[object]]
    ) -> None:
        """Read below roots. changed gets the owner and the URI of a file that is not what it was. pause: between looks."""
        self._roots = roots
        self._changed = changed
        self._pause = pause
        self._watched: dict[tuple[str, str], FileVersion | None] = {}
        self._task: asyncio.Task[None] | None = None

    async def read(self, uri: str) -> t.TextResourceContents | t.BlobResourceContents | None:
        """Return the text, or the bytes of what is no text; None where read_file would refuse."""
        try:
            data, _ = await to_thread.run_sync(lambda: read_whole(self._place(uri), MAX_BYTES))
        except ToolError:
            return None
        if is_binary(data[:HEAD]):
            return t.BlobResourceContents(
                uri=uri, mime_type="application/octet-stream", blob=base64.b64encode(data).decode()
            )
        return t.TextResourceContents(uri=uri, mime_type="text/plain", text=decode(data).text)

    async def watch(self, owner: str, uris: Iterable[str]) -> None:
        """Tell an owner of changes to files that there are."""
        for uri in uris:
            if sum(key[0] == owner for key in self._watched) >= WATCHED:
                break
            if version := await to_thread.run_sync(self._version, uri):
                self._watched[owner, uri] = version
        if self._watched and self._task is None:
            self._task = asyncio.create_task(self._look())

    def forget(self, owner: str, uri: str | None = None) -> None:
        """Watch a file no more for an owner, or none of its files."""
        for key in [key for key in self._watched if key[0] == owner and uri in (None, key[1])]:
            del self._watched[key]

    async def aclose(self) -> None:
        """Watch nothing more."""
        self._watched.clear()
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _place(self, uri: str) -> JailedPath:
        return self._roots.place(unquote(uri.removeprefix(PREFIX))).with_status()

    def _version(self, uri: str) -> FileVersion | None:
        try:
            status = self._place(uri).target().stat()
        except ToolError:
            return None
        return FileVersion.of(status) if status else None

    async def _look(self) -> None:
        while self._watched:
            await self._pause()
            for key, known in [*self._watched.items()]:
                version = await to_thread.run_sync(self._version, key[1])
                if key in self._watched and version != known:
                    self._watched[key] = version
                    self._changed(*key)
        self._task = None


def uri_of(path: str) -> str:
    """Return the URI of a file by its path in the roots."""
    return PREFIX + quote(path)
