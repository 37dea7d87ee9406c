import pytest
from pydantic import BaseModel

from tests.tables import each_row
from toolbox_mcp.safety.commands import Arguments, Command
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.guard import GuardContext
from toolbox_mcp.safety.policy import Policy


class Call(BaseModel):
    command: Command
    args: Arguments = []


def judged(command, args=(), *, allowed=("git", "ls"), unsafe=False):
    judging = GuardContext(Policy(roots=None, allowed_commands=allowed), unsafe)
    call = Call.model_validate({"command": command, "args": list(args)}, context=judging)
    if judging.refusals:
        raise judging.refusals[0]
    return call, judging.overrides


@each_row("command", ["git", "ls"])
def test_an_allowed_name_passes_as_it_is(command):
    call, overrides = judged(command)
    assert (call.command, overrides) == (command, [])


@each_row(
    ("command", "sentence"),
    [
        ("", "the command is empty"),
        (" \t", "the command is empty"),
        ("/bin/ls", "'/bin/ls' contains a slash; only the name of a command is accepted"),
        ("./ls", "'./ls' contains a slash; only the name of a command is accepted"),
        ("..\\ls", "'..\\\\ls' contains a slash; only the name of a command is accepted"),
        ("a/b;c", "'a/b;c' contains a slash; only the name of a command is accepted"),
        *((f"ls{c}", f"{'ls' + c!r} contains {c!r}; a command is one name, no shell line") for c in ";&|<>$(){}[]*?!#~`\r\n"),
        ("ls\0", "'ls\\x00' contains '\\x00'; a command is one name, no shell line"),
        ("ls -l", "'ls -l' is not an allowed command; allowed: git, ls"),
        ("rm", "'rm' is not an allowed command; allowed: git, ls"),
        ("LS", "'LS' is not an allowed command; allowed: git, ls"),
        ("ls ", "'ls ' is not an allowed command; allowed: git, ls"),
        ("ls\u200b", "'ls\\u200b' is not an allowed command; allowed: git, ls"),
        ("lsx", "'lsx' is not an allowed command; allowed: git, ls"),
    ],
)  # fmt: skip
def test_anything_but_the_exact_name_is_refused(command, sentence):
    with pytest.raises(ToolError) as refused:
        judged(command)
    assert (refused.value.code, refused.value.error) == ("command_denied", sentence)


@each_row(
    ("command", "sentence", "hint"),
    [
        ("rm", "not an allowed command; the description names the 40 that are", "delete_file deletes"),
        ("tool12x", "not an allowed command; near: tool12", None),
        ("git status", "not an allowed command; the description names the 40 that are", "the words after git belong into args"),
        ("cat a | head", "contains '|'; a command is one name, no shell line", "shell takes a whole line"),
        ("cat src/a | head", "contains a slash; only the name of a command is accepted", "shell takes a whole line"),
        (".venv/bin/git", "contains a slash; only the name of a command is accepted", "git without a folder is the project's own"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do_and_not_all_that_is_allowed(command, sentence, hint):
    with pytest.raises(ToolError) as refused:
        judged(command, allowed=("git", *(f"tool{number}" for number in range(39))))
    assert sentence in refused.value.error
    assert hint is None or hint in str(refused.value.hint)
    assert len(refused.value.error) < 120


def test_an_empty_list_allows_nothing():
    with pytest.raises(ToolError, match=r"allowed: \(none\)$"):
        judged("ls", allowed=())


def test_arguments_pass_whatever_a_shell_would_make_of_them():
    args = ["; rm -rf /", "$(id)", "`id`", "a\nb", "", "--", "*"]
    assert judged("ls", args)[0].args == args


def test_a_nul_in_an_argument_is_refused():
    with pytest.raises(ToolError) as refused:
        judged("ls", ["a", "b\0c"])
    assert (refused.value.code, refused.value.error) == ("command_denied", "args[1] contains a NUL character")


@each_row("command", ["/bin/ls", "rm", "./x"])
def test_unsafe_lifts_the_rules_on_slashes_and_names_and_notes_it_once(command):
    call, overrides = judged(command, unsafe=True)
    assert (call.command, overrides) == (command, [f"command {command}"])


@each_row("command", ["", "ls;id", "/bin/ls\n", "/bin/l?", "x\0"])
def test_unsafe_lifts_nothing_else(command):
    with pytest.raises(ToolError) as refused:
        judged(command, unsafe=True)
    assert refused.value.code == "command_denied"


def test_unsafe_that_was_not_needed_is_not_noted():
    assert judged("ls", unsafe=True)[1] == []
