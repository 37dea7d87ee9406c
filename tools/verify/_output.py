"""What is read off a program's output while it runs, whatever its length: only a part of the output is kept."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Protocol

from ...safety.text import clean
from ...sandbox.process.capture import Capture, HeadTailBuffer, Stream
from ._counts import Counts

LONGEST = 1 << 20
"""Bytes of a line that is looked at; what is beyond is passed over."""

KEPT = 1 << 20
"""Bytes of summaries that are kept; a guess that no suite comes near."""

HELD = 64 * 1024
"""Characters of one test's output that are held until it is known how the test ends."""


RUNNING = 256
"""Tests at a time whose output is held; a guess that nobody runs more."""


class Summary(Protocol):
    """Something that sees all output and has the counts at the end."""

    def feed(self, stream: str, data: bytes) -> None:
        """Take the next piece of stdout or stderr."""
        ...

    def counts(self) -> Counts | None:
        """Return the number of tests that passed and failed; None where the runner did not say."""
        ...


class Lines:
    """Cuts a stream into lines."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        """Call take with each line, without its end and without what it has beyond LONGEST bytes."""
        self._take = take
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        first, *others = data.split(b"\n")
        self._rest += first[: max(0, LONGEST - len(self._rest))]
        for line in others:
            self._take(bytes(self._rest))
            self._rest = bytearray(line[:LONGEST])

    def end(self) -> None:
        """Take what has no line end behind it."""
        if self._rest:
            self._take(bytes(self._rest))
            self._rest = bytearray()


class SummaryLines:
    """Keeps the lines that sum a run up, and reads the counts off them. One stream's are as good as the other's."""

    def __init__(self, pattern: str, read: Callable[[str], Counts | None]) -> None:
        """Keep lines that begin, behind blanks and colours, with pattern."""
        self._pattern = re.compile(rb"(?:\x1b\[[0-9;]*m|[ \t])*(?:" + pattern.encode() + rb")")
        self._read = read
        self._found: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._size = 0
        self._lines = {name: Lines(lambda line, name=name: self._line(name, line)) for name in self._found}  # type: ignore[misc]

    def feed(self, stream: str, data: bytes) -> None:
        """Take the next piece of stdout or stderr."""
        self._lines[stream].feed(data)

    def counts(self) -> Counts | None:
        """Return the fields of the lines."""
        for lines in self._lines.values():
            lines.end()
        return next((counts for each in self._found.values() if (counts := self._read("\n".join(each)))), None)

    def _line(self, name: str, line: bytes) -> None:
        if self._size < KEPT and self._pattern.match(line):
            self._size += len(line)
            self._found[name].append(clean(line[:4096].decode("utf-8", "replace")))


class GoEvents:
    """Reads the events of `go test -json`: the counts, the text that they stand for, and what of it is of failures."""

    def __init__(self) -> None:
        """Begin with no event."""
        self._outcomes = {"pass": 0, "fail": 0, "skip": 0}
        self._seen = False
        self._whole, self._failed = HeadTailBuffer(Capture()), HeadTailBuffer(Capture())
        self._held: dict[tuple[object, object], str] = {}
        self._lines = Lines(self._line)

    def feed(self, stream: str, data: bytes) -> None:
        """Take the next piece of stdout."""
        if stream == "stdout":
            self._lines.feed(data)

    def counts(self) -> Counts | None:
        """Return the headline of a test run."""
        self._lines.end()
        found = self._outcomes
        return Counts(found["pass"], found["fail"], 0, found["skip"]) if self._seen else None

    def printed(self) -> tuple[Stream, str]:
        """Return the plain output of go, and the part of it that belongs to what failed."""
        return self._whole.done(clean), self._failed.done(clean).text

    def _line(self, line: bytes) -> None:
        event = _event(line)
        if event is None:
            self._whole.feed(line + b"\n")
            self._failed.feed(line + b"\n")
            return
        self._seen = True
        action, of = event.get("Action"), (event.get("Package"), event.get("Test"))
        if action in ("output", "build-output"):
            text = str(event.get("Output", ""))
            self._whole.feed(text.encode("utf-8", "replace"))
            if action == "build-output":
                self._failed.feed(text.encode("utf-8", "replace"))
            elif of in self._held or len(self._held) < RUNNING:
                self._held[of] = (self._held.get(of, "") + text)[-HELD:]
        elif action in self._outcomes:
            held = self._held.pop(of, "")
            if action == "fail":
                self._failed.feed(held.encode("utf-8", "replace"))
            if of[1]:
                self._outcomes[str(action)] += 1


def _event(line: bytes) -> Mapping[str, object] | None:
    try:
        found = json.loads(line) if line.startswith(b"{") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("Action"), str):
        return None
    named = all(isinstance(found.get(name), str | None) for name in ("Package", "Test"))
    return found if named else None
