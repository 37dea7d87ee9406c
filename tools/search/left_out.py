"""What an answer knows nothing of, so that it says no more than is true."""

from collections.abc import Sequence

from ...safety.path_jail.tree_walk import Walk
from ...safety.text import visible_name

NAMED = 5
"""Names that a note has at most."""

UNREADABLE = "could not be read"


def note(why: str, names: Sequence[str], *, more: bool = False) -> list[str]:
    """Return the line that names what was left out and says why; none where nothing was. more: beside those that are given."""
    if not names:
        return []
    shown = ", ".join(map(visible_name, names[:NAMED]))
    rest = len(names) - NAMED
    others = f" and {rest}{'+' if more else ''} more" if rest > 0 else " and more" if more else ""
    return [f"... ({why}: {shown}{others})"]


def notes(walk: Walk) -> list[str]:
    """Return the lines that say what a finished walk did not see: where it stopped early, and folders that could not be read."""
    return [*([f"... (stopped after {walk.cut})"] if walk.cut else []), *note(UNREADABLE, walk.unreadable)]
