"""mimeforextension, of the llmtools profile."""

from ..base import Access, tool
from ..read.file_info import FileInfo, file_info
from ..results import Verbatim


@tool(Access.READ)
async def mimeforextension(extension: str) -> Verbatim:
    """Return the MIME type of an extension such as png or .png; application/octet-stream for an unknown one."""
    info = await file_info.run(extension=extension)
    assert isinstance(info, FileInfo)
    return Verbatim(
        {
            "extension": extension,
            "normalizedExtension": info.normalized_extension,
            "mimeType": info.mime,
            "baseMIMEType": info.base_mime,
            "mode": info.content_mode,
            "known": info.known,
        }
    )
