"""What a client hears of its own calls, at the level that it asked for."""

import mcp_types as t
import pytest

from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.results import Text


@tool(Access.READ)
async def breaks() -> Text:
    """Fail inside the server."""
    raise ZeroDivisionError("/srv/secret")


@pytest.fixture
def heard(call, caplog):
    """Return what the client of `call` hears, as (level, event or code)."""
    call.catalogue = (*call.catalogue, breaks)
    call.heard = []

    async def hear(params: t.LoggingMessageNotificationParams) -> None:
        assert params.logger == "toolbox-mcp"
        call.heard.append((params.level, params.data))

    call.client_options = {"logging_callback": hear}
    return call


async def calls(client):
    await client.call_tool("read_file", {"path": "hello.py"})
    await client.call_tool("read_file", {"path": "missing"})
    await client.call_tool("breaks", {})


DEBUG, INFO = ("debug", "begin"), ("info", "end")
REFUSED, FAILED = ("warning", "not_a_file"), ("error", "tool_exception")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (None, []),
        ("debug", [DEBUG, INFO, DEBUG, REFUSED, DEBUG, FAILED]),
        ("info", [INFO, REFUSED, FAILED]),
        ("notice", [REFUSED, FAILED]),
        ("error", [FAILED]),
        ("emergency", []),
    ],
)
@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_a_client_hears_of_its_calls_from_the_level_it_asked_for(heard, project, mode, level, expected):
    (project / "hello.py").write_text("one\n")
    heard.client_options |= {"mode": mode} | ({"log_level": level} if mode == "auto" else {})
    client = await heard.client()
    if level and mode == "legacy":
        await client.set_logging_level(level)
    await calls(client)
    assert [(level, data.get("code", data["event"])) for level, data in heard.heard] == expected
    for _, data in heard.heard:
        assert data["tool"] in ("read_file", "breaks")
        assert "/srv/secret" not in str(data)
        assert data["event"] == "begin" or (data["ms"] >= 0 and data["call_id"])


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_the_level_is_offered_and_can_be_changed(heard, project):
    heard.client_options |= {"mode": "legacy"}
    client = await heard.client()
    assert client.server_capabilities.logging is not None
    await client.set_logging_level("info")
    await calls(client)
    assert len(heard.heard) == 3
    await client.set_logging_level("critical")
    await calls(client)
    assert len(heard.heard) == 3
