import asyncio
import time

import mcp_types as t
import pytest
from mcp import MCPError
from mcp_types import ElicitResult

from tests.tables import each_row
from toolbox_mcp.server.call.approvals import PIECE, digest, question
from toolbox_mcp.server.call.exposure import ExposurePolicy
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
async def test_a_question_shows_what_is_done_before_the_content(call, ask, mode):
    person = ask(mode, Rules(approvals={"write_file": "always"}), "no")
    await call.code("write_file", content="x\n" * 5000, path="f")
    assert person.asked[0].startswith('Let the agent run write_file with {"path": "f"}\ncontent (10000 characters, ')
    assert len(person.asked[0]) < 20_000


# What the agent writes so that it looks like a secret; the person has to read all of it.
DISGUISED = [
    ("shell", "command", 'token="$(touch canary)" ls', 'token=\\"$(touch canary)\\" ls'),
    ("shell", "command", "echo Cookie: $(touch canary)", "echo Cookie: $(touch canary)"),
    ("shell", "command", ": -----BEGIN PRIVATE KEY-----\ntouch canary", "| touch canary"),
    ("shell", "commands", ["ls", "password=x;touch canary"], "password=x;touch canary"),
    ("bash", "args", ["-c", ": -----BEGIN PRIVATE KEY-----\ntouch canary"], "touch canary"),
    ("bash", "args", ["--token", "$(touch canary)"], "$(touch canary)"),
    ("run_python", "code", "token = 1\nimport os; os.system('touch canary')", "os.system('touch canary')"),
    ("write_file", "content", "# -----BEGIN PRIVATE KEY-----\nimport os", "| import os"),
    ("write_file", "path", "token=x/../../outside/canary", "token=x/../../outside/canary"),
    ("write_file", "path", "ghp_" + "a1B2" * 9, "ghp_a1B2"),
    ("shell", "env", {"TOKEN": "x; touch canary"}, "x; touch canary"),
    ("shell", "env", {"TOKEN": "$(touch canary)"}, "$(touch canary)"),
    ("bash", "args", ["a\u202eb\u200bc\U000e0041"], "a<U+202E>b<U+200B>c<U+E0041>"),
    ("write_file", "content", "a\nb\rc\u202ed\x1b[8m", "| b<U+000D>c<U+202E>d<U+001B>[8m"),
]


@each_row(("tool", "name", "value", "seen"), DISGUISED)
def test_a_question_shows_what_runs_whatever_it_looks_like(tool, name, value, seen):
    asked = question(tool, {name: value}, "Let the agent run")
    assert seen in asked
    assert "redacted" not in asked


@each_row(
    ("name", "value", "hidden"),
    [
        ("env", {"API_TOKEN": "abc123def"}, "abc123def"),
        ("headers", {"Authorization": "Bearer abc123def"}, "abc123def"),
        ("headers", {"X-Api-Key": "abc123def"}, "abc123def"),
        ("options", {"nested": {"password": "abc123def"}}, "abc123def"),
    ],
)
def test_a_question_masks_values_under_the_names_of_secrets_and_tells_their_length(name, value, hidden):
    asked = question("http_request", {name: value}, "May")
    assert hidden not in asked
    assert "[redacted, " in asked


def test_a_question_tells_of_what_it_cuts_how_long_it_is_and_its_digest():
    asked = question("write_file", {"path": "f", "content": "a" * 9000 + "hidden" + "b" * 90_000}, "May")
    assert "content (99006 characters, 1 lines, sha256 " in asked
    assert "[... 95006 characters are not shown ...]" in asked
    other = question("write_file", {"path": "f", "content": "a" * 9000 + "HIDDEN" + "b" * 90_000}, "May")
    assert asked != other
    many = question("multi_edit", {f"x{at}": "y" * 2**20 for at in range(8)}, "May")
    assert len(many) < 20_000


def test_content_cannot_pass_for_another_argument_of_the_question():
    asked = question(
        "write_file", {"path": "f", "content": "x\npath (1 characters, 1 lines, sha256 0):\n| harmless"}, "May"
    )
    assert "\n| path (1 characters" in asked
    assert "\npath (" not in asked


@each_row(
    ("tool", "arguments"),
    [
        ("edit_file", {"path": "f", "old_string": "a\nb\nc", "new_string": "a\nB\nc"}),
        ("multi_edit", {"path": "f", "edits": [{"old_string": "a\nb\nc", "new_string": "a\nB\nc" + " " * 200}]}),
    ],
)
def test_an_edit_is_shown_as_a_diff(tool, arguments):
    asked = question(tool, arguments, "May")
    assert "|  a\n| -b" in asked
    assert "\n| +B" in asked


def test_a_question_of_large_arguments_is_made_at_once():
    started = time.process_time()
    question("write_file", {"path": "f", "content": "x\n" * 2**21, "more": ["y" * 2**20] * 4}, "May")
    assert time.process_time() - started < 5


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
    call.gate = ExposurePolicy()
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
