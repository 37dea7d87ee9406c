"""rm, rmdir and mv as one line of literal paths: done without a shell, and recorded for undo."""

import re

import pytest


@pytest.fixture
def tree(project):
    """Return what the project holds but its trash, as a set of paths and the texts of files."""

    def seen():
        found = {str(path.relative_to(project)): path for path in sorted(project.rglob("*"))}
        return {
            name: path.read_text() if path.is_file() and not path.is_symlink() else None
            for name, path in found.items()
            if not name.startswith((".trash", ".git"))
        }

    return seen


@pytest.fixture(autouse=True)
def files(project):
    for path in project.iterdir():
        if path.is_file() or path.is_symlink():
            path.unlink()
    for name in ("a", "b c", "d/x", "d/e/y"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(name)
    (project / "empty").mkdir()
    (project / "link").symlink_to("a")
    (project / "down").symlink_to("d")


GONE, LEFT = 0, 1


@pytest.mark.parametrize(
    ("line", "answer", "gone"),
    [
        ("rm a && echo then", "exit: 0\n--- stdout ---\nMoved file a to trash: T\nthen", {"a"}),
        ("rm nothing && echo then", "exit: 1\n--- stderr ---\nrm: nothing: there is no nothing", set()),
        ("rm nothing && echo then; echo last", "exit: 0\n--- stdout ---\nlast\n--- stderr ---\nrm: nothing: there is no nothing", set()),
        ("rm nothing; echo last", "exit: 0\n--- stdout ---\nlast\n--- stderr ---\nrm: nothing: there is no nothing", set()),
        ("rm nothing && rm a; mv 'b c' z && ls z", "exit: 0\n--- stdout ---\nMoved b c to z\nz\n--- stderr ---\nrm: nothing: there is no nothing", {"b c"}),
        ("rm a;", "exit: 0\n--- stdout ---\nMoved file a to trash: T", {"a"}),
        ("rm -f nothing; exit 3", "exit: 3\n(no output)", set()),
        ("rmdir empty && mkdir -p empty/deep && ls -d empty/*", "exit: 0\n--- stdout ---\nMoved directory empty to trash: T\nempty/deep", set()),
    ],
)  # fmt: skip
async def test_the_shell_goes_on_behind_it(call, project, line, answer, gone):
    before = {path.name for path in project.iterdir()}
    shown = re.sub(r"\.trash/\S+", "T", await call("shell", command=line, shell="sh"))
    assert shown == answer
    assert before - {path.name for path in project.iterdir()} == gone


@pytest.mark.parametrize(
    ("line", "exit_code", "gone", "come"),
    [
        ("rm a", GONE, {"a"}, {}),
        ("rm 'b c' a", GONE, {"a", "b c"}, {}),
        ('rm -f "b c" nothing', GONE, {"b c"}, {}),
        ("rm -- a", GONE, {"a"}, {}),
        ("rm -rf d", GONE, {"d", "d/x", "d/e", "d/e/y"}, {}),
        ("rm -r d/e", GONE, {"d/e", "d/e/y"}, {}),
        ("rm link", GONE, {"link"}, {}),
        ("rm nothing a", LEFT, {"a"}, {}),
        ("rm d", LEFT, set(), {}),
        ("rm a/", LEFT, set(), {}),
        ("rm -r down/", LEFT, set(), {}),
        ("rmdir empty", GONE, {"empty"}, {}),
        ("rmdir d", LEFT, set(), {}),
        ("rmdir a", LEFT, set(), {}),
        ("rmdir down", LEFT, set(), {}),
        ("mv a z", GONE, {"a"}, {"z": "a"}),
        ("mv a 'b c' d", GONE, {"a", "b c"}, {"d/a": "a", "d/b c": "b c"}),
        ("mv -f a d/x", GONE, {"a"}, {"d/x": "a"}),
        ("mv a down", GONE, {"a"}, {"d/a": "a"}),
        ("mv d/e empty/", GONE, {"d/e", "d/e/y"}, {"empty/e": None, "empty/e/y": "d/e/y"}),
        ("mv a nothing/", LEFT, set(), {}),
        ("mv a 'b c' z", LEFT, set(), {}),
    ],
)
async def test_does_what_the_shell_would_do_and_undo_takes_it_back(call, tree, line, exit_code, gone, come):
    call.undo_ids = True
    before = tree()
    answer = await call("shell", command=line, shell="sh")
    assert answer.startswith(f"exit: {exit_code}\n")
    assert tree() == {name: text for name, text in before.items() if name not in gone} | come
    assert ("[undo: c1]" in answer) == bool(gone)
    if gone:
        await call("undo")
        assert tree() == before


async def test_a_working_folder_is_where_the_paths_begin(call, tree):
    await call("shell", commands=["mv x z", "rm -r e"], work_dir="d")
    assert "d/z" in tree() and "d/e" not in tree() and "d/x" not in tree()


@pytest.mark.parametrize(
    "line",
    [
        "rm *", "rm $HOME", "true; rm a", "rm a &&", "rm a & true", "rm a || true", "rm 'a && ls' $x", "rm a; rm *", "rm -i a", "rm ../x", "rm down/../a", "rm -rf /etc/nothing", "rm `echo a`", "rm {a,b}",
        "rm ~/a", "\\rm a", "/bin/rm a", "rm a > b", "rm -rf --no-preserve-root /", "rm a\nrm b", "rm a; sudo true", "rmdir -p d/e", "sudo rm a",
    ],
)  # fmt: skip
async def test_any_other_line_is_refused_as_before(call, tree, line):
    before = tree()
    assert await call.code("shell", command=line, shell="sh") == "command_denied"
    assert tree() == before


@pytest.mark.parametrize("line", ["rm -rf .git", "rm .git/config", "mv a .git/hooks", "rmdir .git", "mv .git x"])
async def test_what_is_protected_stays(call, project, tree, line):
    (project / ".git" / "hooks").mkdir(parents=True, exist_ok=True)
    (project / ".git" / "config").write_text("x")
    before = tree()
    assert await call.code("shell", command=line, shell="sh") == "protected_path"
    assert tree() == before
    assert (project / ".git" / "config").read_text() == "x"


async def test_what_leads_outside_stays(call, project, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "kept").write_text("x")
    (project / "out").symlink_to(outside)
    assert await call.code("shell", command="rm out/kept", shell="sh") == "command_denied"
    assert (await call("shell", command="mv a out", shell="sh")).startswith("exit: 1\n")
    assert (await call("shell", command="rm out", shell="sh")).startswith("exit: 0\n")
    assert (outside / "kept").read_text() == "x" and sorted(outside.iterdir()) == [outside / "kept"]


async def test_a_name_that_the_operator_refuses_is_refused(call, tree):
    from toolbox_mcp.tools.settings import ToolSettings

    call.settings = ToolSettings(shell_blocklist_extra=("MV",))
    assert await call.code("shell", command="mv a z", shell="sh") == "command_denied"
    assert "a" in tree()
