"""Glob patterns over relative paths: `**` crosses folders, `*` and `?` do not, `[...]` and `{a,b}`.

Translated to regular expressions that hold at most one open choice for each star, so that no pattern can run away:
each star but the last, and each `**` but the last, takes the first place where what follows it fits, for good.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from ...safety.errors import Code, ToolError

MAX_CHARACTERS = 1000
MAX_ALTERNATIVES = 256
"""Alternatives that the braces of one pattern may stand for."""
MAX_EXPANDED = 20_000
"""Characters of all alternatives together, which take some 50 ms to compile."""

_TEXTS = 8
"""Alternatives up to which looking for a text of each is quicker than matching; a guess."""

DEEP = "**"
_VISIBLE = r"(?!\.)[^/]+"
_ANY = r"[^/]+"
_EVERYWHERE, _EVERYWHERE_VISIBLE = f"(?:{_ANY}/)*", f"(?:{_VISIBLE}/)*"


def compiled(pattern: str, *, hidden: bool = False) -> "Glob":
    """Return the matcher of a glob. A leading dot of a component has to be spelled out, unless hidden.

    ToolError bad_pattern for what is no glob.
    """
    if not pattern or len(pattern) > MAX_CHARACTERS:
        raise ToolError(Code.BAD_PATTERN, f"the glob is empty or above {MAX_CHARACTERS} characters")
    alternatives = [simple.split("/") for simple in expanded(pattern)]
    if sum(map(len, expanded(pattern))) > MAX_EXPANDED:
        raise ToolError(Code.BAD_PATTERN, f"the braces of the glob stand for more than {MAX_EXPANDED} characters")
    return Glob(alternatives, hidden)


class Glob:
    """Alternatives, each a list of components.

    match tells whether a relative path is meant, by something true or None.
    """

    def __init__(self, alternatives: Sequence[Sequence[str]], hidden: bool) -> None:
        name = _ANY if hidden else _VISIBLE
        self.match = _compiled({_path(parts, name, hidden) for parts in alternatives})
        self._name = _compiled({name if parts[-1] == DEEP else _component(parts[-1], hidden) for parts in alternatives})
        self._held = _held([parts[-1] for parts in alternatives])
        self._folder = _folder(alternatives, name, hidden)
        ways = {_way(parts, name, hidden) for parts in alternatives}
        self._enters = None if ways == {_EVERYWHERE_VISIBLE} else _compiled(ways)

    def meant(self, folder: str, names: Sequence[str]) -> Collection[str]:
        """Return the included names of a folder. folder: a relative path, or ""."""
        # This runs for each folder of a walk.
        prefix = folder + "/" if folder else ""
        if self._folder and not self._folder(prefix):
            return ()
        if self._held:
            # Looking for a text in many names at once takes a tenth of the time of matching each.
            row = "/".join(names)
            for text in self._held:
                if text in row:
                    break
            else:
                return ()
            names = [name for text in self._held for name in names if text in name]
        else:
            names = [name for name in names if self._name(name)]
        if not names:
            return ()
        return {name for name in names if self.match(prefix + name)}

    def enters(self, folder: str) -> bool:
        """Return True if a path below a folder can be meant, so that it is worth reading; more folders than need be."""
        if self._enters is None:
            return folder[:1] != "." and "/." not in folder
        return self._enters(folder + "/") is not None


def _compiled(regexes: set[str]) -> Callable[[str], re.Match[str] | None]:
    return re.compile("|".join(sorted(regexes)), re.DOTALL).fullmatch


def _path(parts: Sequence[str], name: str, hidden: bool) -> str:
    """Return the expression for a whole path."""
    runs = [""]
    for index, part in enumerate(parts):
        if part == DEEP:
            runs.append("")
        else:
            runs[-1] += _component(part, hidden) + ("/" if index < len(parts) - 1 else "")
    if len(runs) == 1:
        return runs[0]
    middle = "".join(f"(?>(?:{name}/)*?{run})" for run in runs[1:-1] if run)
    # A `**` at the end means everything below, and not the folder itself.
    return f"{runs[0]}{middle}(?:{name}/)*?{runs[-1] or name}"


def _folder(
    alternatives: Iterable[Sequence[str]], name: str, hidden: bool
) -> Callable[[str], re.Match[str] | None] | None:
    """Return a test for files right in a folder, with `/` at its end; None where most are included."""
    if any(parts[-1] == DEEP for parts in alternatives) or all({*parts[:-1]} == {DEEP} for parts in alternatives):
        return None
    # A component matches no `/`, so what stands before the last one matches the folder.
    return _compiled({_path(parts, name, hidden).removesuffix(_component(parts[-1], hidden)) for parts in alternatives})


def _way(parts: Sequence[str], name: str, hidden: bool) -> str:
    """Return the expression for a folder, with `/` at its end, that a path may lead through."""
    first = parts.index(DEEP) if DEEP in parts else len(parts) - 1
    out = ""
    if DEEP in parts:
        # Below, a hidden folder may be meant by a component that spells out its dot.
        dotted = any(part.startswith((".", "\\.")) for part in parts[first:])
        out = _EVERYWHERE if dotted or name == _ANY else _EVERYWHERE_VISIBLE
    for part in reversed(parts[:first]):
        out = f"{_component(part, hidden)}/(?:{out})?" if out else f"{_component(part, hidden)}/"
    return out or "(?!)"


def expanded(pattern: str) -> list[str]:
    """Return the patterns that braces stand for, such as a.{b,c} for a.b and a.c."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        if len(done) + len(todo) > MAX_ALTERNATIVES:
            raise ToolError(Code.BAD_PATTERN, f"the braces of the glob stand for more than {MAX_ALTERNATIVES} patterns")
        one = todo.pop()
        span = _braces(one)
        if span is None:
            done.append(one)
            continue
        start, parts, end = span
        todo += [one[:start] + part + one[end:] for part in reversed(parts)]
    return done


