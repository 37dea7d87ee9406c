"""Output of programs in the answers of llmtools."""

from typing import Any

MAX_CHARACTERS = 100_000
"""Of a stream, from its end; several commands share them."""


def stream(name: str, text: str, is_truncated: bool, share: int = 1) -> dict[str, Any]:
    """Return a stream and whether it was cut, by their names. share: of how many commands this is one."""
    most = MAX_CHARACTERS // share
    return {name: text[-most:], f"{name}Truncated": is_truncated or len(text) > most}
