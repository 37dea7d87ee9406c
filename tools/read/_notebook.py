"""Jupyter notebooks as text: their cells with what they printed."""

import json
from typing import Any


def cells(text: str) -> str | None:
    """Return the cells of a notebook, each under a line with its number and kind; None for what is no notebook."""
    try:
        document = json.loads(text)
        found = document["cells"]
        return "\n".join(_cell(number, cell) for number, cell in enumerate(found, 1)) or "(no cells)"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _cell(number: int, cell: dict[str, Any]) -> str:
    out = [f"--- cell {number} ({cell['cell_type']}) ---", _text(cell["source"])]
    for output in cell.get("outputs", ()):
        out += ["--- output ---", _output(output).rstrip("\n")]
    return "\n".join(out)


def _output(output: dict[str, Any]) -> str:
    if "text" in output:
        return _text(output["text"])
    if "ename" in output:
        return f"{output['ename']}: {output.get('evalue', '')}"
    data = output.get("data", {})
    if "text/plain" in data:
        images = [kind for kind in data if kind.startswith("image/")]
        return _text(data["text/plain"]) + "".join(f"\n({kind})" for kind in images)
    return ", ".join(f"({kind})" for kind in data)


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)
