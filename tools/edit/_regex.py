"""Replacing every match of a regular expression, in a process that can be killed. Also literal text in any case."""

import re
from collections.abc import Iterator
from typing import Any

from ...safety.errors import Code, ToolError
from ...safety.text import decode, encode_like
from ._replace import NormalizedText, Span, written

Template = list[tuple[str, str]]
"""A replacement in pieces: ("text", what comes as it is) or ("group", number or name)."""

_CRLF = re.compile(r"(?<!\\)((?:\\\\)*)\\r\\n")
r"""\r\n in a pattern."""
_PIECE = re.compile(r"\\(?:(?P<number>[1-9])|g<(?P<name>\w+)>|(?P<escape>\\)|(?P<other>[0-9A-Za-z]))")


def parsed(replacement: str) -> Template:
    r"""Return a regex replacement in pieces: \1 to \9, \g<name>, \g<0> for the whole match, \\ for a backslash.

    A backslash before anything but a letter or digit stands for itself. ToolError bad_pattern.
    """
    out: Template = []
    at = 0
    replacement = replacement.replace("\r\n", "\n")
    for found in _PIECE.finditer(replacement):
        out.append(("text", replacement[at : found.start()]))
        at = found.end()
        if found["other"]:
            raise ToolError(
                Code.BAD_PATTERN,
                f"the replacement has {found[0]}, which stands for nothing",
                r"\1 to \9 and \g<name> stand for groups, \\ for a backslash; line breaks and tabs come as they are",
            )
        out.append(("text", "\\") if found["escape"] else ("group", found["number"] or found["name"]))
    out.append(("text", replacement[at:]))
    return [piece for piece in out if piece != ("text", "")]


def substituted(
    pattern: str, literal: bool, ignore_case: bool, template: Template, attempt: float, files: list[bytes]
) -> list[tuple[int, bytes | None]]:
    """Return, for each file, how many replacements there are and its bytes after them; None where they stay.

    attempt: seconds for one match attempt. A count of -1: the file is not such that it could be written back. Runs in
    the worker. ToolError bad_pattern, regex_timeout, too_large.
    """
    import regex

    # Texts are matched with LF as their only line end.
    pattern = pattern.replace("\r\n", "\n")
    try:
        flags = regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0)
        compiled = regex.compile(regex.escape(pattern) if literal else _CRLF.sub(r"\1\\n", pattern), flags)
    except (regex.error, RecursionError, OverflowError) as e:
        raise _bad(pattern, f"is not a regular expression: {e}", "regex=false takes it as it is") from None
    if compiled.flags & regex.REVERSE:
        raise _bad(pattern, "matches backwards, which replacing does not", None)
    for kind, value in template:
        group = _group(value)
        known = group in compiled.groupindex if isinstance(group, str) else group <= compiled.groups
        if kind == "group" and not known:
            raise _bad(pattern, f"has no group {value}, which the replacement names", None)
    # A match behind the last line end is no line's, and only who asks for the end of the text means it.
    at_end = r"\z" in pattern.lower()
    try:
        return [_one(data, compiled, template, attempt, at_end) for data in files]
    except TimeoutError:
        raise runaway(pattern, attempt) from None


def runaway(pattern: str, attempt: float) -> ToolError:
    """Return the refusal of a pattern that took longer than attempt seconds."""
    return ToolError(
        Code.REGEX_TIMEOUT,
        f"{pattern[:200]} did not finish one match attempt within {attempt:g}s",
        "avoid nested repeats",
    )


def _one(data: bytes, compiled: Any, template: Template, attempt: float, at_end: bool) -> tuple[int, bytes | None]:
    try:
        text = decode(data, exact=True)
    except ToolError:
        return -1, None
    matching = NormalizedText(text.text)
    lf = matching.lf
    if not lf:
        return 0, None
    plain = [written(value, text.line_end) if kind == "text" else None for kind, value in template]
    groups = [_group(value) for _, value in template]
    count = 0

    def spans() -> Iterator[Span]:
        nonlocal count
        at = 0
        while at <= len(lf) and (found := compiled.search(lf, at, timeout=attempt)):
            start, end = found.span()
            if at_end or end > start or start < len(lf) or not lf.endswith("\n"):
                count += 1
                pieces = (
                    matching.cut(*found.span(group)) if value is None else value
                    for value, group in zip(plain, groups, strict=True)
                )
                inserted = "".join(pieces)
                # What comes back the same keeps its line ends, also where those of the file are mixed.
                same = inserted.replace("\r\n", "\n") == found[0]
                yield start, end, matching.cut(start, end) if same else inserted
            at = end + 1 if end == start else end

    changed = matching.spliced(spans())
    if count == 0:
        return 0, None
    if text.lossy and not all(value.isascii() for value in plain if value):
        return -1, None
    done = encode_like(changed, text)
    return count, None if done == data else done


def _group(value: str) -> int | str:
    return int(value) if value.isascii() and value.isdigit() else value


def _bad(pattern: str, why: str, hint: str | None) -> ToolError:
    return ToolError(Code.BAD_PATTERN, f"{pattern[:200]} {why}"[:500], hint)
