"""A call that takes the short way is answered as one that goes through the SDK, and only some calls take it."""

import asyncio
import itertools
import json
import os
import stat
import threading
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import mcp_types as t
import pytest
from mcp.server.runner import ServerRunner
from opentelemetry import trace

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.server.build import assembled
from toolbox_mcp.server.cli import load_flags
from toolbox_mcp.server.config.flags import read_flags
from toolbox_mcp.server.transports.stdio.dispatcher import AT_ONCE, Exchange
from toolbox_mcp.server.transports.stdio.framing import read_line
from toolbox_mcp.server.transports.stdio.request_queue import Intake
from toolbox_mcp.tools import blocking as threads
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.catalogue import load_tools
from toolbox_mcp.tools.results import Answer, Blocks, Text
from toolbox_mcp.tools.services import Context, Progress

TOOLS = load_tools()

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
KEY = "toolbox-mcp/context"


class Panic(BaseException):
    """What a native library raises."""


class Unfit:
    """A result that fails where it is cut."""

    size = 0

    def fit(self, budget) -> Answer:
        raise ZeroDivisionError("secret")


@tool(Access.READ)
def at_once(what: str = "text") -> Text | Blocks:
    """Answer without waiting."""
    match what:
        case "refuse":
            raise ToolError(Code.NOT_FOUND, "no such entry", "look elsewhere")
        case "crash":
            raise ValueError("secret")
        case "panic":
            raise Panic
        case "unfit":
            return Unfit()
        case "image":
            return Blocks(
                [t.ImageContent(type="image", data="aGk=", mime_type="image/png", _meta={"of": None})], {"n": 1}
            )
        case "long":
            return Text("word " * 9000)
        case "surrogate":
            return Text("a\ud800b")
    return Text(what, meta={"of": {"none": None}})


@tool(Access.READ)
async def later(context: Context, progress: Progress, what: str = "text") -> Text:
    """Answer after a turn of the loop."""
    await anyio.lowlevel.checkpoint()
    await progress(1, 2, "half")
    match what:
        case "refuse":
            raise ToolError(Code.NOT_FOUND, "no such entry")
        case "hang":
            await anyio.sleep_forever()
    told = [context.id, context.tenant_id, context.agent, context.client, context.session, context.params]
    return Text(json.dumps(told))


CATALOGUE = (*TOOLS, at_once, later)


