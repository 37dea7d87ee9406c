"""What a background process wrote and nobody has read yet."""

from dataclasses import dataclass

from ...safety.text import IncrementalCleaner

UNREAD = 256 * 1024
"""Bytes of one stream that wait for a reader; older ones are dropped."""


@dataclass(frozen=True)
class Taken:
    """What one read got. dropped: bytes that were lost before it."""

    text: str
    dropped: int


class OutputBuffer:
    """One stream: bytes come in as they are, text goes out once, whole characters only."""

    def __init__(self, limit: int = UNREAD) -> None:
        """Keep at most limit bytes."""
        self._limit = limit
        self._bytes = bytearray()
        self._dropped = 0
        self._cleaner = IncrementalCleaner()
        self.total = 0

    def __len__(self) -> int:
        """Return the number of waiting bytes."""
        return len(self._bytes)

    @property
    def waiting(self) -> bool:
        """Whether a read would return something."""
        return bool(self._dropped) or len(self._bytes) > IncrementalCleaner.HELD or bool(self.peek())

    def feed(self, data: bytes) -> bool:
        """Take the next bytes of the stream; tell whether older ones had to go."""
        self.total += len(data)
        self._bytes += data
        # Cut in large steps: taking a few bytes off the front of a full buffer moves all the others.
        if len(self._bytes) < 2 * self._limit:
            return False
        self._cut()
        return True

    def peek(self) -> str:
        """Return the text of take(), without taking it."""
        self._cut()
        return self._text(self._cleaner.copy())

    def take(self, *, last: bool = False) -> Taken:
        """Return the text that waits and forget it. last: the stream has ended, nothing is held back."""
        self._cut()
        text = self._text(self._cleaner) + (self._cleaner.end() if last else "")
        taken = Taken(text, self._dropped)
        self._bytes.clear()
        self._dropped = 0
        return taken

    def _text(self, cleaner: IncrementalCleaner) -> str:
        # What was held back belongs before the gap, and nothing after it continues it.
        before = cleaner.end() + _marker(self._dropped) if self._dropped else ""
        return before + cleaner.feed(bytes(self._bytes))

    def _cut(self) -> None:
        over = len(self._bytes) - self._limit
        if over <= 0:
            return
        # Not in the middle of a character.
        while (
            over < len(self._bytes) and 0x80 <= self._bytes[over] < 0xC0 and over < len(self._bytes) - self._limit + 3
        ):
            over += 1
        del self._bytes[:over]
        self._dropped += over


def _marker(dropped: int) -> str:
    return f"... [{dropped} bytes dropped] ...\n" if dropped else ""
