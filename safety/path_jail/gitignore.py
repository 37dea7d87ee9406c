"""What a .gitignore file says, as one regular expression a file.

pathspec's expressions also match everything below a matched folder, which is wrong for a walk that decides
entry by entry (`!keep/` would bring back what `*.log` excludes inside it), and back-track without bound on a hostile
pattern. These match one entry and hold at most one open choice for each star.
"""

import codecs
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MAX_BYTES = 65536
"""Bytes of a file that are read, up to the last whole line. Templates in use have some 10 KiB; the worst that fits
takes 0.8 s to compile."""

MAX_LENGTH = 1024
"""Characters of a pattern; a longer one is left out."""

_SPECIAL = re.compile(r"[\[*?\\]")
_SUFFIX = re.compile(r"\*\.[^][*?\\/.]+")
_TAIL = re.compile(r"[^][*?\\]+\Z")
_SHORT_CLASS = re.compile(r"\[([A-Za-z0-9]{1,8})\]")

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "cntrl": "\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


Verdict = tuple[int, bool]
"""The line of a rule, of which the last one wins, and whether it excludes."""


class Patterns:
    """Expressions of which the last one that matches counts, tried as one.

    found: for each the glob, its expression and its verdict.
    """

    def __init__(self, found: Sequence[tuple[str, str, Verdict]]) -> None:
        found = found[::-1]
        self.match = re.compile("|".join(f"({regex})" for _, regex, _ in found), re.DOTALL).fullmatch
        self.verdicts = [verdict for *_, verdict in found]
        # Most names are told apart by how the globs begin or end, which costs next to nothing.
        heads = {_head(glob) for glob, *_ in found}
        tails = {_tail(glob) for glob, *_ in found if not _head(glob)}
        self.heads, self.tails = tuple(heads - {""}), tuple(tails)

    def verdict(self, text: str, mark: str) -> Verdict | None:
        """Return the verdict of the last expression that matches a name or path, or None. mark: `/` for a folder."""
        if not (text.startswith(self.heads) or text.endswith(self.tails)):
            return None
        match = self.match(text + mark)
        return self.verdicts[match.lastindex - 1] if match and match.lastindex else None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a file as they hold in one folder.

    Most are plain and found by look-up: names by the name, suffixes by the extension, both with a `/` for what holds
    of folders only. The others are patterns for names and for paths, which begin with prefix.
    """

    names: Mapping[str, Verdict]
    suffixes: Mapping[str, Verdict]
    name_patterns: Patterns | None
    path_patterns: Patterns | None
    prefix: str

    def verdict(self, name: str, is_folder: bool) -> bool | None:
        """Return True if an entry of the folder is excluded (True), re-included (False), or not spoken of (None)."""
        if not name.isascii():
            name = _bytewise(name)
        # This runs for each entry of a walk.
        best = self.names.get(name, _SILENT)
        suffix = name[name.rfind(".") :] if self.suffixes and "." in name else ""
        if suffix and (found := self.suffixes.get(suffix)) and found > best:
            best = found
        mark = ""
        if is_folder:
            mark = "/"
            if (found := self.names.get(name + mark)) and found > best:
                best = found
            if suffix and (found := self.suffixes.get(suffix + mark)) and found > best:
                best = found
        if self.name_patterns and (found := self.name_patterns.verdict(name, mark)) and found > best:
            best = found
        if self.path_patterns and (found := self.path_patterns.verdict(self.prefix + name, mark)) and found > best:
            best = found
        return None if best is _SILENT else best[1]


class Ignore:
    """The rules of one file. paths: rules without wildcards, by the folder that they speak of and the name in it."""

    def __init__(
        self,
        names: Mapping[str, Verdict],
        paths: Mapping[str, Mapping[str, Verdict]],
        suffixes: Mapping[str, Verdict],
        name_patterns: Sequence[tuple[str, str, Verdict]],
        path_patterns: Sequence[tuple[str, str, Verdict]],
    ) -> None:
        self._names = names
        self._paths = paths
        self._suffixes = suffixes
        self._name_patterns = Patterns(name_patterns) if name_patterns else None
        self._path_patterns = path_patterns
        self._heads = [_head(glob) for glob, *_ in path_patterns]
        self._compiled: dict[tuple[int, ...], Patterns] = {}

    def within(self, folder: str) -> Rules:
        """Return the rules of a folder, given relative to the file's with `/` at its end, or as ""."""
        if not folder.isascii():
            folder = _bytewise(folder)
        names = self._names
        if here := self._paths.get(folder):
            merged = dict(names)
            for name, verdict in here.items():
                merged[name] = max(verdict, merged.get(name, _SILENT))
            names = merged
        patterns = None
        speaking = tuple(
            index for index, head in enumerate(self._heads) if folder.startswith(head) or head.startswith(folder)
        )
        if speaking:
            patterns = self._compiled.get(speaking)
            if patterns is None:
                patterns = self._compiled[speaking] = Patterns([self._path_patterns[i] for i in speaking])
        return Rules(names, self._suffixes, self._name_patterns, patterns, folder)

    def verdict(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Return True if an entry is excluded (True), re-included (False), or not spoken of (None).

        path: relative to the folder of the file, with `/`. name: its last component.
        """
        return self.within(path.removesuffix(name)).verdict(name, is_folder)


_SILENT: Verdict = (-1, False)


def _bytewise(text: str) -> str:
    return os.fsencode(text).decode("latin-1")


def compile_ignore(data: bytes) -> Ignore | None:
    """Read the lines of a .gitignore; None when they say nothing. A pattern that git cannot read is left out."""
    # git and ripgrep compare bytes: `?` is one byte of a letter that has two.
    text = data.removeprefix(codecs.BOM_UTF8).decode("latin-1")
    names: dict[str, Verdict] = {}
    paths: dict[str, dict[str, Verdict]] = {}
    suffixes: dict[str, Verdict] = {}
    name_patterns: list[tuple[str, str, Verdict]] = []
    path_patterns: list[tuple[str, str, Verdict]] = []
    for rank, line in enumerate(text.split("\n")):
        rule = _rule(line)
        if rule is None:
            continue
        pattern, exclude, folder_only = rule
        verdict = (rank, exclude)
        mark = "/" * folder_only
        anchored = "/" in pattern
        pattern = pattern.removeprefix("/")
        if anchored and "" in pattern.split("/"):
            continue  # no path holds two slashes in a row
        for simple in _spelled_out(pattern):
            if not _SPECIAL.search(simple):
                folder, _, name = simple.rpartition("/")
                where = paths.setdefault(folder + "/" * bool(folder), {}) if anchored else names
                where[name + mark] = verdict
            elif not anchored and _SUFFIX.fullmatch(simple):
                suffixes[simple[1:] + mark] = verdict
            elif (regex := _regex(simple, anchored)) is not None:
                found = (simple, regex + (mark or "/?"), verdict)
                (path_patterns if anchored else name_patterns).append(found)
    if not (names or paths or suffixes or name_patterns or path_patterns):
        return None
    return Ignore(names, paths, suffixes, name_patterns, path_patterns)


def _head(glob: str) -> str:
    """Return the literal start of every text that a glob matches."""
    return _SPECIAL.split(glob, maxsplit=1)[0]


def _tail(glob: str) -> str:
    """Return the literal end of every text that a glob matches; `**/a` also matches `a`."""
    found = _TAIL.search(glob)
    return found[0].removeprefix("/") if found else ""


def _spelled_out(pattern: str) -> list[str]:
    """Return a pattern with one short class of letters and digits as several without."""
    found = _SHORT_CLASS.search(pattern)
    if found is None or "\\" in pattern or pattern.count("[") > 1 or len(pattern) > MAX_LENGTH // 8:
        return [pattern]
    return [pattern[: found.start()] + letter + pattern[found.end() :] for letter in found[1]]


def rebased(data: bytes, folder: str) -> bytes:
    """Return the rules of a folder's .gitignore as they read in a .gitignore of a folder above.

    folder: the way there with `/` at its end; "" gives the rules themselves.
    """
    text = data.removeprefix(codecs.BOM_UTF8).decode("latin-1")
    rules = [rule for line in text.split("\n") if (rule := _rule(line))]
    # A line break cannot be written in a pattern, and one character that is not a slash is near enough.
    above = "".join("\\" + c if c in "\\*?[]{} !#" else "?" if c in "\r\n" else c for c in _bytewise(folder))
    out = []
    for pattern, exclude, folder_only in rules:
        anywhere = "/" not in pattern
        anchored = pattern if not folder and anywhere else f"/{above}{'**/' * anywhere}{pattern.removeprefix('/')}"
        out.append(f"{'' if exclude else '!'}{anchored}{'/' * folder_only}\n")
    return "".join(out).encode("latin-1")


def _rule(line: str) -> tuple[str, bool, bool] | None:
    """Take a line apart: pattern without its marks, excludes or re-includes, only folders."""
    line = line.removesuffix("\r")
    if line.startswith("#") or len(line) > MAX_LENGTH:
        return None
    stripped = line.rstrip(" ")
    if stripped != line and (len(stripped) - len(stripped.rstrip("\\"))) % 2:
        stripped += " "
    exclude = not stripped.startswith("!")
    pattern = stripped if exclude else stripped[1:]
    folder_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    return (pattern, exclude, folder_only) if pattern else None


def _regex(pattern: str, anchored: bool) -> str | None:
    """Translate a pattern to an expression for a whole relative path; one that is not anchored, for a name."""
    if not anchored:
        return _component(pattern)
    parts = pattern.split("/")
    # Runs of components between the `**`. All but the last take the first place where they fit, for good.
    runs = [""]
    for index, part in enumerate(parts):
        if part == "**":
            runs.append("")
            continue
        component = _component(part)
        if component is None:
            return None
        runs[-1] += component + ("/" if index < len(parts) - 1 else "")
    if len(runs) == 1:
        return runs[0]
    middle = "".join(f"(?>(?:[^/]+/)*?{run})" for run in runs[1:-1] if run)
    # A `**` at the end means everything below, not the folder itself.
    return f"{runs[0]}{middle}(?:[^/]+/)*?{runs[-1] or '[^/]+'}"


def _component(glob: str) -> str | None:
    """Translate one component. Each star but the last takes the first match of what follows it, for good."""
    chunks = [""]
    stars = 0
    for kind, text in _tokens(glob):
        if kind == "star":
            stars += 1
            chunks.append("")
        elif kind == "bad":
            return None
        else:
            chunks[-1] += text
    if not stars:
        return chunks[0]
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in chunks[1:-1] if chunk)
    return f"(?=[^/]){chunks[0]}{middle}[^/]*{chunks[-1]}"


def _tokens(glob: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*":
            while glob[at : at + 1] == "*":
                at += 1
            yield "star", ""
        elif char == "?":
            yield "text", "[^/]"
        elif char == "[":
            end, text = _class(glob, at)
            if end < 0:
                yield "bad", ""
                return
            at = end
            yield "text", text
        elif char == "\\":
            if at == len(glob):
                yield "bad", ""
                return
            yield "text", re.escape(glob[at])
            at += 1
        else:
            yield "text", re.escape(char)


def _class(glob: str, at: int) -> tuple[int, str]:
    """Translate a bracket expression that begins before at: where it ends (-1: nowhere), and its expression."""
    negated = glob[at : at + 1] in ("!", "^")
    at += negated
    items: list[str] = []
    first = True
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "]" and not first:
            body = "".join(items)
            if negated:
                return at, f"[^/{body}]"
            return at, f"(?!/)[{body}]" if body else "(?!)"
        first = False
        if char == "[" and glob[at : at + 1] == ":":
            end = glob.find(":]", at)
            name = glob[at + 1 : end] if end > 0 else ""
            if name not in _POSIX:
                return -1, ""
            items.append(_POSIX[name])
            at = end + 2
            continue
        if char == "\\":
            if at == len(glob):
                return -1, ""
            char = glob[at]
            at += 1
        low, high = char, char
        if glob[at : at + 1] == "-" and glob[at + 1 : at + 2] not in ("", "]"):
            at += 1
            high = glob[at]
            at += 1
            if high == "\\":
                if at == len(glob):
                    return -1, ""
                high = glob[at]
                at += 1
        # Of a range that runs backwards, git has looked at its first character already.
        items.append(re.escape(low) if low >= high else f"{re.escape(low)}-{re.escape(high)}")
    return -1, ""
