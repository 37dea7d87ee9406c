"""Text that comes from outside: what it holds, how it is shown, how it is written back."""

import codecs
import copy
import re
from dataclasses import dataclass
from typing import Literal

from .errors import Code, ToolError

Newline = Literal["lf", "crlf", "mixed", "none"]

HEAD = 8192
"""Bytes that are looked at to tell binary from text (git and grep use the same)."""

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROLS = f"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{_BIDI}\ud800-\udfff"
_ASCII_CONTROLS = bytes({*range(32), 0x7F} - set(b"\t\n\r"))
# Unicode's Default_Ignorable_Code_Point, the line and paragraph separators and the marks of annotations: text that nobody
# sees, and that a model reads.
INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_JOINERS, _SELECTORS = "\u200c\u200d", "\ufe0e\ufe0f"
_SEEN = f"[^\x00-\x7f{_CONTROLS}{INVISIBLE}{_JOINERS}{_SELECTORS}]"
# A joiner between two characters of a script or of an emoji, and a selector behind one, are part of how these look.
_JOINED = re.compile(
    rf"(?<={_SEEN})[{_JOINERS}](?={_SEEN})|(?<={_SEEN}[{_SELECTORS}])[{_JOINERS}](?={_SEEN})"
    rf"|(?<=[0-9#*]|{_SEEN})[{_SELECTORS}]"
)
_HIDDEN = re.compile(f"[{_CONTROLS}{INVISIBLE}{_JOINERS}{_SELECTORS}]")
_HIDDEN_IN_NAME = re.compile(f"[{_CONTROLS}{INVISIBLE}{_JOINERS}{_SELECTORS}\t\n\r]")

# The forms of ECMA-48: CSI, the strings (OSC, DCS, SOS, PM, APC), two- and three-character escapes. Lengths are
# bounded so that an unfinished sequence hides no text and a stream waits for no more than that. A string ends where
# another begins, as for ESC: else thousands of beginnings are each read to the bound, seconds for 32 KB.
_STRING = 4096
_CSI = r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
_TEXT = rf"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\n]{{0,{_STRING}}}"
_ESC = r"\x1b[ -/]{0,8}"
_ANSI = rf"{_CSI}[@-~]|{_TEXT}(?:\x07|\x9c|\x1b\\)|{_ESC}[0-~]"
# A run of controls that begin no sequence goes at once: one by one, 256 KiB of NUL take 70 ms.
_DIRT = re.compile(
    rf"{_ANSI}|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f{_BIDI}\ud800-\udfff{INVISIBLE}]+|[{_CONTROLS}]|[{_JOINERS}{_SELECTORS}]{{3,}}"
)
_UNFINISHED = re.compile(rf"(?:{_CSI}|{_TEXT}\x1b?|{_ESC}|[{_JOINERS}{_SELECTORS}]+)\Z")
_RETURNS = re.compile(r"\r+\n?")

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def visible(text: str) -> str:
    """Show control characters but tab, LF and CR, bidi controls and invisible characters as `<U+XXXX>`."""
    if text.isascii():
        # Most text is clean ASCII, and a translation sees that ten times faster than an expression.
        data = text.encode("ascii")
        if len(data.translate(None, _ASCII_CONTROLS)) == len(data):
            return text
    return _HIDDEN.sub(_mark, text)


def visible_name(name: str) -> str:
    """Show a file name on one line: nothing invisible at all, bytes that are not UTF-8 as U+FFFD."""
    if name.isascii() and name.isprintable():  # as nearly every name is
        return name
    return _HIDDEN_IN_NAME.sub(lambda m: "\ufffd" if "\ud800" <= m[0] <= "\udfff" else _mark(m), name)


def _mark(found: re.Match[str]) -> str:
    if _JOINED.match(found.string, found.start()):
        return found[0]
    return f"<U+{ord(found[0]):04X}>"


def clean(text: str) -> str:
    """Take ANSI sequences, control characters, bidi controls and invisible characters out of the text of a program, git or a page.

    CRLF and a lone CR (a progress line that overwrites itself) become LF.
    """
    return _RETURNS.sub("\n", _DIRT.sub("", text))


