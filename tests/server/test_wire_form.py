"""What the pipeline answers is, on the wire of both protocol eras, what the SDK's own model of a result would be."""

import json
import shlex
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp_types import (
    Annotations,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from mcp_types.methods import serialize_server_result

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.server.budget.tokenizers import tokenizer_for
from toolbox_mcp.server.call.pipeline import Pipeline
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.results import Answer, Blocks, Record, Text


class Found(Record):
    """Fields of every kind."""

    name: str | None = None
    share: float = 1.5
    rows: tuple[dict[str, Any], ...] = ()

    def rendered(self) -> str:
        return f"{self.name} {self.share}"


TEXT = TextContent(type="text", text="é\n\u2028", annotations=Annotations(audience=["user"], priority=0.5))
IMAGE = ImageContent(type="image", data="aGk=", mime_type="image/png", _meta={"of": None})
BLOB = EmbeddedResource(
    type="resource", resource=BlobResourceContents(uri="toolbox://files/a", mime_type="a/b", blob="aGk=")
)
LINK = ResourceLink(type="resource_link", uri="file:///a", name="a", size=3)
PAYLOAD = ToolError(Code.NOT_FOUND, "no such entry", "look elsewhere").payload()
ANSWERS = {
    "text": Text("one\ntwo", meta={"etag": "e", "size": None, "of": {"none": None}}),
    "empty": Text(""),
    "record": Found(name=None, rows=({"a": None, "b": [None, 1.0, 2**70]},)),
    "infinite": Found(name="x", share=float("inf")),
    "blocks": Blocks([TEXT, IMAGE, BLOB, LINK], {"etag": "e"}),
    "nothing": Blocks([]),
    "refusal": ToolError(Code.NOT_FOUND, "no such entry", "look elsewhere"),
}


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_result_is_the_same_bytes_as_its_model(call, monkeypatch, name, version):
    @tool(Access.READ)
    async def answer() -> Text:
        """Answer as the test says."""
        if isinstance(ANSWERS[name], ToolError):
            raise ANSWERS[name]
        return ANSWERS[name]

    call.catalogue = (answer,)
    made: list[Any] = []
    for method in ("_answer", "call"):
        monkeypatch.setattr(Pipeline, method, keeping(getattr(Pipeline, method), made))
    result = await call.result("answer", {})
    wire = made.pop()
    seen = made[0] if made else Answer([TextContent(type="text", text=json.dumps(PAYLOAD))], PAYLOAD)
    model = CallToolResult(
        content=seen.content,
        structured_content=seen.structured,
        is_error=not made,
        _meta={"call_id": result.meta["call_id"], **seen.meta},
    )
    dumped = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    one, other = (serialize_server_result("tools/call", version, form) for form in (wire, dumped))
    assert json.dumps(one) == json.dumps(other)


def keeping(method: Callable[..., Awaitable[Any]], made: list[Any]) -> Callable[..., Awaitable[Any]]:
    async def kept(*given: Any, **named: Any) -> Any:
        made.append(await method(*given, **named))
        return made[-1]

    return kept


@pytest.mark.parametrize("tool", ["bash", "shell"])
async def test_fields_are_within_the_budget_where_they_are_longer_than_the_text(call, tool):
    call.tokens = 600
    call.allowed_commands = ("python3",)
    args = ["-c", "for n in range(3000): print(chr(34) + chr(92) + chr(34), n)"]
    line = {"command": shlex.join(["python3", *args])}
    result = await call.result(tool, line if tool == "shell" else {"command": "python3", "args": args})
    count = tokenizer_for("gpt-4o").count
    fields = json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
    assert 500 < count(fields) <= 600
    assert count(result.content[0].text) <= 600
    # However often it is tried, it is kept once.
    assert 'process_output id="out_1"' in result.content[0].text
