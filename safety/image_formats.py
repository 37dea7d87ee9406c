"""Which image clients can show a file is, by its first bytes."""

from typing import Literal

Format = Literal["png", "jpeg", "gif", "webp"]


def image_format(data: bytes) -> Format | None:
    """Return the format that the first bytes show, or None."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    return None
