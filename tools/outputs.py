"""Outputs of programs that did not fit into an answer, kept for their session so that it can read on."""

from collections import OrderedDict
from threading import Lock

from ..safety.errors import Code, ToolError
from .results import Budget, MoreHint

MAX_OUTPUTS = 20
MAX_BYTES = 64 * 2**20
"""Outputs, and characters of all of them, that are kept for a session (TOOLS.md §2)."""

PREFIX = "out_"


class Outputs:
    """The latest cut outputs of one session, by id. May be used from several threads."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._count = 0
        self._size = 0
        self._lock = Lock()

    def keep(self, text: str) -> str:
        """Keep a text and return its id. The oldest go when there are too many."""
        with self._lock:
            self._count += 1
            name = f"{PREFIX}{self._count}"
            self._texts[name] = text
            self._size += len(text)
            while len(self._texts) > MAX_OUTPUTS or self._size > MAX_BYTES:
                _, gone = self._texts.popitem(last=False)
                self._size -= len(gone)
            return name

    def get(self, name: str) -> str:
        """Return a text by its id. ToolError output_expired where it has gone, unknown_process where it never was."""
        with self._lock:
            if name in self._texts:
                return self._texts[name]
            known = name.removeprefix(PREFIX)
            if known.isdecimal() and 0 < int(known[:9]) <= self._count:
                raise ToolError(
                    Code.OUTPUT_EXPIRED,
                    f"{name[:100]} is no longer kept",
                    f"the latest {MAX_OUTPUTS} are; run it again",
                )
        raise ToolError(Code.UNKNOWN_PROCESS, f"there is no output {name[:100]}", "the marker of a cut names it")


def read_on(budget: Budget, text: str, otherwise: MoreHint = None) -> MoreHint:
    """Return the hint by which a cut text can be read on; otherwise where nothing is kept.

    The text is kept when the hint is first asked for, which is when it is cut.
    """
    keep = budget.keep
    if keep is None:
        return otherwise
    kept: list[str] = []

    def words(head: str) -> str:
        if not kept:
            kept.append(keep(text))
        return more(kept[0], head.count("\n") + 1)

    return words


def more(name: str, line: int) -> str:
    """Return the call that shows an output from a line on."""
    return f'process_output id="{name}" from_line={line}'
