"""What is kept of a program's output while it is read: the head and the tail, whatever the length."""

import builtins
from collections.abc import Callable
from dataclasses import dataclass

_LEADS = 3  # a character has at most three bytes after its first


@dataclass(frozen=True)
class Capture:
    """How many bytes of one stream are kept: the first `head` and the last `tail`.

    Both streams are 8 MiB. 64 calls at a time take at most 64 * 2 * (3 + 2 * 1) MiB, which is what one process of the
    server may hold.
    """

    head: int = 3 << 20
    tail: int = 1 << 20


@dataclass(frozen=True)
class Stream:
    """One stream of a finished program.

    text: what was kept, decoded as UTF-8 (U+FFFD for what is not), with a line saying how many bytes are missing.
    bytes: how many the program wrote. truncated: some were dropped. raw: the kept bytes, head and tail joined.
    """

    text: str
    bytes: int
    truncated: bool
    raw: builtins.bytes


class HeadTailBuffer:
    """Takes a stream piece by piece and holds at most head + 2 * tail bytes of it."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self._capture.head - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * self._capture.tail:
                del self._tail[: len(self._tail) - self._capture.tail]

    def done(self, clean: Callable[[str], str]) -> Stream:
        """Return the stream as kept; clean is applied to the decoded text."""
        head, tail = bytes(self._head), bytes(self._tail)
        if self.total <= self._capture.head + self._capture.tail:
            whole = head + tail
            return Stream(clean(whole.decode("utf-8", "replace")), self.total, False, whole)
        tail = tail[len(tail) - self._capture.tail :]
        # A character that the gap cuts in two is dropped whole, so that the gap makes no U+FFFD of its own.
        head, tail = head[: len(head) - _cut_at_end(head)], tail[_cut_at_start(tail) :]
        gap = self.total - len(head) - len(tail)
        before = clean(head.decode("utf-8", "replace"))
        after = clean(tail.decode("utf-8", "replace"))
        separator = "" if before.endswith("\n") or not before else "\n"
        return Stream(f"{before}{separator}... [{gap} bytes dropped] ...\n{after}", self.total, True, head + tail)


def _cut_at_end(data: bytes) -> int:
    """Return the number of bytes at the end that begin a character without finishing it."""
    for back in range(1, min(_LEADS, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < length else 0
        if byte < 0x80:
            return 0
    return 0


def _cut_at_start(data: bytes) -> int:
    """Return the number of bytes at the start that can only belong to a character that began earlier."""
    count = 0
    while count < min(_LEADS, len(data)) and 0x80 <= data[count] < 0xC0:
        count += 1
    return count
