"""What is sought."""

import re
from dataclasses import dataclass
from typing import Literal

from ...safety.errors import Code, ToolError

MAX_PATTERN = 65536
"""Bytes of a pattern. The system takes 131,072 for one argument, and some are added here."""

BACKTRACKING = re.compile(
    r"(?<!\\)(?:\\\\)*(?:\(\?<?[=!]|\(\?>|\(\?P=|\\k<|\\[1-9]|[*+?}]\+|\(\?\(|\(\?(?:R\)|\d|&|P>))"
)
"""What the linear engine refuses: look-around, atomic groups, back-references, possessive repeats, conditions, recursion."""

_EVERYTHING = r"\[(?:\\s\\S|\\S\\s|\\d\\D|\\D\\d|\\w\\W|\\W\\w)\]"
_SPANNING = re.compile(rf"(?<!\\)(?:\\\\)*(?:\\(?:n|x0[aA]|x\{{0*[aA]\}}|u000[aA])|\(\?[a-zA-Z]*s|{_EVERYTHING})|\n")
_MAYBE = re.compile(r"\[\^|\\[sDWH]")
_VERBOSE = re.compile(r"(?<!\\)(?:\\\\)*\(\?[a-zA-Z]*x")
_ALL_VERBOSE = re.compile(r"\(\?[a-zA-Z]{0,8}x[a-zA-Z]{0,8}\)(?!.*\(\?[a-zA-Z]*-)", re.DOTALL)
_RETURN = re.compile(r"(?<!\\)(?:\\\\)*\\r|\r")
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
_NEWLINE = r"(?:\r?\n)"


@dataclass(frozen=True)
class Query:
    """What is sought. before and after are lines of context, limit the matches (or files) told at most,
    attempt the seconds that a backtracking engine has for one match attempt. multiline: matches may lie over several lines,
    also where the pattern does not say so.
    """

    pattern: str
    block: tuple[str, ...] | None
    literal: bool
    ignore_case: bool
    before: int
    after: int
    grouped: bool
    output: Literal["lines", "files", "count"]
    limit: int
    attempt: float
    multiline: bool = False

    @property
    def shown(self) -> str:
        """Return the query as a person would name it."""
        return self.pattern if self.block is None else " / ".join(line.strip() for line in self.block)

    @property
    def backtracks(self) -> bool:
        """Return True if the pattern needs the engine that can run away."""
        return not self.literal and self.block is None and bool(BACKTRACKING.search(self.pattern))

    @property
    def spans(self) -> bool:
        """Return True if a match may lie over several lines."""
        return "\n" in self.pattern if self.literal else self.multiline or spans_lines(self.pattern)

    @property
    def might_span(self) -> bool:
        """Return True if matches over several lines were not looked for, and the pattern has what may match a line break."""
        return self.block is None and not self.literal and not self.spans and bool(_MAYBE.search(self.pattern))

    @property
    def line_ends(self) -> list[str]:
        """The arguments by which ripgrep takes CRLF for a line end; none where the pattern asks for a carriage return."""
        asks = "\r" in self.pattern if self.literal else asks_return(self.pattern)
        return [] if asks and not self.spans else ["--crlf"]

    def for_ripgrep(self) -> list[str]:
        """Return the arguments that say it to ripgrep. ToolError bad_pattern for what no program can be given."""
        pattern = sendable(self.pattern).replace("\r\n", "\n")
        spans = self.spans
        out = ["--ignore-case"] if self.ignore_case else []
        if self.literal and spans:
            pattern = _SPECIAL.sub(r"\\\g<0>", pattern).replace("\n", _NEWLINE)
        elif self.literal:
            out.append("--fixed-strings")
        elif spans:
            pattern = any_newline(pattern)
        if not self.literal and _ALL_VERBOSE.match(pattern):
            pattern += "\n"  # else a comment at its end goes on over the bracket that ripgrep closes it with
        return [*out, *(["--multiline"] if spans else []), f"--regexp={pattern}"]


def sendable(text: str) -> str:
    """Return a pattern that can be an argument of a program. ToolError bad_pattern."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ToolError(Code.BAD_PATTERN, "the pattern is not valid Unicode") from None
    if size > MAX_PATTERN:
        raise ToolError(Code.BAD_PATTERN, f"the pattern is above {MAX_PATTERN} bytes", "search for a part of it")
    if "\0" in text:
        raise ToolError(Code.BAD_PATTERN, "the pattern holds a NUL character", r"\x00 stands for one")
    return text


def spans_lines(pattern: str) -> bool:
    """Return True if a regular expression asks for matches over several lines: by a line break, or by the flag s."""
    return bool(_SPANNING.search(pattern))


def asks_return(pattern: str) -> bool:
    """Return True if a regular expression asks for a carriage return."""
    return bool(_RETURN.search(pattern))


def any_newline(pattern: str) -> str:
    """Let each line break of a regular expression match CRLF, too; those in classes stay."""
    out: list[str] = []
    at, inside = 0, 0
    breaks = ("\\n",) if _VERBOSE.search(pattern) else ("\\n", "\n")  # others lay a verbose pattern out
    while at < len(pattern):
        piece = pattern[at : at + 2] if pattern[at] == "\\" else pattern[at]
        at += len(piece)
        if piece == "[":
            inside += 1
            # Right behind the bracket that opens a class, one that closes is a character.
            first = re.compile(r"\^?\]?").match(pattern, at)
            piece += first[0] if first else ""
            at += len(piece) - 1
        elif piece == "]":
            inside = max(0, inside - 1)
        elif not inside and piece in breaks:
            # A carriage return that was asked for is not asked for twice.
            asked = (out and out[-1] in ("\\r", "\r")) or out[-2:] == ["\\r", "?"]
            piece = "\\n" if asked else _NEWLINE
        out.append(piece)
    return "".join(out)
