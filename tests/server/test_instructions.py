import re

import pytest

from toolbox_mcp.server.call.exposure import ExposurePolicy
from toolbox_mcp.tools.catalogue import load_tools

TOOLS = load_tools()

ALL = ExposurePolicy(enable_exec_tools=True, enable_shell=True)
LAST = "A failure is {error, code, hint}: do what the hint says."


@pytest.mark.parametrize(
    "gate",
    [
        ALL,
        ExposurePolicy(),
        ExposurePolicy(list_disabled=True),
        ExposurePolicy(enable_exec_tools=True, exec_tools=["write_file"]),
        ExposurePolicy(toolsets=["util"]),
        ExposurePolicy(toolsets=["edit"], enable_exec_tools=True),
        ExposurePolicy(toolsets=[]),
    ],
)
async def test_the_instructions_name_listed_tools_only(call, gate):
    call.gate = gate
    client = await call.client()
    listed = {tool.name for tool in (await client.list_tools()).tools}
    said = set(re.findall(r"\w+", client.instructions)) & {tool.name for tool in TOOLS}
    assert said <= listed
    assert ("operator" in client.instructions) == bool(set(_gated(gate)) - listed or gate.list_disabled)


def _gated(gate):
    return [t.name for t in TOOLS if t.needs_exec and (gate.toolsets is None or t.group in gate.toolsets)]


async def test_with_everything_open_they_say_how_the_tools_go_together(call):
    call.gate = ALL
    assert (await call.client()).instructions == (
        "Developer tools over one project folder; paths are relative to it.\n"
        "Find with glob, grep_files, tree, then read_file the lines that matter."
        " Edit with edit_file rather than rewriting.\n"
        "Answers are cut to a token budget: the cut says which argument gets the rest.\n" + LAST
    )


async def test_they_name_the_folders_that_no_listing_leads_to(call, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "line\nbreak").mkdir()
    call.roots += [tmp_path / "more", tmp_path / "line\nbreak"]
    said = (await call.client()).instructions
    assert f"Other folders, by absolute paths: {tmp_path}/more, {tmp_path}/line<U+000A>break.\n" in said
