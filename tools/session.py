"""What one client session owns: its task list, what it has seen of files, and what it did to them."""

from collections import OrderedDict
from dataclasses import dataclass, field
from types import MappingProxyType

from .outputs import Outputs
from .undo.journal import History

MARKS = MappingProxyType({"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"})
"""What stands before a task of each status."""
SEEN_FILES = 10_000
"""Files whose last reading is remembered for each session; the oldest is forgotten first."""


@dataclass
class TodoList:
    """The tasks of a session, in order: (content, status)."""

    items: tuple[tuple[str, str], ...] = ()

    def rendered(self) -> str:
        """Return a line for each task."""
        return "\n".join(f"{MARKS[status]} {content}" for content, status in self.items)


@dataclass
class SeenFiles:
    """The etag that each file had when this session last read or wrote it whole.

    Keys are absolute paths as the server resolved them.
    """

    _etags: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def record(self, path: str, etag: str) -> None:
        """Remember the state of a file."""
        self._etags[path] = etag
        self._etags.move_to_end(path)
        while len(self._etags) > SEEN_FILES:
            self._etags.popitem(last=False)

    def etag(self, path: str) -> str | None:
        """Return the state that was last seen, or None."""
        return self._etags.get(path)

    def changed(self, path: str, before: str, after: str) -> None:
        """Note that this session changed a part of a file, unless it holds what the session has never seen."""
        if self._etags.get(path, before) == before:
            self.record(path, after)

    def moved(self, old: str, new: str) -> None:
        """Note that a file or folder has another path; what was there is gone."""
        known = self._below(old)
        self.forget(new)
        for path, etag in known.items():
            del self._etags[path]
            self.record(new + path[len(old) :], etag)

    def forget(self, path: str) -> None:
        """Forget a file that went away, or a folder and all below it."""
        for gone in self._below(path):
            del self._etags[gone]

    def _below(self, path: str) -> dict[str, str]:
        return {known: etag for known, etag in self._etags.items() if known == path or known.startswith(path + "/")}


@dataclass
class Session:
    """State of one owner (TOOLS.md §7)."""

    todos: TodoList = field(default_factory=TodoList)
    seen: SeenFiles = field(default_factory=SeenFiles)
    history: History = field(default_factory=History)
    outputs: Outputs = field(default_factory=Outputs)
