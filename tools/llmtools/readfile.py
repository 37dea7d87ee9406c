"""readfile, of the llmtools profile."""

from base64 import b64encode
from urllib.parse import quote

from mcp_types import BlobResourceContents, EmbeddedResource, ImageContent

from ...safety.errors import Code, ToolError
from ...safety.paths import ProjectPath
from ...safety.text import HEAD
from ...sandbox.isolate.worker import WorkerFailure
from ..base import Access, tool
from ..blocking import run_read
from ..read import _pdf as pdf
from ..read._mime import by_content
from ..read._text import is_pdf
from ..read.read_file import PDF_TIME
from ..results import UNCUT, Blocks, Text, Verbatim
from ..services import Parser
from ._texts import text_of, whole_bytes


@tool(Access.READ)
async def readfile(parser: Parser, path: ProjectPath, encoding: str = "text") -> Text | Verbatim | Blocks:
    """Read a local file and return its contents, as text or (encoding="binary") as an image or base64 data."""
    wanted = encoding.strip().lower()
    if wanted not in ("text", "binary"):
        raise ToolError(Code.INVALID_ARGS, 'encoding: expected "text" or "binary"')
    data = await run_read(lambda _: whole_bytes(path))
    if wanted == "binary":
        kind, blob = by_content(data[:HEAD]), b64encode(data).decode()
        if kind.startswith("image/"):
            return Blocks([ImageContent(type="image", data=blob, mime_type=kind)])
        resource = BlobResourceContents(uri=f"toolbox://files/{quote(path.shown)}", mime_type=kind, blob=blob)
        return Blocks([EmbeddedResource(type="resource", resource=resource)])
    if is_pdf(data) or path.name.lower().endswith(".pdf"):
        try:
            text = "\n".join(await parser.call(pdf.extract, data, pdf.MAX_CHARACTERS, deadline=PDF_TIME))
        except WorkerFailure:
            raise ToolError(Code.BINARY_FILE, f"the text of {path.shown} takes too much to extract") from None
    else:
        text = text_of(path, data)
    return Verbatim(text) if len(text) <= UNCUT else Text(text, "readtextrange gives a part of it")
