"""docs/architecture.md shows the folders that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def shown() -> set[str]:
    """Return the folders of the last drawing: a name at the margin is at the top, an indented one lies in it."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    drawing = re.findall(r"(?ms)^```\n(.*?)^```", page)[-1]
    found, top = set(), ""
    for line in drawing.splitlines():
        names = re.findall(r"(?<![\w./])[a-z_]+/(?![a-z])", line)
        if not line.startswith(" "):
            top = names[0]
            found.add(top)
            names = names[1:]
            found.update(top + name for name in names)
            continue
        first = re.match(r" +([a-z_]+/)", line)
        inner = [name for name in names if first and (name == first[1] or line.startswith("  read/"))]
        found.update(top + name for name in inner)
        found.update(top + (first[1] if first else "") + name for name in names if name not in inner)
    return {name.rstrip("/") for name in found}


def test_every_folder_is_in_the_drawing_and_every_one_drawn_is_there():
    packages = {
        str(file.parent.relative_to(ROOT))
        for layer in ("safety", "sandbox", "tools", "server")
        for file in (ROOT / layer).rglob("__init__.py")
    }
    drawn = shown()
    assert packages - drawn <= {"tools/code/queries"}
    assert [name for name in drawn if not (ROOT / name).is_dir()] == []


def test_no_folder_is_a_heap():
    heaps = {}
    for layer in ("safety", "sandbox", "tools", "server"):
        for file in (ROOT / layer).rglob("__init__.py"):
            count = len(list(file.parent.glob("*.py"))) - 1
            if count > 20:
                heaps[str(file.parent.relative_to(ROOT))] = count
    assert heaps == {}
