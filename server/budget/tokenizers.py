"""Tokenizers: how many tokens a text has, and the longest head or tail of it within a number of tokens."""

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from . import vocabulary
from .vocabulary import LONGEST_TOKEN

if TYPE_CHECKING:
    import tiktoken


@dataclass(frozen=True)
class Cut:
    """A head or tail of a text, and how many tokens it has by itself."""

    text: str
    tokens: int


class Tokenizer(Protocol):
    """What the budget needs to know of a model's tokens. A token stands for at most LONGEST_TOKEN characters."""

    def count(self, text: str) -> int:
        """Count the tokens of text. Never raises; the work grows with the text, so callers bound it."""
        ...

    def head(self, text: str, limit: int) -> Cut:
        """Return the longest prefix with at most limit tokens. The work grows with limit, not with the text."""
        ...

    def tail(self, text: str, limit: int) -> Cut:
        """Return the longest suffix with at most limit tokens. The work grows with limit, not with the text."""
        ...


class QuarterTokenizer:
    """Counts ceil(characters / 4), for models whose vocabulary is not published."""

    def count(self, text: str) -> int:
        """Count a token for every four characters begun."""
        return -(-len(text) // 4)

    def head(self, text: str, limit: int) -> Cut:
        """Return the first 4 * limit characters."""
        return self._cut(text[: 4 * max(0, limit)])

    def tail(self, text: str, limit: int) -> Cut:
        """Return the last 4 * limit characters."""
        return self._cut(text[max(0, len(text) - 4 * max(0, limit)) :])

    def _cut(self, text: str) -> Cut:
        return Cut(text, self.count(text))


# Between a letter or digit and one of these, every encoding on board ends a piece whatever stands around: no piece
# goes on from a letter or digit with white space or punctuation, except with an apostrophe or a combining mark. The
# tokens of both sides are then those of the whole text.
_SEAM = re.compile(
    r"(?<=[^\W_])(?=[\s!-&(-/:-@\[-`{-~\u00a1-\u00a9\u00ab-\u00b1\u2000-\u200a\u2010-\u205e\u3000-\u3003\u3008-\u3011"
    r"\uff01-\uff06\uff08-\uff0f\uff1a-\uff20])"
)

_SPARE = 64
"""Tokens beyond a cut that are looked at, because those at the edge of a window would be others in the whole text."""

_RECOUNTABLE = 16_384
"""Characters of a tail that may be counted a handful of times over, at about 3 ms each."""

_REACH = 512
"""Bytes around a cut that are searched for a seam. Words are shorter; a longer run is cut where its tokens end."""


@dataclass(frozen=True)
class _Base:
    """A place in a window with `count` tokens between it and the far end. exact: it is a seam or the window's end."""

    at: int
    count: int
    exact: bool


class BytePairTokenizer:
    """Counts with one of tiktoken's encodings.

    tiktoken panics on a million white-space characters in a row, so text goes to it in slices which end at seams and
    have about `slice_size` characters. Only where `unbroken` characters hold no seam is a slice ended anyhow; the sum
    is then not tiktoken's own count, but as a rule the same or slightly more.
    """

    def __init__(self, encoding: "tiktoken.Encoding", slice_size: int = 65_536, unbroken: int = 524_288) -> None:
        """Count with encoding. unbroken stays well under the 1,000,000 white-space characters that tiktoken bears."""
        self._encoding = encoding
        self._slice_size = slice_size
        self._unbroken = unbroken

    def count(self, text: str) -> int:
        """Count the tokens of text as tiktoken does; lone surrogates count as U+FFFD."""
        return sum(len(self._encoding.encode_ordinary(part)) for part in self._slices(text))

    def head(self, text: str, limit: int) -> Cut:
        """Return the longest prefix with at most limit tokens, in which lone surrogates are U+FFFD.

        A prefix that ends inside a word may have more tokens than the whole word, so the answer is looked for from
        the next seam backwards. In a run without seams the search goes LONGEST_TOKEN characters beyond the point
        where the tokens of the run end.
        """
        if limit <= 0:
            return Cut("", 0)
        window = whole_characters(text[: LONGEST_TOKEN * limit])
        size = min(len(window), 8 * limit + 256)
        tokens = self._tokens(window[:size])
        while size < len(window) and len(tokens) < limit + _SPARE:
            size = min(len(window), size * max(2, (limit + 2 * _SPARE) // len(tokens)))
            tokens = self._tokens(window[:size])
        if len(tokens) <= limit:
            return Cut(window, len(tokens))

        pieces = self._encoding.decode_tokens_bytes(tokens[:limit])
        end = len(b"".join(pieces).decode(errors="ignore"))
        base = _base_before(window, pieces)
        seam = _SEAM.search(window, end + 1, end + LONGEST_TOKEN + 1)
        last = seam.start() if seam else min(len(window), end + LONGEST_TOKEN)
        for stop in range(last, base.at, -1):
            count = base.count + self.count(window[base.at : stop])
            if count <= limit and not base.exact:
                count = self.count(window[:stop])
            if count <= limit:
                return Cut(window[:stop], count)
        return Cut(window[: base.at], self.count(window[: base.at]))

    def tail(self, text: str, limit: int) -> Cut:
        """Return the longest suffix with at most limit tokens, in which lone surrogates are U+FFFD. As head."""
        if limit <= 0:
            return Cut("", 0)
        window = whole_characters(text[max(0, len(text) - LONGEST_TOKEN * limit) :])
        size = min(len(window), 8 * limit + 256)
        tokens = self._tokens(window[len(window) - size :])
        while size < len(window) and len(tokens) < limit + _SPARE:
            size = min(len(window), size * max(2, (limit + 2 * _SPARE) // len(tokens)))
            tokens = self._tokens(window[len(window) - size :])
        if len(tokens) <= limit:
            return Cut(window, len(tokens))

        pieces = self._encoding.decode_tokens_bytes(tokens[len(tokens) - limit :])
        start = len(window) - sum(map(_begun, pieces))
        base = _base_after(window, pieces)
        lowest = max(0, start - LONGEST_TOKEN)
        first = max((m.start() for m in _SEAM.finditer(window, lowest, start)), default=lowest)
        best = Cut(window[base.at :], self.count(window[base.at :]))
        for begin in range(first, base.at):
            count = base.count + self.count(window[begin : base.at])
            if count <= limit and not base.exact:
                count = self.count(window[begin:])
            if count <= limit:
                best = Cut(window[begin:], count)
                break
        return best if base.exact else self._longer_tail(window, first, limit, best)

    def _longer_tail(self, window: str, first: int, limit: int, best: Cut) -> Cut:
        """Look for a longer suffix in a run without seams, whose tokens all shift when its start does."""
        fails, fits = first - 1, len(window) - len(best.text)
        while fits - fails > 1 and len(window) - fits <= _RECOUNTABLE:
            begin = (fails + fits) // 2
            count = self.count(window[begin:])
            if count <= limit:
                fits, best = begin, Cut(window[begin:], count)
            else:
                fails = begin
        # The count is not quite monotonic: aaaa may be one token where aaa is two.
        for begin in range(max(first, fits - 16), fits if len(window) - fits <= _RECOUNTABLE else 0):
            count = self.count(window[begin:])
            if count <= limit:
                return Cut(window[begin:], count)
        return best

    def _tokens(self, text: str) -> list[int]:
        return [token for part in self._slices(text) for token in self._encoding.encode_ordinary(part)]

    def _slices(self, text: str) -> Iterator[str]:
        start = 0
        while len(text) - start > self._slice_size:
            seam = _SEAM.search(text, start + self._slice_size, start + self._unbroken)
            stop = seam.start() if seam else min(len(text), start + self._unbroken)
            yield text[start:stop]
            start = stop
        yield text[start:]


def _base_before(window: str, pieces: list[bytes]) -> _Base:
    """Find a place before the tokens in pieces end, up to which their number is known."""
    at = sum(map(_begun, pieces))
    walked = 0
    for count in range(len(pieces) - 1, 0, -1):
        piece = pieces[count]
        at -= _begun(piece)
        walked += len(piece)
        if piece[0] & 0xC0 != 0x80:
            seam = _SEAM.match(window, at) is not None
            if seam or walked >= _REACH:
                return _Base(at, count, exact=seam)
    return _Base(0, 0, exact=True)


def _base_after(window: str, pieces: list[bytes]) -> _Base:
    """Find a place after the tokens in pieces begin, from which their number is known."""
    at = len(window) - sum(map(_begun, pieces))
    walked = 0
    for index, piece in enumerate(pieces):
        if piece[0] & 0xC0 != 0x80:
            seam = _SEAM.match(window, at) is not None
            if seam or walked >= _REACH:
                return _Base(at, len(pieces) - index, exact=seam)
        at += _begun(piece)
        walked += len(piece)
    return _Base(len(window), 0, exact=True)


def _begun(piece: bytes) -> int:
    """Count the characters that begin in these bytes of UTF-8."""
    return len(piece) if piece.isascii() else sum(byte & 0xC0 != 0x80 for byte in piece)


def whole_characters(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates, as tiktoken does before it counts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def encoding_of(model: str) -> str | None:
    """Name the encoding of an OpenAI model, by tiktoken's own table; an encoding's name stands for itself.

    None for models without a vocabulary on board. Imports tiktoken.
    """
    from tiktoken.model import encoding_name_for_model

    if model in vocabulary.TABLES:
        return model
    try:
        name = encoding_name_for_model(model)
    except KeyError:
        return None
    return name if name in vocabulary.TABLES else None


class ModelTokenizer:
    """The tokenizer of a model, which is found and loaded when the first text has to be counted.

    That takes about 0.3 s, in the thread that asks; others that ask meanwhile wait for it. Raises VocabularyError then
    and at each later use if the vocabulary on board is damaged.
    """

    def __init__(self, model: str) -> None:
        """Take the name of a model or of an encoding; any name is accepted."""
        self.model = model
        self._lock = threading.Lock()
        self._loaded: Tokenizer | None = None

    def count(self, text: str) -> int:
        """Count the tokens of text."""
        return self._tokenizer().count(text)

    def head(self, text: str, limit: int) -> Cut:
        """Return the longest prefix with at most limit tokens."""
        return self._tokenizer().head(text, limit)

    def tail(self, text: str, limit: int) -> Cut:
        """Return the longest suffix with at most limit tokens."""
        return self._tokenizer().tail(text, limit)

    def _tokenizer(self) -> Tokenizer:
        with self._lock:
            if self._loaded is None:
                encoding = encoding_of(self.model)
                self._loaded = BytePairTokenizer(vocabulary.load(encoding)) if encoding else QuarterTokenizer()
            return self._loaded


def tokenizer_for(model: str) -> Tokenizer:
    """Return the tokenizer of a model or encoding: exact for OpenAI's, ceil(characters / 4) for any other.

    Costs nothing until a text has to be counted.
    """
    return ModelTokenizer(model)
