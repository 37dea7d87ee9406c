"""Images: what their first bytes say, and making them small enough for a client.

header only looks at bytes. scaled decodes, so it belongs into the worker.
"""

import struct
from io import BytesIO
from typing import TYPE_CHECKING, TypedDict

from ...safety.errors import Code, ToolError
from ...safety.image_formats import Format, image_format

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 50_000_000
"""Pixels of an image that is decoded: 200 MB at four bytes each, which fits the worker."""

MAX_EDGE = 1568
"""Pixels of the longer edge; larger images are scaled down by the models that look at them."""

MAX_BYTES = 5 * 2**20 * 3 // 4
"""What base64 makes 5 MiB of, the most that APIs take for an image."""

_LEAST_EDGE = 64

# Start-of-frame markers of JPEG; C4, C8 and CC between them mean something else.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})


class Header(TypedDict):
    """Format and size in pixels as a file's header declares them."""

    format: Format
    width: int
    height: int


def header(data: bytes) -> Header | None:
    """Return the size in the header; None for other files and where it is cut off or senseless.

    The start of a file is enough, except for JPEG files with long metadata.
    """
    readers = {"png": _png_size, "jpeg": _jpeg_size, "gif": _gif_size, "webp": _webp_size}
    name = image_format(data)
    if name is None:
        return None
    try:
        size = readers[name](data)
    except (struct.error, IndexError):
        return None
    if not size or not all(size):
        return None
    return Header(format=name, width=size[0], height=size[1])


def is_readable(data: bytes) -> bool:
    """Return True for an image that can be decoded; without Pillow its header has to do."""
    declared = header(data)
    if declared is None or declared["width"] * declared["height"] > MAX_PIXELS:
        return False
    try:
        from PIL import Image
    except ImportError:
        return True
    try:
        with Image.open(BytesIO(data), formats=[declared["format"].upper()]) as picture:
            picture.load()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - on damaged files Pillow's decoders raise many kinds
        return False
    return True


def scaled(data: bytes, max_edge: int = MAX_EDGE, max_bytes: int = MAX_BYTES) -> tuple[bytes, str]:
    """Return an image with its MIME type, scaled down where an edge or the file is too long.

    The format stays, of an animation that has to be scaled the first picture. max_edge in
    pixels. Raises ToolError: binary_file for what is no readable image, too_large above
    MAX_PIXELS or where it does not get below max_bytes, unavailable without Pillow.
    """
    declared = header(data)
    if declared is None:
        raise ToolError(Code.BINARY_FILE, "the file is not a readable png, jpeg, gif or webp image")
    _bounded(declared["width"], declared["height"])
    mime = f"image/{declared['format']}"
    if max(declared["width"], declared["height"]) <= max_edge and len(data) <= max_bytes:
        return data, mime
    try:
        import PIL.Image
    except ImportError:
        raise ToolError(Code.UNAVAILABLE, "no image library is installed", "install pillow") from None
    try:
        return _smaller(data, declared["format"], max_edge, max_bytes), mime
    except (MemoryError, ToolError):
        raise
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning):
        raise _too_many_pixels("more than it declares") from None
    except Exception as e:
        # On damaged files Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error and more.
        raise ToolError(Code.BINARY_FILE, "the image is damaged and cannot be decoded") from e


def _smaller(data: bytes, name: Format, max_edge: int, max_bytes: int) -> bytes:
    from PIL import Image, ImageOps

    with Image.open(BytesIO(data), formats=[name.upper()]) as picture:
        # A GIF's first picture may be larger than the header says.
        _bounded(*picture.size)
        picture.draft(None, (max_edge, max_edge))
        plain = _plain(picture)
        # Turned after it is small: turning copies, and a photo may fill half the worker's memory.
        plain.thumbnail((max_edge, max_edge))
        plain = ImageOps.exif_transpose(plain)
    edge = max_edge
    while edge >= min(_LEAST_EDGE, max_edge):
        plain.thumbnail((edge, edge))
        out = BytesIO()
        plain.save(out, name.upper(), quality=85)
        if out.tell() <= max_bytes:
            return out.getvalue()
        edge = edge * 3 // 4
    raise ToolError(Code.TOO_LARGE, f"the image does not get below {max_bytes} bytes")


def _plain(picture: "Image") -> "Image":
    """Return the picture in a mode that can be resampled and saved: palettes and 16 bits cannot."""
    if picture.mode in ("L", "LA", "RGB", "RGBA", "CMYK"):
        picture.load()
        return picture
    if picture.mode.startswith("I"):
        return picture.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    return picture.convert("RGBA" if picture.has_transparency_data else "RGB")


def _bounded(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise _too_many_pixels(f"{width} x {height}")


def _too_many_pixels(size: str) -> ToolError:
    return ToolError(Code.TOO_LARGE, f"the image has {size} pixels, above the {MAX_PIXELS} that are decoded")


def _png_size(data: bytes) -> tuple[int, int] | None:
    if data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif_size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _BARE:
            at += 2
        elif marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            if length < 2:
                return None
            at += 2 + length


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", data, 24)
            return (high_width << 16 | low_width) + 1, (high_height << 16 | low_height) + 1
        case b"VP8L":
            sign, bits = struct.unpack_from("<BI", data, 20)
            return ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1) if sign == 0x2F else None
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return (width & 0x3FFF, height & 0x3FFF) if data[23:26] == b"\x9d\x01\x2a" else None
        case _:
            return None
