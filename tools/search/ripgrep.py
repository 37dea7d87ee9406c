"""What ripgrep finds: rows, counts, files. Read as a stream and stopped at the cap."""

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.path_jail.tree_walk import MAX_ENTRIES
from ...safety.text import HEAD, is_binary, visible_name
from ...sandbox.process.child import Ended
from ...sandbox.process.streaming import Streaming
from ...sandbox.ripgrep import Ripgrep
from ..blocking import IsCancelled, run_read
from ..progress import Progress
from .left_out import UNREADABLE, note
from .matches import Row, excerpt
from .query import Query, sendable
from .scope import MAX_BYTES, WALK_SECONDS, RgScope, Scope

SURPLUS = 10
"""The parallel search collects up to this many times the limit, since sorting needs all; only above that does a
second, sorted search find the first matches by path."""
MAX_ROWS = 20_000
"""Lines, context included, that the parallel search collects; a guess at what is quickly sorted."""
LONGEST = MAX_BYTES + 2**16
"""Bytes of a line of output: a file that is one line, and its path."""

MAX_WHOLE = 64 << 20
"""Bytes of a file that is held whole, for a match over lines."""

MAX_LISTED = 64 << 20
"""Bytes of paths among which files that are too large are looked for; a guess: a million paths."""

LINE = re.compile(rb"(\d+)(?::(\d+):|-)")

_NO_FOLDER = "rg: failed to get current working directory"

_UNREAD = re.compile(rb"^rg: (\./.+): [^\n]+ \(os error (\d+)\)$", re.MULTILINE)
"""What ripgrep says of a file or folder that it could not read."""
_GONE = (b"2", b"20")  # ENOENT, ENOTDIR: it was removed meanwhile

_NUL = re.compile(
    rb"(\./.+): (?:WARNING: stopped searching binary file after match|binary file matches)"
    rb' \(found "\\0" byte around offset (\d+)\)\n',
    re.DOTALL,
)
"""What ripgrep says behind the hits of a file in which it then came upon a NUL."""

Cut = str | None
"""Why a search ended early, or None."""


@dataclass
class Missed:
    """What a search passed over, relative to the folder of the scope: files that are too large, and what could not be read.

    more: others could not be read either. cut: why what is too large was not looked for to the end, or None.
    """

    large: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    more: bool = False
    cut: Cut = None

    def notes(self) -> list[str]:
        """Return the lines of an answer that say so."""
        return [
            *([f"... (stopped after {self.cut})"] if self.cut else []),
            *note(f"above {MAX_BYTES >> 20} MiB, not searched", sorted(self.large)),
            *note(UNREADABLE, sorted(self.unreadable), more=self.more),
        ]


def _key(path: str, full: bool) -> str:
    """Return the sort key of paths.

    full: not all were looked for. Then they are in ripgrep's order, name by name, so that nothing is left out before the last.
    """
    return path.replace("/", "\0") if full else path


T = TypeVar("T")


