import asyncio
import contextlib
import gc
import json
import weakref
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import pytest
from mcp import MCPError
from pydantic import Field

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.safety.policy import Policy
from toolbox_mcp.server.budget.budget import Budget
from toolbox_mcp.server.budget.tokenizers import tokenizer_for
from toolbox_mcp.server.call import pipeline
from toolbox_mcp.server.call.exposure import ExposurePolicy, expose
from toolbox_mcp.server.call.pipeline import Pipeline, Rules
from toolbox_mcp.server.records.recorder import Finished, RecordError, Started
from toolbox_mcp.tools import progress
from toolbox_mcp.tools.base import Access, tool
from toolbox_mcp.tools.catalogue import load_tools
from toolbox_mcp.tools.context import CallContext
from toolbox_mcp.tools.results import Text
from toolbox_mcp.tools.services import Context, Progress
from toolbox_mcp.tools.settings import ToolSettings

TOOLS = load_tools()


class Happened:
    """What the handlers of these tests did."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.running = 0
        self.most = 0
        self.go = asyncio.Event()


@pytest.fixture
def happened() -> Happened:
    return Happened()


@pytest.fixture
def call(call, happened):
    @tool(Access.READ)
    async def echo(
        count: Annotated[int, Field(ge=1, le=10)] = 1,
        flag: bool = False,
        ratio: float = 0.5,
        words: list[str] | None = None,
        table: dict[str, int] | None = None,
        label: str = "x",
    ) -> Text:
        """Say the arguments."""
        happened.calls.append(count)
        return Text(json.dumps([count, flag, ratio, words, table, label]))

    @tool(Access.READ)
    async def crash(kind: str = "value") -> Text:
        """Fail in some way."""
        if kind == "base":
            raise Panic("secret in a panic")
        if kind == "timeout":
            raise TimeoutError("secret")
        if kind == "own":
            raise ToolError(Code.TIMEOUT, "it took 1 of 2 bytes within 5 s")
        if kind == "group":
            async with anyio.create_task_group():
                raise ToolError(Code.NOT_FOUND, "from a task group")
        if kind == "recursion":
            return await crash.run("recursion")
        raise ValueError("secret /etc/passwd")

    @tool(Access.READ)
    async def hang() -> Text:
        """Wait until told."""
        happened.running += 1
        happened.most = max(happened.most, happened.running)
        happened.begun.set()
        try:
            await happened.go.wait()
        finally:
            happened.running -= 1
            happened.ended.set()
        return Text("done")

    @tool(Access.EXEC)
    async def shell() -> Text:
        """Stand for the shell."""
        return Text("ran")

    @tool(Access.WRITE, unsafe=True)
    async def change(what: str = "it") -> Text:
        """Change something."""
        happened.calls.append(what)
        return Text(f"changed {what}")

    @tool(Access.READ)
    async def who(context: Context) -> Text:
        """Tell who calls."""
        return Text(
            json.dumps(
                [context.id, context.tenant_id, context.agent, context.session, context["container_id"], context.off]
            )
        )

    @tool(Access.READ)
    async def steps(progress: Progress) -> Text:
        """Report progress."""
        for n in range(3):
            await progress(n, 3, f"step {n}")
        return Text("done")

    call.catalogue = (echo, crash, hang, shell, change, who, steps)
    return call


class Panic(BaseException):
    """Stands for the panic of a native library, which is no Exception."""


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ({}, [1, False, 0.5, None, None, "x"]),
        ({"count": "5"}, [5, False, 0.5, None, None, "x"]),
        ({"count": 5.0}, [5, False, 0.5, None, None, "x"]),
        ({"flag": "true"}, [1, True, 0.5, None, None, "x"]),
        ({"flag": "False"}, [1, False, 0.5, None, None, "x"]),
        ({"words": '["a", "b"]'}, [1, False, 0.5, ["a", "b"], None, "x"]),
        ({"table": '{"a": 1}'}, [1, False, 0.5, None, {"a": 1}, "x"]),
        ({"words": None, "count": None, "label": None}, [1, False, 0.5, None, None, "x"]),
        ({"ratio": 1}, [1, False, 1.0, None, None, "x"]),
    ],
)
async def test_lossless_repairs_are_accepted(call, arguments, seen):
    assert json.loads((await call("echo", **arguments)).rpartition("\n")[2]) == seen


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        ({"cuont": 1}, "cuont: no such argument", "did you mean count?"),
        ({"zzz": 1}, "zzz: no such argument", "known: count, flag, ratio, words, table, label"),
        ({"count": 0}, "count: expected at least 1", None),
        ({"count": 1.5}, "count: expected an integer, got 1.5", None),
        ({"count": "two"}, 'count: expected an integer, got "two"', None),
        ({"count": "1" * 5000}, 'count: expected an integer, got "' + "1" * 99, None),
        ({"count": [1]}, "count: expected an integer, got [1]", None),
        ({"ratio": "half"}, 'ratio: expected a number, got "half"', None),
        ({"ratio": {"a": 1}}, 'ratio: expected a number, got {"a": 1}', None),
        ({"count": True}, "count: expected an integer, got true", None),
        ({"flag": 1}, "flag: expected a boolean, got 1", None),
        ({"flag": "yes"}, 'flag: expected a boolean, got "yes"', None),
        ({"label": 5}, "label: expected a string, got a number", None),
        ({"words": "no list"}, "words: expected a list, got a string", 'such as ["no list"]'),
        ({"words": '{"a": 1}'}, "words: expected a list, got a string", None),
        ({"words": [1]}, "words.0: expected a string, got a number", None),
        ({"table": ["a"]}, "table: expected an object, got a list", None),
        ({"label": ["a"]}, "label: expected a string, got a list", None),
        ({"zzz": 1, "count": 0}, "zzz: no such argument", "known: count, flag, ratio, words, table, label"),
    ],
)
async def test_what_does_not_fit_is_refused_with_the_field_and_what_was_expected(
    call, happened, arguments, error, hint
):
    answer = await call("echo", **arguments)
    assert answer == {"error": error, "code": "invalid_args"} | ({"hint": hint} if hint else {})
    assert not happened.calls


@pytest.mark.parametrize("kind", ["value", "base", "timeout", "recursion"])
async def test_a_handler_that_crashes_answers_a_fixed_sentence_and_the_next_call_works(call, kind, caplog):
    assert await call("crash", kind=kind) == {
        "error": "crash failed inside the server",
        "code": "tool_exception",
        "hint": "the server's log has the details",
    }
    assert "Traceback" in caplog.text
    assert await call("echo") != ""


async def test_an_error_out_of_a_task_group_keeps_its_code(call):
    assert await call("crash", kind="group") == {"error": "from a task group", "code": "not_found"}


async def test_an_unknown_tool_is_a_protocol_error(call):
    with pytest.raises(MCPError) as e:
        await call("nothing")
    assert e.value.error.code == -32602


@pytest.mark.parametrize(
    ("gate", "name", "code", "hint"),
    [
        (ExposurePolicy(), "change", "exec_disabled", "the operator can set enable_exec_tools: true"),
        (ExposurePolicy(), "shell", "exec_disabled", "the operator can set enable_exec_tools: true"),
        (ExposurePolicy(enable_exec_tools=True), "shell", "shell_disabled", "the operator can set enable_shell: true"),
        (ExposurePolicy(enable_exec_tools=True, exec_tools=["shell"]), "change", "exec_disabled",
         "the operator can add change to exec_tools"),
    ],
)  # fmt: skip
async def test_the_gate_comes_before_the_arguments_and_names_the_setting(call, happened, gate, name, code, hint):
    call.gate = gate
    answer = await call(name, nonsense=True, unsafe=True)
    assert (answer["code"], answer["hint"]) == (code, hint)
    assert not happened.calls


async def test_nothing_is_kept_of_a_call_of_a_tool_that_is_not_enabled(call, tmp_path):
    class Content(str):
        """A text that tells when it goes."""

    with contextlib.closing(Roots([tmp_path])) as roots:
        exposure, budget = expose(call.catalogue, ExposurePolicy()), Budget(2000, tokenizer_for("gpt-4o"))
        calls = Pipeline(exposure, Policy(roots, ()), ToolSettings(), Rules(), budget, {})
        content = Content("x")
        gone = weakref.ref(content)
        answer = await calls.call("change", {"what": content}, CallContext("1"))
        del content
        gc.collect()
    assert (answer["isError"], gone()) == (True, None)


async def test_what_is_closed_is_hidden_from_the_list_unless_asked_for(call):
    call.gate = ExposurePolicy()
    client = await call.client()
    assert [t.name for t in (await client.list_tools()).tools] == ["crash", "echo", "hang", "steps", "who"]


async def test_closed_tools_are_listed_where_the_operator_wants_that(call):
    call.gate = ExposurePolicy(list_disabled=True)
    client = await call.client()
    assert "change" in [t.name for t in (await client.list_tools()).tools]
    assert await call.code("change") == "exec_disabled"


async def test_a_tool_outside_the_toolsets_does_not_exist(call):
    call.catalogue = TOOLS
    call.gate = ExposurePolicy(toolsets=["util"])
    with pytest.raises(MCPError):
        await call("read_file", path="x")
    assert await call("calculator", expression="1") == "= 1"


async def test_a_deadline_ends_the_call_and_says_after_how_long(call, happened):
    call.rules = Rules(tool_timeouts={"hang": 0.1})
    answer = await call("hang")
    assert answer == {"error": "TIMEOUT: hang gave no answer within 0.1s", "code": "timeout"}
    assert happened.ended.is_set()


async def test_a_deadline_of_zero_is_none(call, happened):
    call.rules = Rules(tool_timeouts={"hang": 0}, max_tool_timeout=0.05, default_tool_timeout=0.05)
    task = asyncio.create_task(call("hang"))
    with anyio.fail_after(5):
        await happened.begun.wait()
        assert await call.code("crash") == "tool_exception"
        happened.go.set()
        assert await task == "done"


async def test_the_cap_holds_for_every_deadline(call):
    call.rules = Rules(tool_timeouts={"hang": 99}, max_tool_timeout=0.1)
    assert (await call("hang"))["error"].endswith("within 0.1s")


async def test_more_calls_than_may_be_in_flight_wait_their_turn(call, happened):
    call.rules = Rules(max_in_flight=3)
    await call.client()
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call, "hang")
        with anyio.fail_after(5):
            await happened.begun.wait()
            happened.go.set()
    assert happened.most <= 3


async def test_one_principal_leaves_a_quarter_of_the_calls_at_a_time_to_others(call, happened, tmp_path):
    with contextlib.closing(Roots([tmp_path])) as roots:
        exposure, budget = expose(call.catalogue, ExposurePolicy()), Budget(2000, tokenizer_for("gpt-4o"))
        calls = Pipeline(exposure, Policy(roots, ()), ToolSettings(), Rules(max_in_flight=4), budget, {})
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(calls.call, "hang", {}, CallContext(str(number), principal="mallory"))
            await happened.begun.wait()
            with anyio.fail_after(5):
                answer = await calls.call("echo", {}, CallContext("a", principal="alice"))
            assert (answer.get("isError", False), happened.calls, happened.running) == (False, [1], 3)
            happened.go.set()
    assert happened.most == 3


async def test_cancelling_a_call_ends_its_handler(call, happened):
    client = await call.client()
    with anyio.move_on_after(10) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "hang", {})
            await happened.begun.wait()
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    with anyio.fail_after(5):
        await happened.ended.wait()


async def test_unsafe_needs_the_operator(call, happened):
    assert (await call("change", unsafe=True))["code"] == "unsafe_denied"
    assert not happened.calls
    assert await call("change", unsafe=False) == "changed it"


async def test_the_call_context_comes_from_meta_and_is_new_for_every_call(call):
    client = await call.client()
    told = {
        "execution_id": "run-1", "tenant_id": "acme", "agent": "coder",
        "params": {"container_id": "c7", "off": False},
    }  # fmt: skip
    result = await client.call_tool("who", {}, meta={"toolbox-mcp/context": told})
    assert json.loads(result.content[0].text.rpartition("\n")[2]) == [
        "run-1",
        "acme",
        "coder",
        "session:stdio",
        "c7",
        False,
    ]
    again = json.loads((await call("who")).rpartition("\n")[2])
    assert again[1:] == [None, None, "session:stdio", None, None]
    assert again[0] != "run-1"


@pytest.mark.parametrize("told", ["text", 5, {"execution_id": 7, "params": []}, {"tenant_id": {"a": 1}}])
async def test_a_malformed_context_is_ignored(call, told):
    client = await call.client()
    result = await client.call_tool("who", {}, meta={"toolbox-mcp/context": told})
    assert json.loads(result.content[0].text.rpartition("\n")[2])[1:] == [None, None, "session:stdio", None, None]


async def test_progress_grows_and_comes_only_to_those_who_asked(call):
    call.client_options = {"mode": "legacy"}
    client = await call.client()
    seen: list[float] = []

    async def note(done: float, total: float | None, message: str | None) -> None:
        seen.append(done)

    await client.call_tool("steps", {}, progress_callback=note)
    assert seen[:1] == [0]
    assert seen == sorted(set(seen))


async def test_every_result_names_its_call(call):
    first = (await call.result("echo", {})).meta["call_id"]
    second = (await call.result("crash", {})).meta["call_id"]
    assert first < second


async def test_a_long_call_sends_a_heartbeat_that_grows(call, happened, monkeypatch):
    monkeypatch.setattr(pipeline, "HEARTBEAT", 0.01)
    monkeypatch.setattr(progress, "INTERVAL", 0)
    call.client_options = {"mode": "legacy"}
    client = await call.client()
    seen: list[float] = []
    enough = asyncio.Event()

    async def note(done: float, total: float | None, message: str | None) -> None:
        seen.append(done)
        if len(seen) == 3:
            enough.set()

    async with anyio.create_task_group() as group:

        async def ask() -> None:
            await client.call_tool("hang", {}, progress_callback=note)

        group.start_soon(ask)
        with anyio.fail_after(5):
            await enough.wait()
        happened.go.set()
    assert seen == sorted(set(seen))


class FullDisk:
    """A recorder that cannot write."""

    async def start(self, started: Started) -> None:
        raise RecordError("no space left on device")

    async def finish(self, started: Started, finished: Finished, *, is_begun: bool) -> None:
        raise RecordError("no space left on device")


async def test_a_record_that_cannot_be_written_stops_what_changes_something_and_nothing_else(call, happened):
    call.extra["recorder"] = FullDisk()
    assert await call("echo") != ""
    assert await call("change") == {
        "error": "change cannot be recorded, so it does not run",
        "code": "refused",
        "hint": "the disk may be full",
    }
    assert happened.calls == [1]


class Kept:
    """A recorder that keeps what it is told, each thing once gate is open."""

    def __init__(self) -> None:
        self.began: list[Started] = []
        self.ended: list[tuple[Started, Finished]] = []
        self.over = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def start(self, started: Started) -> None:
        await self.gate.wait()
        self.began.append(started)

    async def finish(self, started: Started, finished: Finished, *, is_begun: bool) -> None:
        assert is_begun == (started.call_id in [each.call_id for each in self.began])
        await self.gate.wait()
        self.ended.append((started, finished))
        self.over.set()

    async def only(self) -> Finished:
        """Wait for the end of the only call, and return it."""
        with anyio.fail_after(5):
            await self.over.wait()
        [(_, finished)] = self.ended
        return finished


@pytest.mark.parametrize(
    ("name", "arguments", "status", "code"),
    [
        ("echo", {}, "success", None),
        ("echo", {"nope": 1}, "error", "invalid_args"),
        ("crash", {}, "error", "tool_exception"),
        ("crash", {"kind": "timeout"}, "error", "tool_exception"),
        ("crash", {"kind": "own"}, "error", "timeout"),
        ("hang", {}, "timed_out", "timeout"),
        ("shell", {}, "denied", "shell_disabled"),
        ("change", {"unsafe": True}, "denied", "unsafe_denied"),
        ("change", {"unsafe": "True"}, "denied", "unsafe_denied"),
    ],
)
async def test_every_outcome_is_recorded(call, name, arguments, status, code):
    kept = call.extra["recorder"] = Kept()
    call.gate = ExposurePolicy(enable_exec_tools=True)
    call.rules = Rules(tool_timeouts={"hang": 0.05})
    result = await call.result(name, arguments)
    [(started, finished)] = kept.ended
    assert started.call_id == result.meta["call_id"]
    assert (started.tool, dict(started.input), started.session) == (name, arguments, "session:stdio")
    assert (finished.status, finished.code) == (status, code)
    assert finished.output == result.content[0].text
    assert status != "timed_out" or finished.error_message == "timed out after 0.05s"


async def test_a_cancelled_call_is_recorded_as_cancelled(call, happened):
    kept = call.extra["recorder"] = Kept()
    client = await call.client()
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "hang", {})
        await happened.begun.wait()
        group.cancel_scope.cancel()
    finished = await kept.only()
    assert (finished.status, finished.code) == ("cancelled", "cancelled")


async def test_a_call_that_is_cancelled_before_it_runs_is_recorded(call, happened):
    kept = call.extra["recorder"] = Kept()
    call.rules = Rules(max_in_flight=1)
    client = await call.client()
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "hang", {})
        await happened.begun.wait()
        async with anyio.create_task_group() as second:
            second.start_soon(client.call_tool, "echo", {})
            await anyio.wait_all_tasks_blocked()
            second.cancel_scope.cancel()
        with anyio.fail_after(5):
            await kept.over.wait()
        happened.go.set()
    started, finished = kept.ended[0]
    assert (started.tool, finished.status) == ("echo", "cancelled")
    assert not happened.calls


async def test_no_answer_leaves_before_its_row_is_written(call, happened):
    kept = call.extra["recorder"] = Kept()
    client = await call.client()
    kept.gate.clear()
    asking = asyncio.create_task(client.call_tool("echo", {}))
    await anyio.wait_all_tasks_blocked()
    assert happened.calls and not asking.done()
    kept.gate.set()
    assert not (await asking).is_error


async def test_what_may_change_something_runs_once_its_row_is_written(call, happened):
    kept = call.extra["recorder"] = Kept()
    client = await call.client()
    kept.gate.clear()
    asking = asyncio.create_task(client.call_tool("change", {}))
    await anyio.wait_all_tasks_blocked()
    assert not happened.calls and not asking.done()
    kept.gate.set()
    await asking
    assert len(happened.calls) == len(kept.began) == len(kept.ended) == 1


async def test_what_only_reads_has_one_row(call):
    kept = call.extra["recorder"] = Kept()
    await call("echo")
    assert (len(kept.began), len(kept.ended)) == (0, 1)


async def test_a_tools_own_reports_do_not_silence_the_heartbeat(call, happened, monkeypatch):
    monkeypatch.setattr(pipeline, "HEARTBEAT", 0.01)
    monkeypatch.setattr(progress, "INTERVAL", 0)
    seen: list[tuple[float, str | None]] = []
    enough = asyncio.Event()

    @tool(Access.READ)
    async def counting(progress: Progress) -> Text:
        """Report once, then wait."""
        await progress(6, None, "6 matches")
        await enough.wait()
        return Text("done")

    async def note(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, message))
        if len(seen) == 3:
            enough.set()

    call.catalogue = (counting,)
    call.client_options = {"mode": "legacy"}
    client = await call.client()
    with anyio.fail_after(5):
        await client.call_tool("counting", {}, progress_callback=note)
    assert seen[0] == (6, "6 matches")
    values = [done for done, _ in seen]
    assert values == sorted(set(values)) and values[-1] < 6.1
