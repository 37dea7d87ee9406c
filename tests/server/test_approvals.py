import asyncio

import mcp_types as t
import pytest
from mcp import MCPError
from mcp_types import ElicitResult

from toolbox_mcp.safety import redaction
from toolbox_mcp.server.call import approvals
from toolbox_mcp.server.call.approvals import PIECE, digest, question
from toolbox_mcp.server.call.exposure import Gate
from toolbox_mcp.server.call.pipeline import Rules

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Person:
    """Answers the questions of the server, one after the other."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, ctx, params):
        self.asked.append(params.message)
        answer = self.answers.pop(0)
        if answer in ("yes", "no"):
            return ElicitResult(action="accept", content={"approve": answer == "yes"})
        return ElicitResult(action=answer)


@pytest.fixture
def ask(call, project):
    """Return a function that gives the call fixture a person and a rule."""
    (project / "f").write_text("old")

    def _ask(mode: str, rules: Rules, *answers: str) -> Person:
        person = Person(*answers)
        call.rules = rules
        call.client_options = {"mode": mode, "elicitation_callback": person}
        return person

    return _ask


DIFFERENT = [
    ("tool", {}),
    ("tool", {"a": None}),
    ("tool", {"a": "null"}),
    ("tool", {"a": 1}),
    ("tool", {"a": "1"}),
    ("tool", {"a": 1.0}),
    ("tool", {"a": True}),
    ("tool", {"a": 12, "b": 3}),
    ("tool", {"a": 1, "b": 23}),
    ("tool", {"a": "bc"}),
    ("tool", {"ab": "c"}),
    ("tool", {"a": '1;"1:b1;'}),
    ("tool", {"a": ["b", "c"]}),
    ("tool", {"a": ["c", "b"]}),
    ("tool", {"a": ["bc"]}),
    ("tool", {"a": [["b"], "c"]}),
    ("tool", {"a": [["b", "c"]]}),
    ("tool", {"a": []}),
    ("tool", {"a": {}}),
    ("tool", {"a": {"b": "c"}}),
    ("tool", {"a": ["b"], "c": []}),
    ("tool", {"a": "\ud83d\ude00"}),
    ("tool", {"a": "\U0001f600"}),
    ("tool", {"a": "\ud83d"}),
    ("tool", {"a": "x" * PIECE}),
    ("tool", {"a": "x" * (PIECE + 1)}),
    ("tool", {"a": "x" * PIECE + "y"}),
    ("other", {}),
]


async def test_no_two_calls_have_the_same_digest():
    assert len({await digest(tool, arguments) for tool, arguments in DIFFERENT}) == len(DIFFERENT)


async def test_the_order_of_names_makes_no_other_call():
    inner = {"x": 1, "y": [2]}
    assert await digest("tool", {"a": inner, "b": 3}) == await digest(
        "tool", {"b": 3, "a": dict(reversed(inner.items()))}
    )


async def test_other_calls_go_on_while_long_arguments_are_taken_in():
    running = asyncio.ensure_future(digest("write_file", {"content": "x" * (16 << 20), "more": ["y"] * 10_000}))
    turns = 0
    while not running.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 10


@ERAS
@pytest.mark.parametrize("answer", ["no", "decline", "cancel"])
async def test_what_the_person_does_not_approve_does_not_run(call, project, ask, mode, answer):
    ask(mode, Rules(approvals={"write_file": "always"}), answer)
    assert await call.code("write_file", path="f", content="new") == "approval_denied"
    assert (project / "f").read_text() == "old"


@ERAS
async def test_a_client_that_cannot_ask_is_told_apart_from_a_person_who_refuses(call, project, ask, mode):
    ask(mode, Rules(approvals={"write_file": "always"}))
    call.client_options = {"mode": mode}
    assert await call("write_file", path="f", content="new") == {
        "error": "write_file needs the approval of a person, and this client asks none",
        "code": "approval_denied",
        "hint": "the operator can take write_file out of approvals, or use a client with elicitation",
    }
    assert (project / "f").read_text() == "old"


@ERAS
async def test_always_asks_at_each_call_and_shows_the_tool_and_its_arguments(call, project, ask, mode):
    person = ask(mode, Rules(approvals={"write_file": "always"}), "yes", "no")
    assert await call("write_file", path="f", content="new") == "Overwrote f (3 bytes)"
    assert await call.code("write_file", path="f", content="newer") == "approval_denied"
    assert person.asked[0] == 'Let the agent run write_file with {"content": "new", "path": "f"}'
    assert (project / "f").read_text() == "new"


@ERAS
async def test_once_asks_at_the_first_call_of_a_session_only(call, ask, mode):
    person = ask(mode, Rules(approvals={"write_file": "once"}), "yes")
    for content in ("a", "b", "c"):
        assert not (await call.result("write_file", {"path": "f", "content": content})).is_error
    assert len(person.asked) == 1


@ERAS
async def test_arguments_are_judged_before_the_person_is_asked(call, ask, mode):
    person = ask(mode, Rules(approvals={"write_file": "always"}))
    assert await call.code("write_file", path="../x", content="") == "path_denied"
    assert await call.code("write_file", path="f") == "invalid_args"
    assert not person.asked


@ERAS
async def test_a_question_masks_secrets_and_is_short(call, ask, mode):
    person = ask(mode, Rules(approvals={"write_file": "always"}), "no")
    secret = "ghp_" + "a1B2" * 9
    await call.code("write_file", path="f", content=f"token = {secret}\n" + "x" * 5000)
    assert secret not in person.asked[0]
    assert len(person.asked[0]) < 1100


@ERAS
async def test_a_question_shows_what_is_done_before_the_content(call, ask, mode):
    person = ask(mode, Rules(approvals={"write_file": "always"}), "no")
    await call.code("write_file", content="x" * 5000, path="f")
    assert person.asked[0].startswith('Let the agent run write_file with {"path": "f", "content": "xxx')


async def test_of_long_arguments_only_the_beginning_is_searched_for_secrets(monkeypatch):
    searched = []

    def redact(value, most):
        searched.append(most)
        return redaction.redact(value, most)

    monkeypatch.setattr(approvals, "redact", redact)
    question("write_file", {"path": "f", "content": "x\n" * 2**23, "more": ["y" * 2**20] * 16}, "May")
    assert sum(searched) < 20_000


@pytest.mark.parametrize("before", [0, 900, 990, 3990, 5000])
def test_no_part_of_a_secret_is_shown_wherever_it_is_cut(before):
    secret = "ghp_" + "a1B2" * 9
    asked = question("write_file", {"content": "." * before + " " + secret}, "May")
    assert secret[:12] not in asked


async def test_a_client_without_elicitation_means_no(call, project):
    (project / "f").write_text("old")
    call.rules = Rules(approvals={"write_file": "always"}, allow_unsafe="ask")
    assert await call.code("write_file", path="f", content="new") == "approval_denied"
    assert await call.code("write_file", path="f", content="new", unsafe=True) == "unsafe_denied"
    assert (project / "f").read_text() == "old"


@ERAS
async def test_a_granted_unsafe_lifts_the_guard_for_that_call_only(call, project, ask, mode):
    ask(mode, Rules(allow_unsafe="ask"), "yes", "no")
    outside = project.parent / "outside"
    assert await call("write_file", path=str(outside), content="x", unsafe=True) == f"Created {outside} (1 bytes)"
    assert await call.code("write_file", path=str(outside), content="y", unsafe=True) == "unsafe_denied"
    assert outside.read_text() == "x"
    assert call.overrides == [("write_file", f"path {outside}")]


@ERAS
async def test_unsafe_and_approval_are_two_questions(call, project, ask, mode):
    rules = Rules(allow_unsafe="ask", approvals={"write_file": "always"})
    person = ask(mode, rules, "yes", "yes", "yes", "no")
    outside = project.parent / "outside"
    assert await call("write_file", path=str(outside), content="x", unsafe=True) == f"Created {outside} (1 bytes)"
    assert await call.code("write_file", path=str(outside), content="y", unsafe=True) == "approval_denied"
    assert [asked.split(" ")[3] for asked in person.asked] == ["bypass", "run", "bypass", "run"]
    assert outside.read_text() == "x"


@ERAS
async def test_a_tool_that_is_not_enabled_is_refused_without_a_question(call, ask, mode):
    person = ask(mode, Rules(approvals={"write_file": "always"}, allow_unsafe="ask"))
    call.gate = Gate()
    assert await call.code("write_file", path="f", content="x", unsafe=True) == "exec_disabled"
    assert not person.asked


async def test_an_answer_cannot_be_spent_on_another_call(call, project, ask):
    """The stateless era carries the answer with the call: it counts for the arguments that were asked about."""
    ask("auto", Rules(approvals={"write_file": "always"}))
    client = await call.client()
    first = await client.session.send_request(
        t.CallToolRequest(params=t.CallToolRequestParams(name="write_file", arguments={"path": "f", "content": "a"})),
        t.InputRequiredResult,
    )
    answer = {"approval": t.ElicitResult(action="accept", content={"approve": True})}

    async def answered(content: str, state: str | None) -> t.InputRequiredResult:
        params = t.CallToolRequestParams(
            name="write_file",
            arguments={"path": "f", "content": content},
            input_responses=answer,
            request_state=state,
        )
        return await client.session.send_request(t.CallToolRequest(params=params), t.InputRequiredResult)

    with pytest.raises(MCPError, match="requestState"):
        await answered("b", first.request_state)
    assert (await answered("a", None)).input_requests
    assert (project / "f").read_text() == "old"