@dataclass(frozen=True)
class Rg:
    """ripgrep in a scope, until a moment of the monotonic clock."""

    program: Ripgrep
    scope: Scope
    within: RgScope
    until: float
    missed: Missed = field(default_factory=Missed)

    @classmethod
    def of(cls, program: Ripgrep, scope: Scope) -> "Rg":
        """Return ripgrep for one search, which begins here. ToolError path_denied."""
        return cls(program, scope, scope.ripgrep(), time.monotonic() + WALK_SECONDS)

    @property
    def left(self) -> float:
        """Return the seconds that are left; a search without any has nothing to find."""
        return max(0.0, self.until - time.monotonic())

    @asynccontextmanager
    async def run(self, *arguments: str) -> AsyncIterator[Streaming]:
        """Run it over the scope; the output is read meanwhile."""
        argv = [*self.within.arguments, *arguments, "--null", "--", self.within.target]
        with self.within.opened() as fd:
            async with self.program.start(argv, cwd=fd, timeout=self.left, rules=self.within.rules) as run:
                yield run

    async def rows(self, query: Query, progress: Progress, limit: int) -> tuple[list[Row], Cut]:
        """Return matches and their context, sorted by path and line; more than limit matches means there are more.

        ToolError too_large for a file by name that a match over lines would have to be held whole for.
        """
        if query.spans and self.scope.file is not None:
            status = self.scope.folder.child(self.scope.file).stat()
            if status and status.st_size > MAX_WHOLE:
                raise ToolError(
                    Code.TOO_LARGE,
                    f"{self.scope.shown(self.scope.file)} is above {MAX_WHOLE >> 20} MiB, too large for a match over lines",
                    "a pattern within lines is searched for in a file of any size",
                )
        return await self._sorted_rows(query, progress, limit)

    async def find_large(self) -> None:
        """Take note of the text files that the scope means and that are too large to be searched."""
        every, bounded = await asyncio.gather(self._listed(), self._listed(f"--max-filesize={MAX_BYTES}"))
        self.missed.large |= await run_read(partial(self._large_texts, every - bounded))

    async def _listed(self, *arguments: str) -> set[bytes]:
        """Return the paths of all files as ripgrep reports them; taken as a whole, since a path by itself takes Python longer."""
        listed = bytearray()
        async with self.run("--files", *arguments) as run:
            async for chunk in run.chunks():
                listed += chunk
                if len(listed) > MAX_LISTED:
                    self.missed.cut = f"{MAX_LISTED >> 20} MiB of names"
                    return set()
            self.missed.cut = self.missed.cut or self._judged(run, await run.wait(), "")
        return {*bytes(listed).removesuffix(b"\0").split(b"\0")}

    def _large_texts(self, paths: set[bytes], stop: IsCancelled) -> set[str]:
        meant = (name for path in paths if self.scope.meant(name := self.within.name(path)))
        return {name for name in meant if not stop() and _is_large_text(self.scope.below(name))}

    async def _sorted_rows(self, query: Query, progress: Progress, limit: int) -> tuple[list[Row], Cut]:
        arguments = [
            *query.for_ripgrep(),
            f"--max-filesize={MAX_BYTES}",
            "--no-heading",
            "--with-filename",
            "--line-number",
            "--column",
            *query.line_ends,
            f"--max-count={limit + 1}",
            f"--before-context={query.before}",
            f"--after-context={query.after}",
            "--context-separator=--",
        ]
        found, full, cut = await self._rows(query, arguments, limit * SURPLUS, progress)
        if full := full and self.scope.file is None:
            sought, _, cut = await self._rows(query, [*arguments, "--sort=path"], limit + 1, progress)
            # Out of time, what came in any order is better than nothing.
            found = found if cut and len(sought) < limit else sought
        if query.before or query.after:
            # For some patterns ripgrep tells context of what it then finds to be no match.
            matching = {row.path for row in found if row.match}
            found = [row for row in found if row.path in matching]
        found.sort(key=lambda row: (_key(row.path, full), row.line))
        return found, cut

    async def _rows(
        self, query: Query, arguments: list[str], cap: int, progress: Progress
    ) -> tuple[list[Row], bool, Cut]:
        """Return the matches, whether there were more, and why the search ended early."""
        found: list[Row] = []
        matches = 0
        async with self.run(*arguments) as run, aclosing(_records(run, self._is_there)) as records:
            async for path, rest in records:
                if isinstance(rest, int):
                    # What stands in its first bytes is searched before it is looked for a NUL.
                    while (
                        rest < HEAD and self.scope.file is None and found and found[-1].path == self.within.name(path)
                    ):
                        matches -= found.pop().match
                    continue
                row = self._row(path, rest)
                if row is None:
                    continue
                found.append(row)
                if row.match:
                    matches += 1
                    if matches > cap or (len(found) > MAX_ROWS and "--sort=path" not in arguments):
                        return found, True, None
                    if progress.wanted:
                        await progress(matches, None, f"{matches} matches")
            return found, False, self._judged(run, await run.wait(), query.shown)

    def _row(self, path: bytes, rest: bytes) -> Row | None:
        head = LINE.match(rest)
        if not head:
            return None
        name = self.within.name(path)
        if not self.scope.meant(name):
            return None
        text = rest[head.end() :].removesuffix(b"\r")
        return Row(name, int(head[1]), excerpt(text, int(head[2]) - 1 if head[2] else 0), match=head[2] is not None)

    def _is_there(self, path: bytes) -> bool:
        """Return True if a path that ripgrep may have named is one of the tree."""
        place = self.scope.folder
        try:
            for name in self.within.name(path).split("/"):
                place = place.child(name)
            return place.stat() is not None
        except ToolError:
            return False

    async def counts(self, query: Query, limit: int) -> tuple[list[tuple[str, int]], Cut]:
        """Return files with the number of their matches, sorted by path; more than limit means there are more."""
        arguments = [
            *query.for_ripgrep(),
            f"--max-filesize={MAX_BYTES}",
            "--with-filename",
            *query.line_ends,
            "--count",
            *(["--max-count=1"] if query.output == "files" else []),
        ]
        found: list[tuple[str, int]] = []
        cut: Cut = None
        for extra, cap in (([], limit * SURPLUS), (["--sort=path"], limit)):
            before, found, full = found, [], False
            async with self.run(*arguments, *extra) as run, aclosing(_records(run, self._is_there)) as records:
                async for path, count in records:
                    name = self.within.name(path)
                    if isinstance(count, bytes) and count.strip().isdigit() and self.scope.meant(name):
                        found.append((name, int(count)))
                    full = len(found) > cap
                    if full:
                        break
                else:
                    cut = self._judged(run, await run.wait(), query.shown)
            if cut and len(found) < limit:
                found = before or found
            if not full:
                break
        found.sort(key=lambda one: _key(one[0], full))
        return found, cut

    async def holding(self, line: str, ignore_case: bool) -> tuple[list[str], Cut]:
        """Return the files of the scope that hold a text, sorted."""
        arguments = ["--fixed-strings", *(["--ignore-case"] if ignore_case else []), f"--regexp={sendable(line)}"]
        return await self._names(line, *arguments, f"--max-filesize={MAX_BYTES}", "--files-with-matches")

    def _judged(self, run: Streaming, ended: Ended, pattern: str) -> Cut:
        """Return why a search ended early; ToolError bad_pattern where ripgrep refused the pattern, unavailable where it failed."""
        if run.timed_out:
            return f"{WALK_SECONDS:g} s"
        if ended.status == 2 and (message := run.stderr.text.strip()):
            if message.startswith(_NO_FOLDER):
                raise ToolError(Code.NOT_A_DIRECTORY, "the folder was removed while it was searched")
            # It names no file before it has read the pattern.
            if not message.startswith("rg: ./"):
                raise _refused(pattern, message)
            told = _UNREAD.findall(run.stderr.raw)
            self.missed.unreadable |= {self.within.name(path) for path, why in told if why not in _GONE}
            self.missed.more = self.missed.more or run.stderr.truncated
        if ended.signal is None and ended.status > 2:
            # It did not get as far as searching: a library of it is missing, say.
            raise ToolError(Code.UNAVAILABLE, f"ripgrep does not run: it ended with status {ended.status}")
        return "ripgrep was killed" if ended.signal else None

    async def files(self) -> tuple[list[str], Cut]:
        """Return the files of the scope, sorted, relative to its folder."""
        if self.scope.file is not None:
            return [self.scope.file], None
        return await self._names("", "--files")

    async def _names(self, shown: str, *arguments: str) -> tuple[list[str], Cut]:
        found: list[str] = []
        seen = 0
        async with self.run(*arguments) as run, aclosing(run.lines(b"\0")) as names:
            async for raw in names:
                seen += 1
                if seen > MAX_ENTRIES:
                    return sorted(found), f"{MAX_ENTRIES} entries"
                name = self.within.name(raw)
                if self.scope.meant(name):
                    found.append(name)
            return sorted(found), self._judged(run, await run.wait(), shown)

    async def matching(self, texts: list[str], query: Query) -> tuple[list[int], Cut]:
        """Return the indexes of the one-line texts that match, in order, and why the search ended early."""
        # Where a match could lie over two of them, what divides them is a NUL.
        divided = b"\0" if query.spans else b"\n"
        argv = [
            *("--null-data" if argument == "--multiline" else argument for argument in query.for_ripgrep()),
            "--line-number",
            "--no-filename",
            "--text",
            f"--max-count={query.limit + 1}",
            "--",
            "-",
        ]
        lines = divided.join(text.encode("utf-8", "surrogateescape") for text in texts)
        found: list[int] = []
        with self.within.opened() as fd:
            async with self.program.start(argv, cwd=fd, timeout=self.left, stdin=lines) as run:
                async for line in run.lines(divided):
                    number = line.partition(b":")[0]
                    if number.isdigit():
                        found.append(int(number) - 1)
                ended = await run.wait()
        return found, self._judged(run, ended, query.shown)


