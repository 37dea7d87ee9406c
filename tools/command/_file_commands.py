"""rm, rmdir and mv, done as delete_file and move_file do them: recorded for undo."""

import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.shell.file_commands import FileCommand
from ...sandbox.process.capture import Stream
from ...sandbox.process.child import Usage
from ...sandbox.process.runner import Finished
from ..blocking import run_read
from ..edit.delete_file import delete_file
from ..edit.move_file import move_file
from ..results import Text
from ..services import Journal, Seen, Settings


@dataclass(frozen=True)
class FileCommands:
    """Runs them."""

    settings: Settings
    seen: Seen
    journal: Journal

    async def run(self, commands: Sequence[FileCommand]) -> Finished:
        """Run commands to their end, as a shell would those before and behind `&&` and `;`."""
        last = await self._run(commands[0])
        for before, command in pairwise(commands):
            if before.ends == ";" or not last.exit_code:
                last = joined(last, await self._run(command))
        return last

    async def _run(self, command: FileCommand) -> Finished:
        """Run a command to its end: what fails is told, and the rest is done."""
        begun = time.monotonic()
        done: list[str] = []
        failed: list[str] = []
        text: str | None
        *sources, last = command.operands
        for raw, place in sources if command.name == "mv" else command.operands:
            try:
                if command.name == "mv":
                    text = await self._move(place, *last, only=len(sources) == 1)
                else:
                    text = await self._remove(command, raw, place)
            except ToolError as refused:
                failed.append(f"{command.name}: {raw}: {refused.error}\n")
            else:
                done += [f"{text}\n"] if text else []
        milliseconds = round((time.monotonic() - begun) * 1000)
        out, err = (Stream(text, len(text.encode()), False, text.encode()) for text in ("".join(done), "".join(failed)))
        return Finished(int(bool(failed)), None, False, None, milliseconds, out, err, Usage())

    async def _remove(self, command: FileCommand, raw: str, place: JailedPath) -> str | None:
        kind = await run_read(lambda stop: _kind(place))
        if kind is None and "f" in command.options:
            return None
        if kind is not None and kind != "dir" and (command.name == "rmdir" or raw.endswith("/")):
            raise ToolError(Code.NOT_A_DIRECTORY, "not a folder")
        recursive = not command.options.isdisjoint("rR")
        if kind == "dir" and command.name == "rm" and not recursive and "d" not in command.options:
            raise ToolError(Code.IS_A_DIRECTORY, "is a folder; -r removes it")
        answer = await delete_file.run(
            settings=self.settings, seen=self.seen, journal=self.journal, path=place, recursive=recursive
        )
        return _sentence(answer)

    async def _move(self, source: JailedPath, onto: str, there: JailedPath, *, only: bool) -> str:
        # A link to a folder is the folder.
        followed = there.folder().child(there.name) if there.parts else there
        if await run_read(lambda stop: _kind(followed)) == "dir":
            destination = await run_read(lambda stop: followed.target().child(source.name))
            await run_read(lambda stop: destination.check_writable())
            if await run_read(lambda stop: _kind(destination)) == "dir":
                raise ToolError(Code.EXISTS, f"{destination.shown} is a folder")
        elif onto.endswith("/") or not only:
            raise ToolError(Code.NOT_A_DIRECTORY, f"{onto} is not a folder")
        else:
            destination = there
        return _sentence(
            await move_file.run(
                seen=self.seen, journal=self.journal, source=source, destination=destination, overwrite=True
            )
        )


def joined(first: Finished, then: Finished) -> Finished:
    """Return how the second ended, with what both wrote."""
    out, err = (
        Stream(a.text + b.text, a.bytes + b.bytes, b.truncated, a.raw + b.raw)
        for a, b in ((first.stdout, then.stdout), (first.stderr, then.stderr))
    )
    return replace(then, duration_ms=first.duration_ms + then.duration_ms, stdout=out, stderr=err)


def _sentence(answer: object) -> str:
    assert isinstance(answer, Text)
    return answer.body


def _kind(place: JailedPath) -> str | None:
    """Return what a place is: None, dir or file."""
    status = place.stat()
    return status and ("dir" if stat.S_ISDIR(status.st_mode) else "file")
