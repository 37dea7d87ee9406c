"""The token budget: what is too long is cut in the middle, and says what is missing and how to get it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from ...tools.results import MoreHint
from .tokenizers import Cut, Tokenizer, whole_characters
from .vocabulary import LONGEST_TOKEN

_MARKER_ROOM = 16
"""Tokens kept free for the marker line at the least, by the contract."""

_SHORT = 10
"""What is cut is cut between lines where a line is shorter than this part of what is kept, by the contract."""

_STREAMS_ROOM = 64
"""Tokens of an answer that are kept from its streams, for the lines around them, by the contract."""


@dataclass(frozen=True)
class Fitted:
    """A text within its budget.

    tokens: what it was counted at, None where its size alone says that it fits. truncated: what `_meta.truncated`
    says, `tokens` of the whole text and how many were `cut`; None for a text that is unchanged.
    """

    text: str
    tokens: int | None
    truncated: dict[str, int] | None = None


class Budget:
    """At most `limit` tokens for an answer, and never less than 1.

    The work grows with limit and not with the text: a text of more than LONGEST_TOKEN characters a token of the limit
    is never counted as a whole. A run of spaces, which has the most characters in a token, takes some 0.1 s at 2,000
    tokens, other texts a few milliseconds.
    """

    def __init__(
        self,
        limit: int,
        tokenizer: Tokenizer,
        keep: Callable[[str], str] | None = None,
        *,
        structured: bool = False,
    ) -> None:
        """Count with tokenizer; limit is in its tokens.

        keep: keeps a text for process_output and returns its id. structured: fields are sent and have to fit, too.
        """
        self.limit = max(1, limit)
        self.keep = keep
        self.structured = structured
        self._tokenizer = tokenizer

    def keeping(self, keep: Callable[[str], str] | None) -> "Budget":
        """Return the same budget for a session that keeps what is cut."""
        # What is cut in several attempts is kept once.
        kept = cache(keep) if keep else None
        return Budget(self.limit, self._tokenizer, kept, structured=self.structured)

    def of(self, limit: int) -> "Budget":
        """Return the same budget with another limit."""
        return Budget(limit, self._tokenizer, self.keep, structured=self.structured)

    def count(self, text: str) -> int:
        """Return the tokens of a text; an estimate where it cannot fit, and its bytes where these fit."""
        return len(text) if _fits_by_bytes(self.limit, text) else self._total(text)

    def fit(self, text: str, how: MoreHint = None) -> Fitted:
        """Return text if it fits, else its head and tail with a marker line between.

        In a text that is cut, surrogate pairs are joined and lone surrogates become U+FFFD.
        """
        if _fits_by_bytes(self.limit, text):
            return Fitted(text, None)
        total = self._total(text)
        return Fitted(text, total) if total <= self.limit else self._cut(text, total, how)

    def head(self, text: str, how: MoreHint = None) -> Fitted:
        """Return text if it fits, else whole lines from its start and a last line that says how much is missing."""
        if _fits_by_bytes(self.limit, text):
            return Fitted(text, None)
        total = self._total(text)
        if total <= self.limit:
            return Fitted(text, total)
        room = self._tokenizer.count(_missing(total, how if isinstance(how, str) else None)) + (
            16 if callable(how) else 0
        )
        for _ in range(4):
            head = self.start(text, room + 2)
            kept = self._tokenizer.count(head)
            answer = (
                head
                + ("" if head.endswith("\n") or not head else "\n")
                + _missing(total - kept, how(head) if callable(how) else how)
            )
            tokens = self._tokenizer.count(answer)
            if kept and tokens <= self.limit:
                return Fitted(answer, tokens, {"tokens": total, "cut": total - kept})
            room += max(1, tokens - self.limit)
        cut = self._tokenizer.head(text, self.limit)
        return Fitted(cut.text, cut.tokens, {"tokens": total, "cut": total - cut.tokens})

    def start(self, text: str, room: int) -> str:
        """Return the longest start of a text that leaves room for so many tokens; whole lines where they are short."""
        if _fits_by_bytes(self.limit - room, text):
            return text
        head = self._tokenizer.head(text, self.limit - room).text
        return _whole_lines_first(text, head)

    def end(self, text: str, room: int) -> str:
        """Return the longest end of a text that leaves room for so many tokens; whole lines where they are short."""
        if _fits_by_bytes(self.limit - room, text):
            return text
        return _whole_lines_last(text, self._tokenizer.tail(text, self.limit - room).text)

    def fit_streams(self, stdout: str, stderr: str, *how: MoreHint) -> tuple[Fitted, Fitted]:
        """Fit both streams of a program into what the answer around them leaves.

        Where they do not fit together, the shorter gets up to half and the longer the rest. how: a hint for each of the two.
        """
        of_stdout, of_stderr = how or (None, None)
        share = Budget(self.limit - _STREAMS_ROOM, self._tokenizer)
        if _fits_by_bytes(share.limit, stdout, stderr):
            return Fitted(stdout, None), Fitted(stderr, None)
        totals = share._total(stdout), share._total(stderr)
        if sum(totals) <= share.limit:
            return Fitted(stdout, totals[0]), Fitted(stderr, totals[1])
        if totals[0] <= totals[1]:
            shorter = self._share(stdout, totals[0], share.limit // 2, of_stdout)
            return shorter, self._share(stderr, totals[1], share.limit - (shorter.tokens or 0), of_stderr)
        shorter = self._share(stderr, totals[1], share.limit // 2, of_stderr)
        return self._share(stdout, totals[0], share.limit - (shorter.tokens or 0), of_stdout), shorter

    def part(self, parts: int) -> "Budget":
        """Return the budget of each of several things that share this one."""
        return self.of(self.limit // max(1, parts))

    def _share(self, text: str, total: int, limit: int, how: MoreHint) -> Fitted:
        if total <= limit:
            return Fitted(text, total)
        if limit < 1:
            return Fitted("", 0, {"tokens": total, "cut": total})
        return Budget(limit, self._tokenizer)._cut(text, total, how)

    def _total(self, text: str) -> int:
        """Count text, or estimate it where it has too many characters to fit."""
        if len(text) > LONGEST_TOKEN * self.limit:
            return -(-_bytes(text) // 4)
        return self._tokenizer.count(text)

    def _cut(self, text: str, total: int, how: MoreHint) -> Fitted:
        if len(text) <= LONGEST_TOKEN * self.limit:
            text = whole_characters(text)
        kept = self._head_and_tail(text, total, how)
        shorten_tail = True
        while kept is not None:
            head, tail = kept
            answer = head.text + _between(total, head, tail, how) + tail.text
            tokens = self._tokenizer.count(answer)
            if tokens <= self.limit:
                return Fitted(answer, tokens, {"tokens": total, "cut": total - head.tokens - tail.tokens})
            if not (head.tokens or tail.tokens):
                break
            if (shorten_tail and tail.tokens) or not head.tokens:
                kept = head, self._tokenizer.tail(tail.text, tail.tokens - 1)
            else:
                kept = self._tokenizer.head(head.text, head.tokens - 1), tail
            shorten_tail = not shorten_tail
        head = self._tokenizer.head(text, self.limit)
        return Fitted(head.text, head.tokens, {"tokens": total, "cut": total - head.tokens})

    def _lines(self, text: str, head: Cut, tail: Cut) -> tuple[Cut, Cut]:
        """Return a head and a tail that begin and end between lines, where these are short."""
        first, last = _whole_lines_first(text, head.text), _whole_lines_last(text, tail.text)
        if len(first) != len(head.text):
            head = Cut(first, self._tokenizer.count(first))
        if len(last) != len(tail.text):
            tail = Cut(last, self._tokenizer.count(last))
        return head, tail

    def _head_and_tail(self, text: str, total: int, how: MoreHint) -> tuple[Cut, Cut] | None:
        """Cut so that the marker between gets exactly what it needs; None where it leaves no room for two tokens.

        The marker names what was cut, and what is cut leaves the marker its room: the first answer in which the two
        agree is taken. After four rounds the room only grows, so that an end is certain.
        """
        guess = _between(total, Cut("", self.limit - _MARKER_ROOM), Cut("", 0), how)
        room = max(_MARKER_ROOM, self._tokenizer.count(guess))
        for attempt in range(64):
            budget = self.limit - room
            if budget < 2:
                break
            head = self._tokenizer.head(text, budget * 3 // 5)
            rest = max(len(head.text), len(text) - LONGEST_TOKEN * budget)
            tail = self._tokenizer.tail(text[rest:], budget - budget * 3 // 5)
            head, tail = self._lines(text, head, tail)
            needed = max(_MARKER_ROOM, self._tokenizer.count(_between(total, head, tail, how)))
            if needed == room or (attempt >= 4 and needed < room):
                return head, tail
            room = needed
        return None


def _missing(tokens: int, how: str | None) -> str:
    return f"... [about {tokens} tokens cut; {how}]" if how else f"... [about {tokens} tokens cut]"


def _whole_lines_first(text: str, head: str) -> str:
    """Return the head of a text up to its last line end, unless the line that is cut there is long."""
    if len(head) == len(text) or head.endswith("\n"):
        return head
    begins = head.rfind("\n") + 1
    end = text.find("\n", len(head), begins + len(head) // _SHORT)
    is_short = begins and (end >= 0 or len(text) - begins <= len(head) // _SHORT)
    return head[:begins] if is_short else head


def _whole_lines_last(text: str, tail: str) -> str:
    """Return the tail of a text from its first line on, unless the line that is cut there is long."""
    at = len(text) - len(tail)
    if at <= 0 or text[at - 1] == "\n":
        return tail
    end = tail.find("\n", 0, len(tail) // _SHORT)
    is_short = end >= 0 and text.rfind("\n", max(0, at + end - len(tail) // _SHORT), at) >= 0
    return tail[end + 1 :] if is_short else tail


def _between(total: int, head: Cut, tail: Cut, how: MoreHint) -> str:
    """Write the marker line, and the blank lines that divide it from head and tail."""
    words = how(head.text) if callable(how) else how
    cut = total - head.tokens - tail.tokens
    return (
        f"\n\n... [about {cut} tokens cut; {words}] ...\n\n" if words else f"\n\n... [about {cut} tokens cut] ...\n\n"
    )


def _fits_by_bytes(limit: int, *texts: str) -> bool:
    """Return True if texts have no more bytes than limit, and so no more tokens."""
    return sum(map(len, texts)) <= limit and sum(map(_bytes, texts)) <= limit


def _bytes(text: str) -> int:
    """Count the bytes of text in UTF-8, without a copy of the whole."""
    if text.isascii():
        return len(text)
    step = 1 << 20
    return sum(len(text[at : at + step].encode(errors="surrogatepass")) for at in range(0, len(text), step))
