"""Matching lines with the backtracking engine. Runs in the worker, so it imports little."""

import re
from collections.abc import Iterator
from typing import Any

from ...safety.errors import Code, ToolError
from ...safety.text import HEAD, decode, is_binary
from .matches import shortened
from .query import asks_return

File = tuple[str, bytes]
_SETS = re.compile(r"\[[^]]*(?:&&|--|~~)")
_ESCAPE = re.compile(r"\\.", re.DOTALL)

Match = tuple[str, int, str, bool, bool]
"""path, line, text as it is shown, whether it matches, whether a match begins there."""


def matches_in(
    pattern: str,
    spans: bool,
    ignore_case: bool,
    attempt: float,
    files: list[File],
    limit: int,
    output: str,
    before: int,
    after: int,
) -> list[Match]:
    """Search some files; attempt is the time of one match attempt in seconds. Runs in the worker.

    spans: a match may lie over several lines. output: for `lines`, limit counts matching lines, else files, of which all matches come, and for `files` one.
    """
    import regex

    try:
        flags = (regex.IGNORECASE if ignore_case else 0) | regex.MULTILINE
        if _SETS.search(pattern):
            flags |= regex.VERSION1  # else these are characters of a class
        compiled = regex.compile(_ESCAPE.sub(_edge, pattern), flags)
    except (regex.error, RecursionError, OverflowError, ValueError) as e:
        raise ToolError(
            Code.BAD_PATTERN,
            f"{pattern[:200]} is not a regular expression: {e}"[:500],
            'match="literal" takes it as it is',
        ) from None
    search = _spanning if spans else _by_line
    out: list[Match] = []
    left = limit
    for path, data in files:
        if is_binary(data[:HEAD]):
            continue
        decoded = decode(data)
        text = decoded.text if asks_return(pattern) else decoded.lf
        lines = text.removesuffix("\n").split("\n") if text else []
        most = {"lines": left, "files": 1}.get(output, len(lines) + 1)
        hits: dict[int, int] = {}
        try:
            for number, column in search(compiled, text, lines, attempt):
                hits[number] = column
                if len(hits) >= most:
                    break
        except TimeoutError:
            raise runaway(pattern, attempt) from None
        left -= len(hits) if output == "lines" else bool(hits)
        out += _with_context(path, lines, hits, before, after)
        if left <= 0:
            break
    return out


def _edge(escape: re.Match[str]) -> str:
    """Return the engine's form of an escape; it does not know those of the other engine for the edges of words."""
    return {r"\<": r"\b(?=\w)", r"\>": r"\b(?<=\w)"}.get(escape[0], escape[0])


def _by_line(compiled: Any, text: str, lines: list[str], attempt: float) -> Iterator[tuple[int, int]]:
    for number, line in enumerate(lines):
        found = compiled.search(line, timeout=attempt)
        if found:
            yield number, found.start()


def _spanning(compiled: Any, text: str, lines: list[str], attempt: float) -> Iterator[tuple[int, int]]:
    """Yield each line that a match touches, and where in it the match begins; -1 where it began before.

    A line in which a match ends and another begins comes twice.
    """
    line, at, reported, begun = 0, 0, -1, -1
    for found in _matches(compiled, text, attempt):
        line += text.count("\n", at, found.start())
        at = found.start()
        if begun < line < len(lines):
            yield line, at - (text.rfind("\n", 0, at) + 1)
            begun = line
            reported = max(reported, line)
        for number in range(line + 1, line + found[0].removesuffix("\n").count("\n") + 1):
            if reported < number < len(lines):
                yield number, -1
                reported = number


def _matches(compiled: Any, text: str, attempt: float) -> Iterator[Any]:
    # finditer() would take its time-out for all of them together.
    at = 0
    while at <= len(text) and (found := compiled.search(text, at, timeout=attempt)):
        yield found
        at = found.end() + (found.start() == found.end())


def _with_context(path: str, lines: list[str], columns: dict[int, int], before: int, after: int) -> list[Match]:
    wanted = sorted({n for hit in columns for n in range(max(0, hit - before), min(len(lines), hit + after + 1))})
    return [
        (path, n + 1, shortened(lines[n], max(0, columns.get(n, 0))), n in columns, columns.get(n, -1) >= 0)
        for n in wanted
    ]


def runaway(pattern: str, attempt: float) -> ToolError:
    """Return the refusal of a pattern that did not finish one match attempt in time."""
    return ToolError(
        Code.REGEX_TIMEOUT,
        f"{pattern[:200]} did not finish one match attempt within {attempt:g}s",
        "avoid nested repeats; without look-around and back-references no pattern can run away",
    )
