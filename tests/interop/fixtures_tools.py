"""Conformance fixtures that are tools of this project: typed functions behind the pipeline, like all others."""

from typing import Annotated

import anyio
import mcp_types as t
from interop.fixtures_content import PNG, WAV, embedded
from pydantic import Field

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.progress import INTERVAL
from toolbox_mcp.tools.results import Blocks, Text
from toolbox_mcp.tools.services import Progress


@tool(Access.READ)
async def test_simple_text() -> Text:
    """Return a text."""
    return Text("This is a simple text response for testing.")


@tool(Access.READ)
async def test_image_content() -> Blocks:
    """Return a picture."""
    return Blocks([t.ImageContent(data=PNG, mime_type="image/png")])


@tool(Access.READ)
async def test_audio_content() -> Blocks:
    """Return a sound."""
    return Blocks([t.AudioContent(data=WAV, mime_type="audio/wav")])


@tool(Access.READ)
async def test_embedded_resource() -> Blocks:
    """Return a resource."""
    return Blocks([embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")])


@tool(Access.READ)
async def test_multiple_content_types() -> Blocks:
    """Return a text, a picture and a resource."""
    return Blocks(
        [
            t.TextContent(text="Multiple content types test:"),
            t.ImageContent(data=PNG, mime_type="image/png"),
            embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ]
    )


@tool(Access.READ)
async def test_tool_with_progress(progress: Progress) -> Text:
    """Report progress three times."""
    for done in (0, 50, 100):
        await progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(INTERVAL)  # nearer ones are held back
    return Text("Three steps are done.")


@tool(Access.READ)
async def test_error_handling() -> Text:
    """Fail."""
    raise ToolError(Code.REFUSED, "This tool intentionally returns an error for testing")


@tool(Access.READ)
async def test_x_mcp_header(
    region: Annotated[str | None, Field(json_schema_extra={"x-mcp-header": "Region"})] = None,
) -> Text:
    """Return an argument that is also sent as a header."""
    return Text(f"region={region}")


TOOLS = (
    test_audio_content,
    test_embedded_resource,
    test_error_handling,
    test_image_content,
    test_multiple_content_types,
    test_simple_text,
    test_tool_with_progress,
    test_x_mcp_header,
)
