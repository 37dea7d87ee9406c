"""What a client of the handshake era and the server say to each other, in one process."""

import asyncio
import json
from contextvars import ContextVar

import anyio
import mcp_types as t
import pytest
from mcp import MCPError
from mcp.server import Server
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

from toolbox_mcp.server.transports.stdio.dispatcher import StdioDispatcher, opens_handshake
from toolbox_mcp.server.transports.stdio.framing import read_line
from toolbox_mcp.server.transports.stdio.request_queue import Intake

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "t", "version": "1"},
}
FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


class Talk:
    """A client, and a server whose tools are the functions in acts."""

    def __init__(self):
        self.acts = {}
        self.intake = Intake(8)
        self.lines = asyncio.Queue()
        self.broken = False
        self.missed = asyncio.Event()
        self.server = Server("talk", version="1", on_call_tool=self._call)
        self.exchange = StdioDispatcher(self.intake, self)

    async def _call(self, ctx, params):
        text = await self.acts[params.name](ctx)
        return {"content": [{"type": "text", "text": text}]}

    async def send(self, data):
        if self.broken:
            self.missed.set()
            raise anyio.BrokenResourceError
        self.post(data)

    def post(self, data):
        self.lines.put_nowait(json.loads(data))

    def say(self, **message):
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        read, refusals = read_line(line)
        assert read, refusals
        self.intake.offer(read, len(line))

    def call(self, number, name, **meta):
        params = {"name": name, "arguments": {}} | ({"_meta": meta} if meta else {})
        self.say(id=number, method="tools/call", params=params)

    async def on_response(self):
        async with asyncio.timeout(10):
            return await self.lines.get()

    async def text(self, number):
        answer = await self.on_response()
        assert answer.get("id") == number, answer
        return answer["result"]["content"][0]["text"]

    async def shake(self):
        self.say(id=0, method="initialize", params=HELLO)
        assert (await self.on_response())["result"]["serverInfo"]["name"] == "talk"
        self.say(method="notifications/initialized")

    async def serve(self):
        async with self.server.lifespan(self.server) as state:
            await self.exchange.serve(self.server, state, self.server.create_initialization_options())


@pytest.fixture
async def talk():
    talk = Talk()
    serving = asyncio.create_task(talk.serve())
    yield talk
    talk.intake.end()
    async with asyncio.timeout(10):
        await serving
    assert talk.intake.idle
    assert not talk.exchange._tasks
    assert not talk.exchange._live
    assert not talk.exchange._by_id
    assert not talk.exchange.outbound._asked


async def fine(ctx):
    return "fine"


def held(started, outcome):
    async def hold(ctx):
        started.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            outcome.append("cancelled")
            raise

    return hold


async def test_what_is_sent_behind_the_handshake_without_waiting_is_answered_in_order(talk):
    talk.acts["fine"] = fine
    talk.say(id=0, method="initialize", params=HELLO)
    talk.say(method="notifications/initialized")
    talk.call(1, "fine")
    assert (await talk.on_response())["id"] == 0
    assert await talk.text(1) == "fine"


