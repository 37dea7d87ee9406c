"""mimeforpath, of the llmtools profile."""

from ...safety.errors import Code, ToolError
from ...safety.paths import ProjectPath
from ..base import Access, tool
from ..read.file_info import FileInfo, file_info
from ..results import Verbatim


@tool(Access.READ)
async def mimeforpath(path: ProjectPath) -> Verbatim:
    """Return the MIME type of a file, by its extension or else by its first bytes."""
    info = await file_info.run(path=path)
    assert isinstance(info, FileInfo)
    if info.type == "dir":
        raise ToolError(Code.IS_A_DIRECTORY, f"{path.shown} is a folder")
    if not info.exists and info.method == "extension" and not info.known:
        raise ToolError(Code.NOT_FOUND, f"there is no {path.shown}")
    return Verbatim(
        {
            "path": str(path.path),
            "extension": info.extension,
            "normalizedExtension": info.normalized_extension,
            "mimeType": info.mime,
            "baseMIMEType": info.base_mime,
            "mode": info.content_mode,
            "method": info.method,
        }
    )
