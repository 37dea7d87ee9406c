import asyncio
from contextlib import AsyncExitStack

import mcp_types as t
import pytest
from mcp import MCPError
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning

from toolbox_mcp.server.resources.subscriptions import INTERVAL, STREAMS, Updates

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])

SAYS_WHAT_IT_HEARS = ["-c", "import sys\nfor line in sys.stdin: print(f'heard {line}', end='', flush=True)"]


class Pauses:
    """Intervals that end when the test says so."""

    def __init__(self):
        self.begun = asyncio.Queue()

    async def __call__(self, seconds):
        assert seconds == INTERVAL
        over = asyncio.Event()
        self.begun.put_nowait(over)
        await over.wait()

    async def end(self):
        (await within(self.begun.get())).set()


async def within(awaitable):
    async with asyncio.timeout(10):
        return await awaitable


@pytest.fixture
def python(call):
    call.allowed_commands = ("python3",)
    return call


async def start(call, *args, **more):
    result = await call.result("process_start", {"command": "python3", "args": list(args), **more})
    return result.structured_content["id"]


async def read(call, uri):
    result = await (await call.client()).read_resource(uri)
    (content,) = result.contents
    assert content.uri == uri
    return content.text


async def output(call, id_, wait_for):
    return await call.result("process_output", {"id": id_, "wait_for": wait_for, "wait": 10})


def stdout(id_):
    return f"toolbox://processes/{id_}/stdout"


@ERAS
async def test_output_is_read_as_often_as_wanted_and_stays_for_process_output(python, mode):
    python.client_options = {"mode": mode}
    changes = asyncio.Queue()
    python.updates.changed = lambda owner, event: changes.put_nowait(event)
    id_ = await start(python, "-c", "import sys; print('out'); print('err', file=sys.stderr)")
    for uri in (stdout(id_), f"toolbox://processes/{id_}/stderr"):
        while not await read(python, uri):
            await within(changes.get())
    for _ in range(2):
        assert await read(python, stdout(id_)) == "out\n"
        assert await read(python, f"toolbox://processes/{id_}/stderr") == "err\n"
    assert (await output(python, id_, "out")).structured_content["stdout"] == "out\n"
    assert await read(python, stdout(id_)) == ""


async def listed_by(client):
    """Return what is listed beside the map of the repository."""
    found = (await client.list_resources(cache_mode="bypass")).resources
    return [each for each in found if each.uri != "toolbox://map"]


@ERAS
async def test_live_processes_are_listed_and_ended_ones_are_not(python, mode):
    python.client_options = {"mode": mode}
    client = await python.client()
    assert await listed_by(client) == []
    id_ = await start(python, *SAYS_WHAT_IT_HEARS, stdin=True, name="echo")
    listed = await listed_by(client)
    assert [(one.uri, one.description) for one in listed] == [
        (stdout(id_), "Unread stdout of echo"),
        (f"toolbox://processes/{id_}/stderr", "Unread stderr of echo"),
    ]
    await python("process_kill", id=id_)
    assert await listed_by(client) == []


@ERAS
async def test_the_templates_are_listed(call, mode):
    call.client_options = {"mode": mode}
    listed = (await (await call.client()).list_resource_templates()).resource_templates
    assert [one.uri_template for one in listed] == ["toolbox://processes/{id}/{stream}", "toolbox://files/{+path}"]
    assert all(one.description for one in listed)


@pytest.mark.parametrize(("mode", "code"), [("auto", -32602), ("legacy", -32002)])
@pytest.mark.parametrize(
    "uri",
    [
        "toolbox://processes/proc_2/stdout",
        "toolbox://processes/proc_1/stdin",
        "toolbox://processes/proc_1/stdout/",
        "toolbox://processes/proc_1/stdout?x",
        "toolbox://processes/proc_1/../proc_1/stdout",
        "toolbox://elsewhere",
        "file:///etc/passwd",
    ],
)
async def test_what_is_not_there_is_unknown(python, mode, code, uri):
    python.client_options = {"mode": mode}
    await start(python, *SAYS_WHAT_IT_HEARS, stdin=True)
    with pytest.raises(MCPError) as refused:
        await read(python, uri)
    assert (refused.value.error.code, refused.value.error.data) == (code, {"uri": uri})
    if mode == "legacy":
        with pytest.raises(MCPError) as refused, pytest.warns(MCPDeprecationWarning):
            await (await python.client()).subscribe_resource(uri)
        assert refused.value.error.code == code