async def test_a_call_before_the_handshake_is_refused_and_a_ping_answered(talk):
    talk.call(1, "fine")
    assert (await talk.on_response())["error"]["code"] == INVALID_PARAMS
    talk.say(id=2, method="ping")
    assert await talk.on_response() == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("nothing/such", {}, METHOD_NOT_FOUND),
        ("tools/call", {"name": 5}, INVALID_PARAMS),
        ("tools/call", {"name": "crash", "arguments": {}}, INTERNAL_ERROR),
        ("ping", {"_meta": {t.PROTOCOL_VERSION_META_KEY: "2026-07-28"}}, INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_done_is_an_error_that_tells_nothing_of_the_inside(talk, method, params, code):
    async def crash(ctx):
        raise RuntimeError("secret")

    talk.acts["crash"] = crash
    await talk.shake()
    talk.say(id="x", method=method, params=params)
    answer = await talk.on_response()
    assert (answer["id"], answer["error"]["code"]) == ("x", code)
    assert "secret" not in json.dumps(answer)


async def test_text_and_numbers_that_json_cannot_carry_are_replaced(talk):
    async def odd(ctx):
        return "a\udc80b"

    async def call(ctx, params):
        return {"content": [], "structuredContent": {"number": float("nan"), "text": await odd(ctx)}}

    talk.server.add_request_handler("tools/call", t.CallToolRequestParams, call)
    await talk.shake()
    talk.call(1, "odd")
    assert (await talk.on_response())["result"]["structuredContent"] == {"number": None, "text": "a\ufffdb"}


async def test_a_call_that_is_called_off_is_cancelled_and_never_answered(talk):
    started, outcome = asyncio.Event(), []
    talk.acts |= {"hold": held(started, outcome), "fine": fine}
    await talk.shake()
    talk.call(7, "hold")
    await started.wait()
    talk.say(method="notifications/cancelled", params={"requestId": "7"})
    talk.call(8, "fine")
    assert await talk.text(8) == "fine"
    assert outcome == ["cancelled"]


async def test_two_calls_with_one_id_are_both_answered_or_both_ended(talk):
    started, outcome = asyncio.Event(), []
    talk.acts |= {"hold": held(started, outcome), "fine": fine}
    await talk.shake()
    talk.call(7, "hold")
    await started.wait()
    talk.call(7, "fine")
    assert await talk.text(7) == "fine"
    # The fixture ends the connection, which waits for the one that holds.


async def test_what_runs_at_the_end_is_answered_as_closed(talk):
    started = asyncio.Event()
    talk.acts["hold"] = held(started, [])
    await talk.shake()
    talk.call(7, "hold")
    await started.wait()
    talk.intake.end()
    answer = await talk.on_response()
    assert (answer["id"], answer["error"]["code"]) == (7, CONNECTION_CLOSED)


async def test_a_client_that_is_gone_ends_no_other_call(talk):
    talk.acts["fine"] = fine
    await talk.shake()
    talk.broken = True
    talk.call(1, "fine")
    async with asyncio.timeout(10):
        await talk.missed.wait()
    await talk.exchange.outbound.notify("notifications/message", {"level": "info", "data": "x"})
    with pytest.raises(MCPError):
        await talk.exchange.outbound.send_raw_request("ping", None)
    talk.broken = False
    talk.call(2, "fine")
    assert await talk.text(2) == "fine"


async def test_progress_reaches_who_asked_for_it_before_the_answer_and_not_after(talk):
    late = []

    async def steps(ctx):
        await ctx.session.report_progress(1.0, 2.0, "half")
        await ctx.session.report_progress(2.0)
        late.append(ctx)
        return "done"

    talk.acts["steps"] = steps
    await talk.shake()
    talk.call(1, "steps", progressToken="p")
    assert (await talk.on_response())["params"] == {
        "progressToken": "p",
        "progress": 1.0,
        "total": 2.0,
        "message": "half",
    }
    assert (await talk.on_response())["params"] == {"progressToken": "p", "progress": 2.0}
    assert await talk.text(1) == "done"
    await late[0].session.report_progress(3.0)
    talk.call(2, "steps")
    assert await talk.text(2) == "done"


async def sure(ctx):
    answer = await ctx.session.elicit_form("sure?", FORM, related_request_id=ctx.request_id)
    return f"{answer.action} {answer.content}"


async def test_the_server_asks_the_client_during_a_call(talk):
    talk.acts["sure"] = sure
    await talk.shake()
    talk.call(1, "sure")
    asked = await talk.on_response()
    assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "sure?")
    talk.say(id=99, result={})
    # Some clients send a number back as text.
    talk.say(id=str(asked["id"]), result={"action": "accept", "content": {"sure": True}})
    assert await talk.text(1) == "accept {'sure': True}"
    talk.say(id=asked["id"], result={"action": "decline"})


async def test_an_error_of_the_client_is_one_of_the_asking(talk):
    async def asks(ctx):
        with pytest.raises(MCPError, match="not now") as failure:
            await sure(ctx)
        return str(failure.value.error.code)

    talk.acts["asks"] = asks
    await talk.shake()
    talk.call(1, "asks")
    asked = await talk.on_response()
    talk.say(id=asked["id"], error={"code": -1, "message": "not now"})
    assert await talk.text(1) == "-1"


