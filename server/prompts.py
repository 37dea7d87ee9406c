"""The prompts that a person picks in a client, written for the tools that are listed."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

import mcp_types as t

FRAMEWORKS = ("auto", "pytest", "unittest", "rspec", "minitest", "npm", "cargo", "go")
"""What fix_tests offers for framework."""

Listed = Collection[str]
Arguments = Mapping[str, str]


def toolbox_guide(listed: Listed, given: Arguments) -> str:
    """Return which of the listed tools to use for what."""
    rows = [f"- {what}: {', '.join(names)}" for what, names in _uses(listed)]
    return "\n".join(
        [
            "These are the tools of this server for one project folder, by what they are for:",
            *rows,
            "Prefer them to a shell where both would do: their answers are short, checked and, for changes, can be undone.",
        ]
    )


def explore_project(listed: Listed, given: Arguments) -> str:
    """Return how to get to know the project."""
    steps = [
        ("code_outline", 'code_outline {"path": "."} for the definitions that the rest of the code mentions most'),
        ("tree", "tree for the folders"),
        ("read_file", "read_file for the README and the project's settings, several at once by paths"),
        ("git_log", "git_log for what has been worked on last"),
    ]
    return _steps(
        "Get to know this project, and then tell me in at most 20 lines what it is, how it is built and tested, and where "
        "the main parts are, with the names of files.",
        listed,
        steps,
    )


def review_changes(listed: Listed, given: Arguments) -> str:
    """Return how to review the uncommitted changes, or those since a ref."""
    ref = given.get("ref", "").strip()
    what = f"the changes since {ref}" if ref else "the changes that are not committed yet"
    steps = [
        ("git_status", "git_status for what has changed"),
        ("git_diff", f'git_diff {{"ref": "{ref}"}}' if ref else "git_diff, and again with staged"),
        ("read_file", "read_file around each change: the diff alone hides what it breaks"),
        ("grep_files", "grep_files for other uses of what was renamed or changed its meaning"),
        ("run_tests", "run_tests for what the changes touch"),
    ]
    return _steps(
        f"Review {what}. Report only real problems: file, line, what happens, and how to mend it; the worst first. Say so if "
        "there are none. Change nothing.",
        listed,
        steps,
    )


def fix_tests(listed: Listed, given: Arguments) -> str:
    """Return how to make failing tests pass."""
    arguments = ", ".join(f'"{name}": "{given[name]}"' for name in ("path", "framework") if given.get(name))
    steps = [
        ("run_tests", f"run_tests {{{arguments}}}: read the first failure before any other"),
        ("grep_files", "grep_files and read_file for the code behind it; find the cause before you edit"),
        ("edit_file", "edit_file with the smallest change that mends the cause; do not weaken the test"),
        ("run_tests", "run_tests again, first that test by filter, then all; go on until all pass"),
        ("git_diff", "git_diff at the end, and tell me what was wrong and what you changed"),
    ]
    return _steps("Make the failing tests of this project pass.", listed, steps)


_ARGUMENTS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "review_changes": (("ref", "a branch, tag or commit to compare with; default: what is not committed"),),
        "fix_tests": (("path", "a test file or folder"), ("framework", f"one of {', '.join(FRAMEWORKS)}")),
    }
)

PROMPTS: Mapping[str, tuple[str, Callable[[Listed, Arguments], str]]] = MappingProxyType(
    {
        "toolbox_guide": ("Which tool for what, as this server is configured", toolbox_guide),
        "explore_project": ("Get to know a code base", explore_project),
        "review_changes": ("Review what has changed, or what differs from a ref", review_changes),
        "fix_tests": ("Find out why tests fail, and mend it", fix_tests),
    }
)
"""Each prompt: its description, and what writes it."""


def listing() -> t.ListPromptsResult:
    """Return the prompts with their arguments."""
    return t.ListPromptsResult(
        prompts=[
            t.Prompt(
                name=name,
                title=name.replace("_", " ").capitalize(),
                description=description,
                arguments=[
                    t.PromptArgument(name=argument, description=meaning, required=False)
                    for argument, meaning in _ARGUMENTS.get(name, ())
                ],
            )
            for name, (description, _) in PROMPTS.items()
        ]
    )


def written(name: str, given: Arguments, listed: Listed) -> t.GetPromptResult | None:
    """Return a prompt for the tools that are listed; None for one that does not exist."""
    if name not in PROMPTS:
        return None
    description, write = PROMPTS[name]
    # One line each: an argument is a value and must not read as instructions of its own.
    values = {key: " ".join(value.split())[:200] for key, value in given.items()}
    content = t.TextContent(type="text", text=write(listed, values))
    return t.GetPromptResult(description=description, messages=[t.PromptMessage(role="user", content=content)])


_USES = (
    ("find", "glob grep_files tree list_directory code_outline parse_ruby"),
    ("read", "read_file file_info json_query yaml_query toml_query csv_read"),
    (
        "change",
        "edit_file multi_edit edit_lines replace_in_files write_file apply_patch csv_write move_file delete_file undo",
    ),
    ("run", "bash shell run_script process_start process_output"),
    ("run untrusted code", "run_python run_ruby run_node run_rust"),
    ("test and check", "run_tests python_tests lint bundle"),
    ("history", "git_status git_diff git_log git_show git_blame git_grep git_branch git_add git_commit git_checkout"),
    ("fetch", "web_fetch web_search http_request download_file gem"),
)


def _uses(listed: Listed) -> list[tuple[str, list[str]]]:
    found = [(what, [name for name in names.split() if name in listed]) for what, names in _USES]
    return [(what, names) for what, names in found if names]


def _steps(task: str, listed: Listed, steps: Collection[tuple[str, str]]) -> str:
    """Return a task and the numbered steps whose tool is listed."""
    rows = [text for tool, text in steps if tool in listed]
    return "\n".join([task, "", *(f"{number}. {row}" for number, row in enumerate(rows, 1))])
