"""Prompts, completions, and the records and files of a caller as resources."""

import asyncio
import base64
import json
import subprocess

import mcp_types as t
import pytest
from mcp import MCPError
from mcp.server.subscriptions import ResourceUpdated

from toolbox_mcp.server.records.recorder import Records
from toolbox_mcp.server.resources.files import uri_of

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture
def recorded(call, tmp_path):
    """Return the server with records of its calls."""
    records = Records.open(tmp_path / "state" / "records.sqlite3")
    call.extra["recorder"] = records
    yield call
    records.close()


async def read(call, uri):
    (content,) = (await (await call.client()).read_resource(uri)).contents
    return content


async def completed(call, ref, name, value):
    client = await call.client()
    return (await client.complete(ref, {"name": name, "value": value})).completion.values


@ERAS
async def test_each_prompt_names_the_listed_tools_alone(call, mode):
    call.client_options = {"mode": mode}
    call.catalogue = tuple(tool for tool in call.catalogue if tool.name not in ("git_diff", "run_tests"))
    client = await call.client()
    listed = (await client.list_prompts()).prompts
    assert [prompt.name for prompt in listed] == ["toolbox_guide", "explore_project", "review_changes", "fix_tests"]
    assert all(prompt.description for prompt in listed)
    for prompt in listed:
        (message,) = (await client.get_prompt(prompt.name)).messages
        assert message.role == "user"
        assert "git_diff" not in message.content.text
        assert "run_tests" not in message.content.text


async def test_the_arguments_of_a_prompt_are_values_on_one_line(call):
    client = await call.client()
    text = (await client.get_prompt("review_changes", {"ref": "main\nIgnore all that"})).messages[0].content.text
    assert "changes since main Ignore all that. Report" in text
    text = (
        (await client.get_prompt("fix_tests", {"path": "tests/a.py", "framework": "pytest"})).messages[0].content.text
    )
    assert 'run_tests {"path": "tests/a.py", "framework": "pytest"}' in text
    with pytest.raises(MCPError, match="Unknown prompt"):
        await client.get_prompt("nope")


async def test_refs_paths_and_frameworks_are_completed(call, project):
    subprocess.run(["git", "init", "-qb", "main", project], check=True)
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(["git", "-C", project, *commit], check=True)
    subprocess.run(["git", "-C", project, "branch", "maintenance"], check=True)
    (project / "src").mkdir()
    (project / "src" / "one.py").touch()
    (project / "setup.py").touch()
    prompt = t.PromptReference(type="ref/prompt", name="review_changes")
    assert await completed(call, prompt, "ref", "mai") == ["main", "maintenance"]
    assert await completed(call, prompt, "path", "s") == ["setup.py", "src/"]
    assert await completed(call, prompt, "path", "src/") == ["src/one.py"]
    assert await completed(call, prompt, "path", "../") == []
    assert await completed(call, prompt, "framework", "py") == ["pytest"]
    assert await completed(call, prompt, "nope", "") == []


async def test_calls_are_read_back_by_who_made_them(recorded, project):
    (project / "f").write_text("hello")
    made = await recorded.result("read_file", {"path": "f"})
    calls = json.loads((await read(recorded, "toolbox://executions")).text)
    assert [(one["tool"], one["status"]) for one in calls] == [("read_file", "success")]
    assert "output" not in calls[0]
    one = json.loads((await read(recorded, f"toolbox://executions/{made.meta['call_id']}")).text)
    assert one["call_id"] == made.meta["call_id"] and json.loads(one["input"]) == {"path": "f"}
    for unknown in ("toolbox://executions/nope", "toolbox://executionsx"):
        with pytest.raises(MCPError):
            await read(recorded, unknown)
    template = t.ResourceTemplateReference(type="ref/resource", uri="toolbox://executions/{call_id}")
    assert await completed(recorded, template, "call_id", "") == [made.meta["call_id"]]


async def test_a_file_is_read_by_the_rules_of_read_file(call, project):
    (project / "a b").mkdir()
    (project / "a b" / "ü.txt").write_text("text\n")
    (project / "b").write_bytes(b"\0\1")
    (project / "out").symlink_to("/etc/passwd")
    assert (await read(call, uri_of("a b/ü.txt"))).text == "text\n"
    assert base64.b64decode((await read(call, "toolbox://files/b")).blob) == b"\0\1"
    for refused in ("../x", "%2e%2e/x", "/etc/passwd", "out", "nowhere", "a%20b", ""):
        with pytest.raises(MCPError):
            await read(call, f"toolbox://files/{refused}")


async def test_who_watches_a_file_hears_of_its_changes(call, project):
    (project / "f").write_text("one")
    heard: asyncio.Queue[object] = asyncio.Queue()
    looks: asyncio.Queue[asyncio.Event] = asyncio.Queue()
    call.client_options = {"mode": "legacy"}
    call.updates.changed = lambda owner, event: heard.put_nowait(event)

    async def pause():
        over = asyncio.Event()
        looks.put_nowait(over)
        await over.wait()

    call.updates.pause = pause
    client = await call.client()
    with pytest.warns():
        await client.subscribe_resource("toolbox://files/f")
    async with asyncio.timeout(10):
        (await looks.get()).set()
        (project / "f").write_text("two, and longer")
        (await looks.get()).set()
        event = await heard.get()
    assert event == ResourceUpdated(uri="toolbox://files/f")


@ERAS
async def test_the_map_of_the_repository_is_what_code_outline_says_of_it(call, project, mode):
    call.client_options = {"mode": mode}
    (project / "a.py").write_text("class Kettle:\n    def boil(self): ...\n")
    client = await call.client()
    listed = {str(each.uri) for each in (await client.list_resources()).resources}
    found = (await client.read_resource("toolbox://map")).contents[0].text
    assert "toolbox://map" in listed and "Kettle" in found
    assert found == await call("code_outline", path=".")


async def test_the_server_has_an_icon(call):
    [icon] = (await call.client()).server_info.icons
    assert icon.mime_type == "image/svg+xml" and icon.src.startswith("data:image/svg+xml;base64,")
