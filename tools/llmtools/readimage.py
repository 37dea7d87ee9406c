"""readimage, of the llmtools profile."""

import stat
from base64 import b64encode
from typing import Any

from ...safety.errors import Code, ToolError
from ...safety.path_jail.roots import JailedPath
from ...safety.paths import EntryPath
from ..base import Access, tool
from ..blocking import run_read
from ..read._images import header
from ..results import Verbatim
from ._texts import whole_bytes
from .statpath import status_of

FORMATS = ("png", "jpeg", "gif")


@tool(Access.READ)
async def readimage(path: EntryPath, includeBase64Data: bool = False) -> Verbatim:
    """Return the format, width and height of a PNG, JPEG or GIF image, and its data where that is asked for."""
    return Verbatim(await run_read(lambda _: _image(path, includeBase64Data)))


def _image(place: JailedPath, with_data: bool) -> dict[str, Any]:
    status = place.stat()
    if status is None:
        return status_of(place)
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(Code.IS_A_DIRECTORY, f"{place.shown} is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(Code.NOT_A_FILE, f"{place.shown} is a link or no regular file")
    data = whole_bytes(place)
    image = header(data)
    if image is None or image["format"] not in FORMATS:
        raise ToolError(Code.BINARY_FILE, f"{place.shown} is not a png, jpeg or gif image")
    return {
        **status_of(place),
        "width": image["width"],
        "height": image["height"],
        "format": image["format"],
        "mimeType": f"image/{image['format']}",
        **({"base64Data": b64encode(data).decode()} if with_data else {}),
    }