async def _records(
    run: Streaming, is_there: Callable[[bytes], bool]
) -> AsyncGenerator[tuple[bytes, bytes | int], None]:
    """Yield (path, what is said of it) for each line of output that begins with a path.

    Of a file in which there is a NUL, behind its hits, (path, where that is). is_there: whether a path is one of the tree.
    ToolError refused for a name that cannot be told from such a message and the path behind it.
    """
    pending = held = b""
    async with aclosing(run.lines(longest=LONGEST)) as lines:
        async for line in lines:
            # No path goes on in this way.
            if pending and (line.startswith(b"./") or line == b"--") and (nul := _NUL.fullmatch(pending)):
                yield nul[1], int(nul[2])
                pending, held = b"", pending
            path, null, rest = (pending + line).partition(b"\0")
            # A path that holds a line break comes in pieces; what is said of it holds none.
            pending = path + b"\n" if not null and path.startswith(b"./") else b""
            if held and not null and not pending:
                held += line + b"\n"
            if null:
                if held and is_there(held + path):
                    name = visible_name(held.decode("utf-8", "replace").removeprefix("./"))
                    raise ToolError(
                        Code.REFUSED,
                        f"a file name begins as what ripgrep says of a binary file: {name[:200]}",
                        "search beside it, or rename it",
                    )
                held = b""
                yield path, rest
    if nul := _NUL.fullmatch(pending):
        yield nul[1], int(nul[2])


def _is_large_text(place: JailedPath) -> bool:
    """Return True if a file is not searched for its size alone; a binary one is not searched, whatever its size."""
    try:
        fd = place.open_file()
    except ToolError:
        return False
    try:
        return os.fstat(fd).st_size > MAX_BYTES and not is_binary(os.pread(fd, HEAD, 0))
    except OSError:
        return False
    finally:
        os.close(fd)


def _refused(pattern: str, message: str) -> ToolError:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    why = next((line for line in reversed(lines) if line.startswith("error")), lines[-1])
    why = why.removeprefix("error: ").removeprefix("rg: ")
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        # It escapes the bracket that closes the group which the pattern is put into, and that would be told.
        why = "it ends in a backslash that escapes nothing"
    return ToolError(
        Code.BAD_PATTERN,
        f"{pattern[:200]} is not a regular expression: {why[:300]}",
        'match="literal" takes it as it is',
    )