async def test_a_process_of_another_owner_is_unknown(python):
    client = await python.client()
    started = await python.processes.of("session:other").start(["python3", *SAYS_WHAT_IT_HEARS], stdin=True)
    assert python.processes.of("session:other").peek(started.id, "stdout") == ""
    assert await listed_by(client) == []
    with pytest.raises(MCPError, match="Resource not found"):
        await read(python, stdout(started.id))


async def test_a_stateless_client_hears_of_output_and_of_the_list(python):
    client = await python.client()
    async with client.listen(resource_subscriptions=[stdout("proc_1")], resources_list_changed=True) as heard:
        id_ = await start(python, *SAYS_WHAT_IT_HEARS, stdin=True)
        assert await within(anext(heard)) == ResourcesListChanged()
        await python("process_input", id=id_, text="a\n")
        assert await within(anext(heard)) == ResourceUpdated(uri=stdout(id_))
        assert await read(python, stdout(id_)) == "heard a\n"


async def test_a_client_with_a_session_hears_of_what_it_subscribed_to_until_it_unsubscribes(python):
    heard = asyncio.Queue()
    pauses = Pauses()
    python.updates = Updates(pauses)

    async def on_message(message):
        if isinstance(message, t.ResourceUpdatedNotification):
            heard.put_nowait(message.params.uri)

    python.client_options = {"mode": "legacy", "message_handler": on_message}
    client = await python.client()
    first, second = [await start(python, *SAYS_WHAT_IT_HEARS, stdin=True) for _ in range(2)]
    for id_ in (first, second):
        with pytest.warns(MCPDeprecationWarning):
            await client.subscribe_resource(stdout(id_))
    await python("process_input", id=first, text="a\n")
    assert await within(heard.get()) == stdout(first)
    with pytest.warns(MCPDeprecationWarning):
        await client.unsubscribe_resource(stdout(first))
    await pauses.end()
    await python("process_input", id=first, text="b\n")
    await output(python, first, "b")
    await python("process_input", id=second, text="c\n")
    assert await within(heard.get()) == stdout(second)
    assert heard.empty()


async def test_nobody_hears_of_the_process_of_another_owner(python):
    client = await python.client()
    async with client.listen(resource_subscriptions=[stdout("proc_1"), stdout("proc_2")]) as heard:
        other = await python.processes.of("session:other").start(["python3", *SAYS_WHAT_IT_HEARS], stdin=True)
        assert other.id == "proc_1"
        await python.processes.of("session:other").write(other.id, b"secret\n")
        await within(python.processes.of("session:other").output(other.id, 10, "secret"))
        own = await start(python, "-c", "print('own')")
        assert await within(anext(heard)) == ResourceUpdated(uri=stdout(own))


async def test_what_comes_within_an_interval_is_told_once_at_its_end(python):
    pauses = Pauses()
    python.updates = Updates(pauses)
    client = await python.client()
    async with client.listen(resource_subscriptions=[stdout("proc_1")]) as heard:
        id_ = await start(python, *SAYS_WHAT_IT_HEARS, stdin=True)
        await pauses.end()  # of the list's change
        await python("process_input", id=id_, text="first\n")
        await within(anext(heard))
        for word in ("second", "third"):
            await python("process_input", id=id_, text=f"{word}\n")
            await output(python, id_, word)
        told = asyncio.ensure_future(anext(heard))
        await python("process_list")
        assert not told.done()
        await pauses.end()
        assert await within(told) == ResourceUpdated(uri=stdout(id_))
        quiet = await within(pauses.begun.get())
        quiet.set()
        await python("process_list")
        assert pauses.begun.empty()


async def test_the_capability_is_announced(call):
    assert (await call.client()).server_capabilities.resources == t.ResourcesCapability(
        subscribe=True, list_changed=True
    )


async def test_the_streams_of_an_owner_are_bounded(call):
    client = await call.client()
    async with AsyncExitStack() as stack:
        for _ in range(STREAMS):
            await stack.enter_async_context(client.listen(resources_list_changed=True))
        with pytest.raises(MCPError, match="limit"):
            await stack.enter_async_context(client.listen(resources_list_changed=True))