class Talk:
    """A client on the pipes of a server."""

    def __init__(self):
        self.intake = Intake(64)
        self.lines = asyncio.Queue()
        self.ready = True
        self.numbers = itertools.count(1)

    def post(self, data):
        self.lines.put_nowait(json.loads(data))

    async def send(self, data):
        self.post(data)

    def say(self, **message):
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        read, refusals = read_line(line)
        assert read, refusals
        self.intake.offer(read, len(line))

    async def hear(self):
        async with asyncio.timeout(10):
            return await self.lines.get()

    def begin(self, params, **more):
        """Have a message taken as the source of a wire does, outside of any task."""
        number = more.pop("number", None) or next(self.numbers)
        asyncio.get_running_loop().call_soon(lambda: self.say(id=number, method="tools/call", params=params, **more))
        return number

    async def ask(self, params, **more):
        number = self.begin(params, **more)
        said = []
        while True:
            message = await self.hear()
            if message.get("id") == number:
                return [*said, message]
            said.append(message)

    async def text(self, name, **arguments):
        [answer] = await self.ask({"name": name, "arguments": arguments})
        return answer["result"]["content"][0]["text"]

    async def shake(self, version="2025-11-25"):
        client = {"name": "t", "version": "1"}
        self.say(
            id=0, method="initialize", params={"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        )
        assert (await self.hear())["result"]["protocolVersion"] == version
        self.say(method="notifications/initialized")


@pytest.fixture
async def talking(tmp_path):
    """Give a function that connects a client to a server with these flags, with the short way or without."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\ntwo\n")
    (project / "b.bin").write_bytes(b"\0\1")
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    @asynccontextmanager
    async def connected(*flags, direct=True, version="2025-11-25"):
        config = load_flags(read_flags(["--root", str(project), *flags]), env, cwd=tmp_path)
        async with assembled(config, env, CATALOGUE) as toolbox:
            talk = Talk()
            talk.toolbox = toolbox
            server = toolbox.server
            exchange = Exchange(talk.intake, talk, toolbox.direct if direct else None)

            async def serve():
                async with server.lifespan(server) as state:
                    await exchange.serve(server, state, server.create_initialization_options())

            serving = asyncio.create_task(serve())
            await talk.shake(version)
            yield talk
            talk.intake.end()
            async with asyncio.timeout(10):
                await serving

    return connected


@pytest.fixture
def through_sdk(monkeypatch):
    """Return the list of what goes through the SDK, which grows."""
    seen = []
    whole = ServerRunner._on_request

    async def noting(self, handled, method, params):
        seen.append(params)
        return await whole(self, handled, method, params)

    monkeypatch.setattr(ServerRunner, "_on_request", noting)
    return seen


SHORT = [
    {"name": "at_once"},
    {"name": "at_once", "arguments": None},
    {"name": "at_once", "arguments": {}, "_meta": None},
    {"name": "at_once", "arguments": {}, "_meta": {}},
    {"name": "at_once", "arguments": {"what": "é\u2028\U0001f600\0"}},
    *({"name": "at_once", "arguments": {"what": what}} for what in ("refuse", "image", "long", "surrogate")),
    *({"name": "at_once", "arguments": {"what": what}} for what in ("crash", "panic", "unfit")),
    {"name": "at_once", "arguments": {"nope": 1}},
    {"name": "at_once", "arguments": {"what": 1}},
    {"name": "at_once", "arguments": {"unsafe": True}},
    {"name": "later", "arguments": {}},
    {"name": "later", "arguments": {"what": "refuse"}},
    {"name": "later", "_meta": {"progressToken": "p"}},
    {"name": "later", "_meta": {"progressToken": 0, "x": [1]}},
    {"name": "later", "_meta": {KEY: {"execution_id": "e" * 300, "tenant_id": "t", "agent": "", "params": {"a": 1}}}},
    {"name": "later", "_meta": {KEY: "none", "progress_token": 3}},
    {"name": "later", "_meta": {"io.modelcontextprotocol/related-task": 5, "traceparent": 5, "": [None]}},
    {"name": "later", "_meta": {t.CLIENT_INFO_META_KEY: 5, t.LOG_LEVEL_META_KEY: 5}},
    {"name": "read_file", "arguments": {"path": "a.txt"}},
    {"name": "read_file", "arguments": {"path": "a.txt", "numbered": "true", "tail": None}},
    {"name": "read_file", "arguments": {"path": "a.txt", "start_line": 2}},
    {"name": "read_file", "arguments": {"path": "a.txt", "unsafe": True}},
    {"name": "read_file", "arguments": {"path": "b.bin"}},
    {"name": "read_file", "arguments": {"path": "../x"}},
    {"name": "read_file", "arguments": {"path": "none.txt"}},
    {"name": "read_file", "arguments": {"path": "b.bin", "encoding": "binary"}},
    {"name": "date_time", "arguments": {"format": "%Y"}},
    {"name": "write_file", "arguments": {"path": "n.txt", "content": "x"}},
    {"name": "grep_files", "arguments": {"pattern": "two"}},
]
LONG = [
    {"name": "nothing"},
    {"name": 1},
    {"arguments": {}},
    {"name": "at_once", "arguments": []},
    {"name": "at_once", "arguments": "{}"},
    {"name": "at_once", "_meta": []},
    {"name": "at_once", "_meta": {"progressToken": True}},
    {"name": "at_once", "_meta": {"progressToken": 1.5}},
    {"name": "at_once", "_meta": {"progressToken": None}},
    {"name": "at_once", "task": {"ttl": 1}},
    {"name": "at_once", "more": 1},
    {"name": "at_once", "requestState": "x"},
    {"name": "at_once", "inputResponses": {}},
]


async def answers(connected, params, *, flags=(), **how):
    async with connected(*flags, **how) as talk:
        await talk.text("at_once")
        messages = await talk.ask(params)
    answer = messages[-1]
    if "result" in answer:
        assert len(answer["result"]["_meta"].pop("call_id")) == 26
    return messages


@pytest.mark.parametrize("params", SHORT, ids=lambda params: json.dumps(params)[:60])
async def test_the_short_way_answers_as_the_sdk_does(talking, through_sdk, params):
    one = await answers(talking, params)
    assert params not in through_sdk
    other = await answers(talking, params, direct=False)
    assert params in through_sdk
    assert one == other
    assert "result" in one[-1]


@pytest.mark.parametrize(
    "params", [{"name": "at_once", "arguments": {"what": "image"}}, {"name": "process_list"}, {"name": "file_info"}]
)
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_of_the_handshake_has_it(talking, through_sdk, version, params):
    one = await answers(talking, params, version=version)
    assert params not in through_sdk
    assert one == await answers(talking, params, direct=False, version=version)


@pytest.mark.parametrize("params", LONG, ids=json.dumps)
async def test_what_holds_anything_else_goes_through_the_sdk(talking, through_sdk, params):
    one = await answers(talking, params)
    assert params in through_sdk
    assert one == await answers(talking, params, direct=False)


async def test_a_request_of_the_other_era_is_refused(talking):
    params = {"name": "at_once", "_meta": {t.PROTOCOL_VERSION_META_KEY: "2026-07-28"}}
    [answer] = await answers(talking, params)
    assert answer["error"]["code"] == t.INVALID_REQUEST
    assert [answer] == await answers(talking, params, direct=False)


async def test_the_first_call_of_a_session_makes_its_state_by_the_sdk(talking, through_sdk):
    async with talking() as talk:
        for what in ("one", "two"):
            assert await talk.text("at_once", what=what) == what
    calls = [params["arguments"] for params in through_sdk if params and "arguments" in params]
    assert calls == [{"what": "one"}]


@pytest.mark.parametrize(
    "flags",
    [
        ("--set", "allow_unsafe=ask"),
        ("--set", 'approvals={"date_time": "once"}'),
        ("--set", 'approvals={"date_time": "always"}'),
    ],
)
async def test_a_call_that_may_ask_the_person_goes_through_the_sdk(talking, through_sdk, flags):
    params = {"name": "date_time", "arguments": {"format": "%Y"}}
    async with talking(*flags) as talk:
        await talk.text("at_once")
        await talk.ask(params)
    assert params in through_sdk


async def test_spans_are_made_of_every_call(talking, through_sdk, monkeypatch):
    monkeypatch.setattr(trace, "get_tracer_provider", trace.NoOpTracerProvider)
    async with talking() as talk:
        assert talk.toolbox.direct is None


async def test_what_is_answered_at_once_has_a_row(talking):
    async with talking() as talk:
        for what in ("one", "refuse", "crash"):
            await talk.ask({"name": "at_once", "arguments": {"what": what}})
        await talk.text("read_file", path="a.txt")
        rows = await asyncio.to_thread(talk.toolbox.records.newest)
    assert [(row.tool, row.status, row.code) for row in reversed(rows)] == [
        ("at_once", "success", None),
        ("at_once", "error", "not_found"),
        ("at_once", "error", "tool_exception"),
        ("read_file", "success", None),
    ]


@pytest.mark.parametrize(("what", "code"), [("refuse", "not_found"), ("crash", "tool_exception")])
async def test_what_fails_at_once_is_told_where_anyio_knows_a_loop_by_its_tasks_alone(talking, monkeypatch, what, code):
    known = anyio.get_cancelled_exc_class

    def within_a_task():
        # As versions before 4.12 do, and later ones beside sniffio.
        if asyncio.current_task() is None:
            raise RuntimeError("unknown async library")
        return known()

    async with talking() as talk:
        await talk.text("at_once")
        monkeypatch.setattr(anyio, "get_cancelled_exc_class", within_a_task)
        assert json.loads(await talk.text("at_once", what=what))["code"] == code


async def test_of_many_calls_that_came_together_few_are_answered_before_others_have_their_turn(talking, monkeypatch):
    async with talking() as talk:
        await talk.text("at_once")
        turns = []
        loop = asyncio.get_running_loop()

        def together():
            for number in range(100, 100 + 3 * AT_ONCE):
                talk.say(id=number, method="tools/call", params={"name": "at_once"})
            turns.append(talk.lines.qsize())

        loop.call_soon(together)
        heard = {(await talk.hear())["id"] for _ in range(3 * AT_ONCE)}
        assert heard == set(range(100, 100 + 3 * AT_ONCE))
        assert turns == [AT_ONCE]
        loop.call_soon(together)
        for _ in range(3 * AT_ONCE):
            await talk.hear()
        assert turns == [AT_ONCE, AT_ONCE]


async def test_nothing_is_answered_at_once_to_a_client_that_does_not_read(talking):
    async with talking() as talk:
        await talk.text("at_once")
        talk.ready = False
        seen = []
        loop = asyncio.get_running_loop()
        talk.begin({"name": "at_once"}, number=7)
        loop.call_soon(lambda: seen.append(talk.lines.qsize()))
        assert (await talk.hear())["id"] == 7
        assert seen == [0]


async def test_a_call_that_takes_the_short_way_can_be_called_off(talking):
    async with talking() as talk:
        await talk.text("at_once")
        talk.begin({"name": "later", "arguments": {"what": "hang"}, "_meta": {"progressToken": 1}}, number="x")
        assert (await talk.hear())["method"] == "notifications/progress"
        talk.say(method="notifications/cancelled", params={"requestId": "x"})
        assert await talk.text("at_once") == "text"
        await anyio.wait_all_tasks_blocked()
        assert talk.lines.empty()
        rows = await asyncio.to_thread(talk.toolbox.records.newest, tool="later")
    assert [row.status for row in rows] == ["cancelled"]


async def test_a_call_on_the_short_way_is_answered_as_closed_at_the_end(talking):
    async with talking() as talk:
        await talk.text("at_once")
        talk.begin({"name": "later", "arguments": {"what": "hang"}, "_meta": {"progressToken": 1}}, number="x")
        await talk.hear()
        talk.intake.end()
        answer = await talk.hear()
    assert (answer["id"], answer["error"]["code"]) == ("x", t.CONNECTION_CLOSED)


@pytest.fixture
def in_tasks(monkeypatch):
    """Return the list of what takes a task, which grows. What the loop waits for is waited for long enough."""
    spawned = []
    spawn = Exchange._spawn
    monkeypatch.setattr(Exchange, "_spawn", lambda self, work: (spawned.append(work), spawn(self, work))[1])
    monkeypatch.setattr(threads, "BRIEF", 60.0)
    return spawned


LARGE = b"some text that stays\n" * 70_000 + b"old"
BRIEFLY = [
    (b"old\n", {}, True),
    (b"\xef\xbb\xbfold\r\n\xe9", {}, True),
    (b"old old", {"replace_all": True}, True),
    (b"old", {"new_string": "x" * 300_000}, True),
    (LARGE, {}, True),
    (b"old", {"path": "link"}, True),
    (b"old", {"path": "../f"}, False),
    (b"old", {"path": ".git/f"}, False),
    (b"old", {"old_string": 5}, False),
    (b"old old", {}, False),
    (b"old", {"expected_etag": "0" * 16}, False),
    (b"old", {"new_string": "old"}, False),
    (b"old\0", {}, False),
    (b"other", {}, False),
    (b"", {}, False),
    (b"old", {"path": "none"}, False),
    (b"old", {"path": "folder"}, False),
]


@pytest.mark.parametrize(("before", "arguments", "at_once"), BRIEFLY)
async def test_an_edit_that_succeeds_is_answered_without_a_task_and_as_with_one(
    talking, tmp_path, in_tasks, before, arguments, at_once
):
    project = tmp_path / "project"
    (project / "folder").mkdir()
    (project / "link").symlink_to("f")
    params = {"name": "edit_file", "arguments": {"path": "f", "old_string": "old", "new_string": "new"} | arguments}
    found = []
    for direct in (True, False):
        (project / "f").write_bytes(before)
        (project / "f").chmod(0o640)
        async with talking("--enable-exec", direct=direct) as talk:
            await talk.text("at_once")
            in_tasks.clear()
            [answer] = await talk.ask(params)
            assert bool(in_tasks) != (direct and at_once)
        assert len(answer["result"]["_meta"].pop("call_id")) == 26
        found.append((answer, (project / "f").read_bytes(), stat.S_IMODE((project / "f").stat().st_mode)))
    assert found[0] == found[1]
    assert found[0][2] == 0o640


LISTS = [
    ({}, True),
    ({"sizes": False, "pattern": "a*"}, True),
    ({"recursive": True}, True),
    ({"pattern": "a/*"}, True),
    ({"path": "../x"}, False),
    ({"path": "none"}, False),
    ({"path": "a.txt"}, False),
]


@pytest.mark.parametrize(("arguments", "at_once"), LISTS)
async def test_a_folder_is_listed_without_a_task_and_as_with_one(talking, in_tasks, arguments, at_once):
    params = {"name": "list_directory", "arguments": arguments}
    found = []
    for direct in (True, False):
        async with talking(direct=direct) as talk:
            await talk.text("at_once")
            in_tasks.clear()
            [answer] = await talk.ask(params)
            assert bool(in_tasks) != (direct and at_once)
        del answer["result"]["_meta"]["call_id"]
        found.append(answer)
    assert found[0] == found[1]


EDIT = {"path": "a.txt", "old_string": "one", "new_string": "1"}


@pytest.fixture
def held(talking, monkeypatch):
    """Connect a client with an edit under way, for which the disk takes its time until it is let go on."""
    begun, go_on, fsync = threading.Event(), threading.Event(), os.fsync

    def sync(fd):
        begun.set()
        assert go_on.wait(20)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(threads, "BRIEF", 0.0)

    @asynccontextmanager
    async def editing():
        async with talking("--enable-exec") as talk:
            await talk.text("at_once")
            number = talk.begin({"name": "edit_file", "arguments": EDIT})
            assert await asyncio.to_thread(begun.wait, 20)
            yield talk, number

    yield editing, go_on
    go_on.set()


async def test_an_edit_that_waits_for_the_disk_keeps_nobody_else_waiting(tmp_path, held):
    editing, go_on = held
    async with editing() as (talk, number):
        assert await talk.text("read_file", path="a.txt") == "one\ntwo"
        go_on.set()
        assert (await talk.hear())["id"] == number
    assert (tmp_path / "project" / "a.txt").read_text() == "1\ntwo\n"


async def test_an_edit_that_is_called_off_while_it_waits_for_the_disk_ends_before_its_call(tmp_path, held):
    editing, go_on = held
    async with editing() as (talk, number):
        talk.say(method="notifications/cancelled", params={"requestId": number})
        assert await talk.text("read_file", path="a.txt") == "one\ntwo"
        assert talk.toolbox.records.newest()[1].status == "running"
        go_on.set()
        async with asyncio.timeout(10):
            while talk.toolbox.records.newest()[1].status == "running":
                await anyio.lowlevel.checkpoint()
        assert "Undid edit_file" in await talk.text("undo")
    assert (tmp_path / "project" / "a.txt").read_text() == "one\ntwo\n"


async def test_an_edit_takes_a_task_while_another_call_is_at_work(talking, in_tasks):
    async with talking("--enable-exec") as talk:
        await talk.text("at_once")
        talk.begin({"name": "later", "arguments": {"what": "hang"}})
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        in_tasks.clear()
        assert "Edited a.txt" in await talk.text("edit_file", **EDIT)
        assert len(in_tasks) == 1


async def test_of_several_edits_that_come_together_the_first_takes_no_task(talking, tmp_path, in_tasks):
    def edit(old, new):
        return {"name": "edit_file", "arguments": {"path": "a.txt", "old_string": old, "new_string": new}}

    async with talking("--enable-exec") as talk:
        await talk.text("at_once")
        edits = [edit("one", "1"), edit("two", "2"), edit("1\n", "3\n")]
        in_tasks.clear()
        asyncio.get_running_loop().call_soon(
            lambda: [talk.say(id=n, method="tools/call", params=edit) for n, edit in enumerate(edits, 100)]
        )
        assert sorted([(await talk.hear())["id"] for _ in edits]) == [100, 101, 102]
        assert len(in_tasks) == 2
    assert (tmp_path / "project" / "a.txt").read_text() == "3\n2\n"


async def test_an_edit_without_a_task_is_recorded_remembered_and_undone_as_any(talking, tmp_path, in_tasks):
    file = tmp_path / "project" / "a.txt"
    async with talking("--enable-exec") as talk:
        await talk.text("read_file", path="a.txt")
        in_tasks.clear()
        await talk.text("edit_file", **EDIT)
        assert not in_tasks
        row, *_ = talk.toolbox.records.newest()
        assert (row.tool, row.status, json.loads(row.input)["new_string"]) == ("edit_file", "success", "1")
        assert "Overwrote" in await talk.text("write_file", path="a.txt", content="seen by this session")
        assert "Undid write_file" in await talk.text("undo")
        assert "Undid edit_file" in await talk.text("undo")
        assert file.read_text() == "one\ntwo\n"
        await talk.text("edit_file", **EDIT)
        file.write_text("somebody's\n")
        assert "changed_since" in await talk.text("undo")