async def test_a_question_that_is_given_up_is_called_off(talk):
    async def impatient(ctx):
        with pytest.raises(MCPError, match="timed out"):
            await talk.exchange.outbound.send_raw_request("roots/list", None, {"timeout": 0.01})
        with anyio.move_on_after(0.01):
            await talk.exchange.outbound.send_raw_request("roots/list", None)
        with anyio.move_on_after(0.01):
            await talk.exchange.outbound.send_raw_request("roots/list", None, {"cancel_on_abandon": False})
        return "on"

    talk.acts["impatient"] = impatient
    await talk.shake()
    talk.call(1, "impatient")
    for _ in range(2):
        asked, gone = await talk.on_response(), await talk.on_response()
        assert (asked["method"], "params" in asked) == ("roots/list", False)
        assert (gone["method"], gone["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
    assert (await talk.on_response())["method"] == "roots/list"
    assert await talk.text(1) == "on"


async def test_progress_of_a_question_is_heard(talk):
    heard = []

    async def note(progress, total, message):
        heard.append((progress, total, message))
        if progress == 1.0:
            raise RuntimeError("a listener that fails harms nobody")

    async def asks(ctx):
        await talk.exchange.outbound.send_raw_request("roots/list", {}, {"on_progress": note, "request_id": "mine"})
        return "done"

    talk.acts["asks"] = asks
    await talk.shake()
    talk.call(1, "asks")
    token = (await talk.on_response())["params"]["_meta"]["progressToken"]
    for progress in ({"progress": 1}, {"progress": True}, {"progress": 2, "total": 3, "message": "m"}):
        talk.say(method="notifications/progress", params={"progressToken": token, **progress})
    talk.say(id="mine", result={})
    assert await talk.text(1) == "done"
    assert heard == [(1.0, None, None), (2.0, 3.0, "m")]


async def test_a_question_at_the_end_is_answered_as_closed(talk):
    async def asks(ctx):
        with anyio.CancelScope(shield=True), pytest.raises(MCPError, match="Connection closed"):
            await talk.exchange.outbound.send_raw_request("roots/list", None)
        with anyio.CancelScope(shield=True), pytest.raises(MCPError, match="Connection closed"):
            await talk.exchange.outbound.send_raw_request("roots/list", None)
        return "over"

    talk.acts["asks"] = asks
    await talk.shake()
    talk.call(1, "asks")
    assert (await talk.on_response())["method"] == "roots/list"
    talk.intake.end()
    answer = await talk.on_response()
    assert answer.get("id") == 1


async def test_what_waits_for_the_handshake_never_begins_after_the_end(talk):
    reached, go, begun = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(ctx, call_next):
        if ctx.method == "initialize":
            reached.set()
            with anyio.CancelScope(shield=True):
                await go.wait()
        return await call_next(ctx)

    talk.server.middleware.append(slow)
    talk.acts["hold"] = held(begun, [])
    talk.say(id=0, method="initialize", params=HELLO)
    talk.call(1, "hold")
    async with asyncio.timeout(10):
        await reached.wait()
    talk.intake.end()
    await asyncio.sleep(0)
    go.set()
    assert (await talk.on_response())["id"] == 0
    assert not begun.is_set()


async def test_a_notification_that_hangs_ends_with_the_connection(talk):
    async def hang(ctx, params):
        await anyio.sleep_forever()

    talk.server.add_notification_handler("notifications/roots/list_changed", t.NotificationParams, hang)
    await talk.shake()
    talk.say(method="notifications/roots/list_changed")
    talk.intake.end()


async def test_a_listener_to_progress_that_hangs_ends_with_the_connection(talk):
    heard = asyncio.Event()

    async def hang(progress, total, message):
        heard.set()
        await anyio.sleep_forever()

    async def asks(ctx):
        await talk.exchange.outbound.send_raw_request("roots/list", {}, {"on_progress": hang})

    talk.acts["asks"] = asks
    await talk.shake()
    talk.call(1, "asks")
    token = (await talk.on_response())["params"]["_meta"]["progressToken"]
    talk.say(method="notifications/progress", params={"progressToken": token, "progress": 1})
    async with asyncio.timeout(10):
        await heard.wait()


async def test_a_server_that_is_cancelled_begins_no_call_that_waits():
    talk = Talk()
    started, begun, cleaned = asyncio.Event(), [], []

    async def hold(ctx):
        begun.append(ctx.request_id)
        ctx.session._connection.exit_stack.callback(cleaned.append, ctx.request_id)
        if len(begun) == 8:
            started.set()
        await anyio.sleep_forever()

    talk.acts["hold"] = hold
    serving = asyncio.create_task(talk.serve())
    await asyncio.sleep(0)
    await talk.shake()
    for number in range(1, 12):
        talk.call(number, "hold")
    async with asyncio.timeout(10):
        await started.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
    assert begun == list(range(1, 9))
    assert sorted(cleaned) == begun
    assert talk.intake.idle


async def test_a_server_that_is_cancelled_twice_still_cleans_up():
    talk = Talk()
    started, stubborn, cleaned = asyncio.Event(), asyncio.Event(), []

    async def hold(ctx):
        ctx.session._connection.exit_stack.callback(cleaned.append, 1)
        started.set()
        with anyio.CancelScope(shield=True):
            await stubborn.wait()
        return "late"

    talk.acts["hold"] = hold
    serving = asyncio.create_task(talk.serve())
    await asyncio.sleep(0)
    await talk.shake()
    talk.call(1, "hold")
    async with asyncio.timeout(10):
        await started.wait()
        serving.cancel()
        await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert cleaned == [1]
        stubborn.set()
        assert await talk.text(1) == "late"
        await asyncio.gather(*talk.exchange._tasks)


class Panic(BaseException):
    """As what a native module raises when it panics."""


@pytest.mark.parametrize("failure", [Panic, asyncio.CancelledError])
async def test_a_call_that_fails_beyond_exceptions_is_answered_and_the_next_goes_on(talk, failure):
    async def crash(ctx):
        raise failure("secret")

    talk.acts |= {"crash": crash, "fine": fine}
    await talk.shake()
    talk.call(1, "crash")
    answer = await talk.on_response()
    assert (answer["id"], answer["error"]["code"]) == (1, INTERNAL_ERROR)
    assert "secret" not in json.dumps(answer)
    talk.call(2, "fine")
    assert await talk.text(2) == "fine"


async def test_a_call_that_is_called_off_before_it_begins_asks_nothing(talk):
    talk.acts |= {"sure": sure, "fine": fine}
    await talk.shake()
    talk.call(1, "sure")
    talk.say(method="notifications/cancelled", params={"requestId": 1})
    talk.call(2, "fine")
    assert await talk.text(2) == "fine"


async def test_a_question_that_is_given_up_when_the_client_is_gone_fails_as_one(talk):
    outcome = asyncio.Queue()

    async def asks(ctx):
        with anyio.move_on_after(0.01) as scope:
            try:
                await talk.exchange.outbound.send_raw_request("roots/list", None)
            except Exception as e:  # noqa: BLE001 - none is expected
                outcome.put_nowait(e)
        outcome.put_nowait(scope.cancelled_caught)
        return "on"

    talk.acts["asks"] = asks
    await talk.shake()
    talk.call(1, "asks")
    assert (await talk.on_response())["method"] == "roots/list"
    talk.broken = True
    async with asyncio.timeout(10):
        assert await outcome.get() is True


async def test_a_number_that_a_question_chose_is_not_given_to_another(talk):
    async def asks(ctx):
        async with anyio.create_task_group() as group:
            group.start_soon(talk.exchange.outbound.send_raw_request, "roots/list", None, {"request_id": "1"})
            await talk.missed.wait()
            await talk.exchange.outbound.send_raw_request("roots/list", None)
        return "done"

    talk.acts["asks"] = asks
    await talk.shake()
    talk.call(9, "asks")
    assert (await talk.on_response())["id"] == "1"
    talk.missed.set()
    assert (second := await talk.on_response()).get("id") == 2, second
    talk.say(id=1, result={})
    talk.say(id=2, result={})
    assert await talk.text(9) == "done"


async def test_a_call_that_waited_sees_nothing_of_the_context_of_the_one_before(talk):
    mark = ContextVar("mark", default="clean")
    go = asyncio.Event()

    async def marks(ctx):
        mark.set("marked")
        await go.wait()
        return "marked"

    async def looks(ctx):
        return mark.get()

    talk.acts |= {"marks": marks, "looks": looks}
    await talk.shake()
    for number in range(8):
        talk.call(number, "marks")
    talk.call(8, "looks")
    go.set()
    texts = {}
    for _ in range(9):
        answer = await talk.on_response()
        texts[answer["id"]] = answer["result"]["content"][0]["text"]
    assert texts[8] == "clean"


@pytest.mark.parametrize(
    ("method", "meta", "handshake"),
    [
        ("initialize", {}, True),
        ("initialize", {t.PROTOCOL_VERSION_META_KEY: "2026-07-28"}, True),
        ("tools/list", {"progressToken": 1}, True),
        ("tools/list", {t.PROTOCOL_VERSION_META_KEY: "2026-07-28"}, False),
    ],
)
def test_the_first_request_decides_the_era(method, meta, handshake):
    request = t.JSONRPCRequest(jsonrpc="2.0", id=1, method=method, params={"_meta": meta})
    assert opens_handshake(request) is handshake
