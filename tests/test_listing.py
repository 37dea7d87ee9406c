import json

from toolbox_mcp.server.budget.tokenizers import tokenizer_for
from toolbox_mcp.tools.catalogue import load_tools

TOOLS = load_tools()

PER_TOOL = 150
"""Tokens (o200k) of a tool in the default listing, on average."""


def test_the_default_listing_stays_within_its_tokens() -> None:
    listed = [
        tool.to_mcp().model_dump(by_alias=True, exclude_none=True, mode="json") for tool in TOOLS if not tool.needs_exec
    ]
    text = json.dumps({"tools": listed}, separators=(",", ":"))
    assert tokenizer_for("gpt-4o").count(text) < PER_TOOL * len(listed)