def _braces(pattern: str) -> tuple[int, list[str], int] | None:
    """Return the first outermost braces: where they start, their alternatives, where they end."""
    parts: list[str] = []
    depth, start, since = 0, -1, 0
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == "\\":
            at += 1
        elif c == "[":
            at = _class_end(pattern, at)
        elif c == "{":
            depth += 1
            if depth == 1:
                start, parts, since = at, [], at + 1
        elif c == "}" and depth:
            depth -= 1
            if depth == 0:
                return start, [*parts, pattern[since:at]], at + 1
        elif c == "," and depth == 1:
            parts.append(pattern[since:at])
            since = at + 1
        at += 1
    if depth:
        raise ToolError(Code.BAD_PATTERN, f"{pattern} has a brace that is not closed")
    return None


def _class_end(pattern: str, at: int) -> int:
    """Return the end of the character class that begins at `[`."""
    end = at + 1
    if pattern[end : end + 1] in ("!", "^"):
        end += 1
    if pattern[end : end + 1] == "]":
        end += 1
    while end < len(pattern) and pattern[end] != "]":
        end += 2 if pattern[end] == "\\" else 1
    if end >= len(pattern):
        raise ToolError(Code.BAD_PATTERN, f"{pattern} has a [ that is not closed")
    return end


def _component(part: str, hidden: bool) -> str:
    """Return the expression for one name. Each star but the last takes the first match of what follows, for good."""
    chunks = [""]
    at = 0
    while at < len(part):
        c = part[at]
        if c == "*":
            while part[at + 1 : at + 2] == "*":
                at += 1
            chunks.append("")
        elif c == "?":
            chunks[-1] += "[^/]"
        elif c == "[":
            end = _class_end(part, at)
            chunks[-1] += _class(part[at + 1 : end])
            at = end
        else:
            if c == "\\" and at + 1 < len(part):
                at += 1
            chunks[-1] += re.escape(part[at])
        at += 1
    if part == "":
        return "(?!)"
    dot = "" if hidden or chunks[0].startswith(r"\.") else r"(?!\.)"
    if len(chunks) == 1:
        return dot + chunks[0]
    middle = "".join(f"(?>[^/]*?{chunk})" for chunk in chunks[1:-1] if chunk)
    return f"{dot}(?=[^/]){chunks[0]}{middle}[^/]*{chunks[-1]}"


def _class(body: str) -> str:
    """Return the expression for the characters of a class; a range that runs backwards holds none."""
    negated = body[:1] in ("!", "^")
    body = body[1:] if negated else body
    items: list[str] = []
    at = 0
    while at < len(body):
        if body[at] == "\\" and at + 1 < len(body):
            at += 1
        low = body[at]
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            at += 3 if body[at + 2] != "\\" or at + 3 >= len(body) else 4
            high = body[at - 1]
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            items.append(re.escape(low))
            at += 1
    if negated:
        return f"[^/{''.join(items)}]"
    return f"(?!/)[{''.join(items)}]" if items else "(?!)"


def _held(names: Iterable[str]) -> tuple[str, ...]:
    """Return texts of which a name that is meant holds one; none where nothing that simple can be said."""
    if any("[" in name or "\\" in name for name in names):
        return ()
    texts = {max(re.split(r"[*?]", name), key=len) for name in names}
    return tuple(texts) if all(texts) and len(texts) <= _TEXTS else ()
