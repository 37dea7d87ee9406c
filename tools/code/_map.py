"""What a repository is, in the tokens there are: its files by how much others refer to what they define."""

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

from mcp_types import TextContent

from ..results import Answer, Budget, at_most
from ._definitions import Definition, definitions, wanted
from ._tree import Tree

MAX_ROWS = 12
"""Definitions of one file that the map shows, those that are referred to most; a guess at what tells what a file is for."""
MAX_FILES = 400
"""Files whose rows are made; more fit no budget."""
_COMMON = 20
"""Files that define a name beyond which the name says nothing, such as `main` or `to_s`; a guess."""
_PLAIN = 0.2
"""What a mention of a name is worth that is one lower-case word, and so may be any variable; a guess."""
_TEST = 0.1
"""What a file of tests is worth beside one of the product, which tells more of what a code base is; a guess."""
_OF_TESTS = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__|testing|fixtures)/|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*(?:_test|_spec|\.test|\.spec)\.\w+)$"
)
_INNER = 0.3
"""What a mention of a name inside of a class is worth beside one of the class; a guess."""


@dataclass(frozen=True)
class RankedMap:
    """Sections, one a file, the most important first; as many as fit the budget are shown."""

    sections: tuple[str, ...]
    total: int
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return an upper bound of the bytes of all sections."""
        return sum(map(at_most, self.sections))

    def fit(self, budget: Budget) -> Answer:
        """Return as many whole sections as fit."""
        low, high = 1, len(self.sections)
        while low < high:
            middle = (low + high + 1) // 2
            if budget.fit(self._text(middle)).truncated is None:
                low = middle
            else:
                high = middle - 1
        cut = budget.fit(self._text(low), "query finds a name, path narrows")
        meta = {"truncated": cut.truncated} if cut.truncated else {}
        return Answer([TextContent(type="text", text=cut.text)], meta=meta, tokens=cut.tokens)

    def _text(self, count: int) -> str:
        rest = self.total - count
        more = [f"... ({rest} more files; path narrows, query finds a name)"] if rest > 0 else []
        return "\n".join([*self.sections[:count], *more, *self.notes])


def ranked(tree: Tree, kind: str | None, stop: Callable[[], bool]) -> RankedMap | None:
    """Return the map of a tree; None where nothing in it is defined."""
    weights = _weights(tree, stop)
    scores: dict[int, float] = defaultdict(float)
    for (number, _), worth in weights.items():
        scores[number] += worth * (_TEST if _OF_TESTS.search(tree.files[number][0].path) else 1)
    sections: list[str] = []
    rest = 0
    for number in sorted(range(len(tree.files)), key=lambda number: (-scores[number], number)):
        if stop():
            return None
        source, outline = tree.files[number]
        if len(sections) >= MAX_FILES:
            rest += bool(outline[0])
        elif found := wanted(definitions(outline[0]), None, kind):
            worths = [weights.get((number, _checksum(each.name)), 0.0) for each in found]
            sections.append("\n".join([tree.shown(source), *_most_important(found, worths)]))
    return RankedMap(tuple(sections), len(sections) + rest, tree.notes) if sections else None


def _weights(tree: Tree, stop: Callable[[], bool]) -> dict[tuple[int, int], float]:
    """Return the weights of definitions, by the number of the file and the checksum of the name.

    A name that another file mentions counts one, and a tenth for each mention up to ten, divided by the files that define it. A
    name that is one lower-case word counts less. A name inside of another definition counts less, too, and only where the file that mentions it also mentions a name at the top of
    the same file: every file has a `get`.
    """
    tops: dict[int, set[int]] = {}
    plain: set[int] = set()
    definers: dict[int, set[int]] = {}
    for number, (_, outline) in enumerate(tree.files):
        for row in outline[0].split("\n") if outline[0] else ():
            _, _, level, _, defined = row.split("\t", 4)
            name_sum = _checksum(defined)
            definers.setdefault(name_sum, set()).add(number)
            if (word := _last_part(defined)).islower() and word.isalpha():
                plain.add(name_sum)
            if level == "0":
                tops.setdefault(name_sum, set()).add(number)
    weights: dict[tuple[int, int], float] = {}
    for number, (_, (_, _, names, counts)) in enumerate(tree.files):
        if stop():
            break
        # A name that the file defines itself is most likely its own.
        mentioned = [
            (name, (1 + min(count, 10) / 10) / len(files) * (_PLAIN if name in plain else 1))
            for name, count in zip(array("I", names), counts, strict=True)
            if (files := definers.get(name)) and len(files) <= _COMMON and number not in files
        ]
        known: set[int] = set()
        for name, worth in mentioned:
            for file in tops.get(name, ()):
                known.add(file)
                weights[file, name] = weights.get((file, name), 0.0) + worth
        for name, worth in mentioned:
            for file in (definers[name] - tops.get(name, set())) & known:
                weights[file, name] = weights.get((file, name), 0.0) + _INNER * worth
    return weights


def _checksum(name: str) -> int:
    return crc32(_last_part(name).encode())


def _last_part(name: str) -> str:
    """Return the part of a name that others mention: `m` of `self.m`, `B` of `A::B`, `save` of `save!`."""
    return name.rpartition(".")[2].rpartition("::")[2].rstrip("?!=")


def _most_important(found: Sequence[Definition], worths: Sequence[float]) -> list[str]:
    """Return the rows of the definitions that are worth most and of what these are in, in source order."""
    if len(found) <= MAX_ROWS:
        return [each.shown() for each in found]
    order = sorted(range(len(found)), key=lambda at: (-worths[at], found[at].level, at))
    kept: set[int] = set()
    for at in order:
        if len(kept) >= MAX_ROWS:
            break
        kept.add(at)
        level = found[at].level
        for above in range(at - 1, -1, -1):
            if level == 0:
                break
            if found[above].level < level:
                kept.add(above)
                level = found[above].level
    if len(kept) == len(found) - 1:
        kept = set(range(len(found)))
    left = len(found) - len(kept)
    return [found[at].shown() for at in sorted(kept)] + ([f"... ({left} more)"] if left else [])