class IncrementalCleaner:
    """clean() over bytes that come in pieces: the pieces joined give what clean() gives of the whole."""

    HELD = 5 * _STRING
    """Bytes of which some text is certain, whatever they are."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._return = False

    def feed(self, data: bytes) -> str:
        """Take bytes and return the text that is certain by now. Holds back at most some 4 KiB."""
        return self._clean(self._decoder.decode(data), last=False)

    def copy(self) -> "IncrementalCleaner":
        """Return one that goes on from here by itself."""
        made = copy.copy(self)
        made._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        made._decoder.setstate(self._decoder.getstate())
        return made

    def end(self) -> str:
        """Return the rest."""
        return self._clean(self._decoder.decode(b"", True), last=True)

    def _clean(self, text: str, *, last: bool) -> str:
        text = self._pending + text
        self._pending = ""
        if not last and (unfinished := _UNFINISHED.search(text, max(0, len(text) - _STRING - 4))):
            self._pending = text[unfinished.start() :]
            text = text[: unfinished.start()]
        text = ("\r" if self._return else "") + _DIRT.sub("", text)
        self._return = not last and text.endswith("\r")
        return _RETURNS.sub("\n", text.rstrip("\r") if self._return else text)


@dataclass(frozen=True)
class Decoded:
    """A text and what is needed to write it back byte for byte.

    text: without BOM, line ends as in the file. encoding: utf-8, utf-16-le or utf-16-be. newline: the line
    ends in use. lossy: some bytes were not valid; they are U+FFFD, or lone surrogates after decode(exact=True).
    """

    text: str
    encoding: str
    bom: bool
    newline: Newline
    final_newline: bool
    lossy: bool

    @property
    def lf(self) -> str:
        """The text with every CRLF as LF, as it is shown."""
        return self.text if self.newline in ("lf", "none") else self.text.replace("\r\n", "\n")

    @property
    def line_end(self) -> str:
        """What an inserted line ends with: the file's majority."""
        if self.newline != "mixed":
            return "\r\n" if self.newline == "crlf" else "\n"
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf > self.text.count("\n") - crlf else "\n"


def is_binary(head: bytes) -> bool:
    """Tell from the first bytes: a NUL in the first 8 KiB and no UTF-16 mark."""
    # The mark of UTF-32 begins like that of UTF-16, whose characters would break such a file.
    marked = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not head.startswith(codecs.BOM_UTF32_LE)
    return b"\0" in head[:HEAD] and not marked


def decode(data: bytes, *, exact: bool = False) -> Decoded:
    """Decode by the BOM, else as UTF-8. Does not ask is_binary().

    exact: keep what is not valid so that encode_like() gives the same bytes; ToolError binary_file where
    that cannot be (UTF-16).
    """
    mark, encoding = next(((mark, name) for mark, name in _BOMS if data.startswith(mark)), (b"", "utf-8"))
    body = data[len(mark) :]
    lossy = False
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError:
        if exact and encoding != "utf-8":
            raise ToolError(Code.BINARY_FILE, "the file begins as UTF-16 and is not valid UTF-16") from None
        lossy = True
        text = body.decode(encoding, "surrogateescape" if exact else "replace")
    # One character is found many times faster than two, and most text has none.
    crlf = text.count("\r\n") if "\r" in text else 0
    lf = text.count("\n") - crlf
    newline: Newline = "mixed" if crlf and lf else "crlf" if crlf else "lf" if lf else "none"
    return Decoded(text, encoding, bool(mark), newline, text.endswith("\n"), lossy)


def encode_like(text: str, like: Decoded) -> bytes:
    """Encode a text as the file it came from was, BOM included. Bytes kept by decode(exact=True) come back.

    ToolError binary_file for a character that the encoding has not.
    """
    mark = next(mark for mark, name in _BOMS if name == like.encoding) if like.bom else b""
    try:
        return mark + text.encode(like.encoding, "surrogateescape" if like.lossy else "strict")
    except UnicodeEncodeError:
        raise ToolError(Code.BINARY_FILE, "the text holds a character that cannot be written") from None
