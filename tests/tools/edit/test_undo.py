import errno
import os
import random
import re
import shutil
import stat
import struct
from pathlib import Path

import pytest

from tests.tables import each_row
from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.tools.settings import ToolSettings
from toolbox_mcp.tools.undo import journal
from toolbox_mcp.tools.undo.journal import History
from toolbox_mcp.tools.undo.revert import revert


def tree(folder):
    """Return names, kinds, modes, targets and bytes of all below a folder, the trash left out."""
    found = {}
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".trash"]
        for name in names + folders:
            path = os.path.join(top, name)
            status = os.lstat(path)
            what = None
            if stat.S_ISLNK(status.st_mode):
                what = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                what = Path(path).read_bytes()
            found[os.path.relpath(path, folder)] = status.st_mode, what
    return found


@pytest.fixture
def folder(project):
    (project / "a.txt").write_bytes(b"one\r\ntwo\n")
    (project / "b.txt").write_bytes(b"b \xe9 old")
    os.chmod(project / "b.txt", 0o751)
    (project / "sub").mkdir(0o750)
    (project / "sub" / "c.txt").write_bytes(b"old")
    (project / "link").symlink_to("a.txt")
    (project / "empty").mkdir()
    os.mkfifo(project / "pipe")
    return project


CALLS = [
    ("write_file", {"path": "a.txt", "content": "x"}, ["a.txt"], []),
    ("write_file", {"path": "link", "content": "x"}, ["a.txt"], []),
    ("write_file", {"path": "new", "content": "x"}, [], ["new"]),
    ("write_file", {"path": "n/e/w", "content": "x"}, [], ["n", "n/e", "n/e/w"]),
    ("edit_file", {"path": "a.txt", "old_string": "one", "new_string": "1"}, ["a.txt"], []),
    ("edit_file", {"path": "b.txt", "old_string": "old", "new_string": ""}, ["b.txt"], []),
    ("multi_edit", {"path": "a.txt", "edits": [{"old_string": "one", "new_string": "1"}]}, ["a.txt"], []),
    ("edit_lines", {"path": "a.txt", "operation": "delete", "match_lines": ["two"]}, ["a.txt"], []),
    ("replace_in_files", {"pattern": "old", "replacement": "new"}, ["b.txt", "sub/c.txt"], []),
    ("replace_in_files", {"pattern": "[ot]", "regex": True}, ["a.txt", "b.txt", "sub/c.txt"], []),
    ("create_directory", {"path": "d"}, [], ["d"]),
    ("create_directory", {"path": "d/e/f"}, [], ["d", "d/e", "d/e/f"]),
    ("move_file", {"source": "a.txt", "destination": "z"}, ["a.txt"], ["z"]),
    ("move_file", {"source": "a.txt", "destination": "n/z"}, ["a.txt"], ["n", "n/z"]),
    ("move_file", {"source": "sub", "destination": "n/z"}, ["sub"], ["n", "n/z"]),
    ("move_file", {"source": "a.txt", "destination": "b.txt", "overwrite": True}, ["a.txt", "b.txt"], []),
    ("move_file", {"source": "b.txt", "destination": "link", "overwrite": True}, ["b.txt", "link"], []),
    ("move_file", {"source": "link", "destination": "a.txt", "overwrite": True}, ["a.txt", "link"], []),
    ("move_file", {"source": "pipe", "destination": "pipe2"}, ["pipe"], ["pipe2"]),
    ("delete_file", {"path": "a.txt"}, ["a.txt"], []),
    ("delete_file", {"path": "link"}, ["link"], []),
    ("delete_file", {"path": "empty"}, ["empty"], []),
    ("delete_file", {"path": "pipe"}, ["pipe"], []),
    ("delete_file", {"path": "sub", "recursive": True}, ["sub"], []),
    ("delete_file", {"path": "sub", "recursive": True, "trash_dir": "bin"}, ["sub"], ["bin"]),
]


@pytest.mark.parametrize(("name", "arguments", "restored", "removed"), CALLS)
async def test_undo_takes_back_every_byte_and_undoing_the_undo_brings_it_again(
    call, folder, name, arguments, restored, removed
):
    call.undo_ids = True
    before = tree(folder)
    made = await call.result(name, arguments)
    assert not made.is_error, made
    after = tree(folder)
    assert after != before

    undone = await call.result("undo", {})
    assert undone.structured_content == {
        "id": "c1", "undo": "c2", "tool": name, "restored": restored, "removed": removed,
    }  # fmt: skip
    assert made.content[0].text.endswith(" [undo: c1]")
    named = [f"{word} {', '.join(names)}" for word, names in (("restored", restored), ("removed", removed)) if names]
    assert undone.content[0].text == f"Undid {name} (c1): {'; '.join(named)} [undo: c2]"
    assert tree(folder) == before
    assert await call.code("undo") == "not_found"
    assert await call.code("undo", id="c1") == "not_found"

    redone = await call.result("undo", {"id": "c2"})
    assert not redone.is_error, redone
    assert redone.structured_content["tool"] == "undo"
    assert tree(folder) == after

    assert (await call.result("undo", {"id": redone.meta["undo"]})).structured_content["tool"] == "undo"
    assert tree(folder) == before


async def test_undo_goes_back_call_by_call(call, folder):
    states = [tree(folder)]
    for name, arguments in [
        ("move_file", {"source": "sub", "destination": "lib"}),
        ("edit_file", {"path": "lib/c.txt", "old_string": "old", "new_string": "new"}),
        ("write_file", {"path": "lib/d/e.txt", "content": "e"}),
        ("replace_in_files", {"pattern": "e", "replacement": "E"}),
        ("move_file", {"source": "lib", "destination": "src/lib"}),
        ("edit_lines", {"path": "src/lib/c.txt", "operation": "insert", "lines": ["more"]}),
        ("delete_file", {"path": "src", "recursive": True}),
        ("create_directory", {"path": "src/lib"}),
        ("write_file", {"path": "src/lib/c.txt", "content": "other"}),
    ]:
        result = await call.result(name, arguments)
        assert not result.is_error, result
        states.append(tree(folder))
    states.pop()
    while states:
        result = await call.result("undo", {})
        assert not result.is_error, result
        assert tree(folder) == states.pop()
    assert await call.code("undo") == "not_found"


@pytest.mark.parametrize(("name", "arguments", "restored", "removed"), CALLS)
async def test_what_changed_since_is_not_touched(call, folder, name, arguments, restored, removed):
    await call.result(name, arguments)
    changed = folder / (removed or restored)[-1]
    if name == "delete_file":
        changed = next(folder.glob("*/*.2*"))
    elif name == "move_file":
        changed = folder / arguments["destination"]
    if name == "create_directory":
        (changed / "mine").write_text("mine")
    elif changed.is_symlink() or not (changed.is_file() or changed.is_dir()):
        changed.unlink()
        changed.write_text("mine")
    elif changed.is_dir():
        (changed / "c.txt").write_text("mine")
    else:
        changed.write_text("mine")
    before = tree(folder)
    if name == "replace_in_files" and len(restored) > 1:
        # The others go back.
        assert (await call("undo")).endswith(f"left, as changed since: {restored[-1]}")
        assert tree(folder)[restored[-1]] == before[restored[-1]]
    else:
        assert await call.code("undo") == "changed_since"
        assert tree(folder) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda project: (project / "b.txt").unlink(),
        lambda project: os.chmod(project / "b.txt", 0o600),
        lambda project: (project / "sub/c.txt").write_text("x"),
        lambda project: shutil.rmtree(project / "sub"),
        lambda project: ((project / "sub").rename(project / "sub2"), (project / "sub").symlink_to("sub2")),
        lambda project: ((project / "b.txt").unlink(), (project / "b.txt").mkdir()),
        lambda project: ((project / "b.txt").unlink(), os.mkfifo(project / "b.txt")),
        lambda project: ((project / "b.txt").rename(project / "b2"), (project / "b.txt").symlink_to("b2")),
        lambda project: (project / "b.txt").write_bytes(b"x" * 2**24),
    ],
)
async def test_a_changed_file_stays_and_does_not_keep_the_others_from_going_back(call, folder, change):
    originals = tree(folder)
    await call("replace_in_files", pattern="old", replacement="new")
    change(folder)
    before = tree(folder)
    answer = await call("undo")
    assert "; left, as changed since: " in answer
    after = tree(folder)
    left = answer.split("since: ")[1].split(", ")
    back = {name for name in originals if after.get(name) == originals[name] != before.get(name)}
    assert back and not back & set(left)
    assert {name: what for name, what in after.items() if name not in back} == {
        name: what for name, what in before.items() if name not in back
    }


async def test_a_file_with_the_same_bytes_again_has_not_changed(call, folder):
    await call("edit_file", path="b.txt", old_string="old", new_string="new")
    data = (folder / "b.txt").read_bytes()
    (folder / "b.txt").write_bytes(b"in between")
    (folder / "b.txt").write_bytes(data)
    assert (await call("undo")).endswith("(c1): restored b.txt")


async def test_a_place_that_is_taken_again_stops_the_way_back(call, folder):
    await call("delete_file", path="a.txt")
    (folder / "a.txt").write_text("mine")
    assert await call.code("undo") == "changed_since"
    await call("move_file", source="b.txt", destination="z")
    (folder / "b.txt").mkdir()
    assert await call.code("undo") == "changed_since"
    assert (folder / "a.txt").read_text() == "mine"


async def test_an_older_call_is_undone_by_its_id_while_nothing_else_changed_its_files(call, folder):
    first = await call.result("edit_file", {"path": "a.txt", "old_string": "one", "new_string": "1"})
    second = await call.result("edit_file", {"path": "a.txt", "old_string": "two", "new_string": "2"})
    other = await call.result("write_file", {"path": "z", "content": "z"})
    id = first.meta["undo"]
    assert await call.code("undo", id=id) == "changed_since"
    assert not (await call.result("undo", {"id": second.meta["undo"]})).is_error
    assert not (await call.result("undo", {"id": id})).is_error
    assert (folder / "a.txt").read_bytes() == b"one\r\ntwo\n"
    assert (await call.result("undo", {})).structured_content["id"] == other.meta["undo"]


@each_row(
    ("name", "arguments"),
    [
        ("bash", {"command": "true"}),
        ("read_file", {"path": "a.txt"}),
        ("edit_file", {"path": "a.txt", "old_string": "nowhere", "new_string": ""}),
        ("create_directory", {"path": "empty"}),
        ("replace_in_files", {"pattern": "nowhere"}),
        ("replace_in_files", {"pattern": "old", "dry_run": True}),
    ],
)
async def test_what_changed_nothing_or_keeps_no_journal_has_no_id(call, folder, name, arguments):
    call.allowed_commands = ("true",)
    call.undo_ids = True
    made = await call.result(name, arguments)
    assert "undo" not in made.meta and "[undo" not in made.content[-1].text
    refused = await call("undo")
    assert refused["code"] == "not_found"
    assert refused["hint"] == "what programs and git change is not recorded"


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("delete_file", {"path": "a.txt", "mode": "permanent"}, "it deleted for good"),
        (
            "move_file",
            {"source": "a.txt", "destination": "pipe", "overwrite": True},
            "what it replaced could not be kept",
        ),
    ],
)
async def test_what_cannot_be_undone_has_no_id_in_its_answer_and_says_why(call, folder, name, arguments, why):
    made = await call.result(name, arguments)
    assert not made.is_error and "undo" not in made.meta
    assert await call.code("undo") == "not_found"
    refused = await call("undo", id="c1")
    assert refused["code"] == "refused"
    assert refused["error"] == f"{name} (c1) cannot be undone: {why}"
    assert (await call("undo", list=True)).endswith(f"cannot be undone: {why}")


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system's files have no extended attributes")
async def test_what_a_move_replaced_comes_back_with_its_attributes_and_its_access_list(call, folder):
    list_of_one_more_user = struct.pack("<I" + "HHi" * 5, 2, 1, 6, -1, 2, 6, 1234, 4, 4, -1, 16, 6, -1, 32, 0, -1)
    for name, value in [("user.note", b"kept"), ("system.posix_acl_access", list_of_one_more_user)]:
        os.setxattr(folder / "b.txt", name, value)
    before = {name: os.getxattr(folder / "b.txt", name) for name in os.listxattr(folder / "b.txt")}
    mode = (folder / "b.txt").stat().st_mode
    await call("move_file", source="a.txt", destination="b.txt", overwrite=True)
    assert os.listxattr(folder / "b.txt") == []
    await call("undo")
    assert {name: os.getxattr(folder / "b.txt", name) for name in os.listxattr(folder / "b.txt")} == before
    assert len(before) == 2 and (folder / "b.txt").stat().st_mode == mode


async def test_unknown_ids_and_nothing_at_all_are_not_found(call, folder):
    assert (await call("undo", id="x"))["error"] == "no change x is kept for this session"
    assert await call.code("undo") == "not_found"
    for id in ("x", "", "\x00", "x" * 10_000):
        assert await call.code("undo", id=id) == "not_found"


async def test_what_is_too_large_to_keep_cannot_be_undone(call, project):
    call.settings = ToolSettings(undo_max_bytes=10)
    (project / "small").write_bytes(b"0123456789")
    (project / "large").write_bytes(b"0123456789a")
    await call("edit_file", path="small", old_string="5", new_string="five")
    await call("edit_file", path="large", old_string="5", new_string="five")
    await call("replace_in_files", pattern="1", replacement="one")
    for change in ("c2", "c3"):
        answer = await call("undo", id=change)
        assert (answer["code"], answer["error"].split(": ")[1]) == (
            "refused",
            "what it changed is larger than 10 bytes",
        )
    assert await call.code("undo") == "changed_since"
    (project / "small").write_bytes(b"01234five6789")
    undone = await call.result("undo", {})
    assert undone.structured_content["id"] == "c1"
    assert "undo" not in undone.meta
    assert await call.code("undo", id="c4") == "refused"


async def test_a_created_file_is_undone_whatever_its_size(call, project):
    call.settings = ToolSettings(undo_max_bytes=0)
    await call("write_file", path="f", content="x" * 1000)
    assert (await call("undo")).endswith("removed f")
    assert os.listdir(project) == []


async def test_fifty_calls_are_kept(call, project):
    ids = []
    for number in range(52):
        ids.append((await call.result("write_file", {"path": f"f{number}", "content": ""})).meta["undo"])
    assert await call.code("undo", id=ids[0]) == "not_found"
    assert await call.code("undo", id=ids[1]) == "not_found"
    assert not (await call.result("undo", {"id": ids[51]})).is_error
    assert not (await call.result("undo", {"id": ids[2]})).is_error


async def test_fifty_calls_are_undone_in_a_row_and_brought_back(call, project):
    for number in range(51):
        await call("write_file", path=f"f{number}", content="")
    undone = [(await call.result("undo", {})).meta["undo"] for _ in range(50)]
    assert os.listdir(project) == ["f0"]
    assert await call.code("undo") == "not_found"
    for id in reversed(undone):
        assert not (await call.result("undo", {"id": id})).is_error
    assert len(os.listdir(project)) == 51


@pytest.mark.slow
def test_going_to_and_fro_keeps_two_calls_for_each_that_can_be_undone(project):
    history = History()
    history.journal("write_file", 100).replace(Roots([project]).place("f"), b"x")
    for number in range(1, 301):
        revert(history, f"c{number}", history.journal("undo", 100))
    kept = [entry for entry in history.latest() if entry.undoable]
    assert len([entry for entry in kept if not entry.undone]) == 50
    assert len(kept) <= 101


async def test_a_failure_in_the_middle_takes_back_what_was_undone(call, folder, monkeypatch):
    from toolbox_mcp.safety.writes.swap import Swap

    await call("replace_in_files", pattern="old", replacement="new")
    before = tree(folder)
    real = Swap.run

    def second_fails(swap, dir_fd):
        if swap.place.name == "c.txt":
            raise OSError(28, "No space left on device")
        real(swap, dir_fd)

    monkeypatch.setattr(Swap, "run", second_fails)
    assert await call.code("undo") == "refused"
    assert tree(folder) == before
    monkeypatch.undo()
    assert (await call("undo")).endswith("restored b.txt, sub/c.txt")


async def test_a_move_whose_second_half_cannot_be_undone_stays_moved(call, folder, monkeypatch):
    from toolbox_mcp.safety.writes import batch

    await call("move_file", source="a.txt", destination="b.txt", overwrite=True)
    before = tree(folder)

    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(batch, "stage", fails)
    assert await call.code("undo") == "refused"
    assert tree(folder) == before


async def test_undo_writes_nothing_protected(call, folder, monkeypatch):
    from toolbox_mcp.safety.path_jail.protected import Protected

    await call("edit_file", path="a.txt", old_string="one", new_string="1")
    await call("move_file", source="b.txt", destination="z")
    monkeypatch.setattr(Protected, "name_refusal", lambda *_, **__: "it is")
    before = tree(folder)
    assert await call.code("undo") == "protected_path"
    assert tree(folder) == before


async def test_what_undo_restored_is_known_to_the_session(call, folder):
    await call("read_file", path="a.txt")
    await call("edit_file", path="a.txt", old_string="one", new_string="1")
    await call("undo")
    assert await call("write_file", path="a.txt", content="x") == "Overwrote a.txt (1 bytes)"
    await call("undo")
    (folder / "a.txt").write_text("someone else's")
    assert await call.code("write_file", path="a.txt", content="x") == "file_changed"


@pytest.mark.parametrize(("deleted", "read"), [("a.txt", "a.txt"), ("sub", "sub/c.txt")])
async def test_what_came_back_from_the_trash_is_still_known(call, folder, deleted, read):
    await call("read_file", path=read)
    await call("delete_file", path=deleted, recursive=True)
    await call("undo")
    assert await call("write_file", path=read, content="x") == f"Overwrote {read} (1 bytes)"
    await call("delete_file", path=deleted, recursive=True)
    await call("undo")
    (folder / read).write_text("theirs")
    assert await call.code("write_file", path=read, content="x") == "file_changed"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("move_file", {"source": "sub", "destination": "n/z"}),
        ("delete_file", {"path": "sub", "recursive": True, "trash_dir": "n"}),
    ],
)
async def test_what_was_done_is_no_error_where_it_cannot_be_looked_at_afterwards(
    call, folder, monkeypatch, name, arguments
):
    look = journal.signature

    def refused(*arguments):
        raise OSError(errno.EMFILE, "")

    monkeypatch.setattr(journal, "signature", refused)
    assert not (await call.result(name, arguments)).is_error
    after = tree(folder)
    assert await call.code("undo") == "changed_since"
    assert tree(folder) == after

    monkeypatch.setattr(journal, "signature", look)
    await call("create_directory", path="m")
    moved = await call.result("move_file", {"source": "m", "destination": "k"})
    seen = iter([look])
    monkeypatch.setattr(journal, "signature", lambda *arguments: next(seen, refused)(*arguments))
    undone = await call.result("undo", {})
    assert undone.structured_content["id"] == moved.meta["undo"]
    assert await call.code("undo", id=undone.meta["undo"]) == "changed_since"
    assert tree(folder).keys() == {*after, "m"}


async def test_an_unsafe_write_outside_is_undone_where_it_was(call, folder):
    from toolbox_mcp.server.call.pipeline import Rules

    call.rules = Rules(allow_unsafe=True)
    outside = folder.parent / "outside"
    outside.write_text("old")
    await call("write_file", path=str(outside), content="new", unsafe=True)
    assert re.fullmatch(r"Undid write_file \(c1\): restored .*/outside", await call("undo"))
    assert outside.read_text() == "old"


@pytest.mark.slow
async def test_the_names_of_very_many_files_are_cut_and_their_number_told(call, project):
    for number in range(3000):
        (project / f"{number:0200}").write_text("a")
    await call("replace_in_files", pattern="a", replacement="b")
    undone = await call.result("undo", {})
    assert undone.content[0].text.endswith(" and 2980 more")
    assert len(undone.structured_content["restored"]) == 2000
    listed = await call.result("undo", {"list": True})
    assert [(len(row["paths"]), row["unnamed"]) for row in listed.structured_content["changes"]] == [(20, 2980)] * 2
    assert " and 2980 more\t" in listed.content[0].text


async def test_one_session_does_not_undo_what_another_did(project):
    from toolbox_mcp.safety.path_jail.roots import Roots
    from toolbox_mcp.server.resources.sessions import SessionStore

    owners = SessionStore()
    roots = Roots([project])
    history = owners.of("one").session.history
    history.journal("write_file", 100).replace(roots.place("f"), b"x")
    assert owners.of("two").session.history.latest() == []
    owners.drop("one")
    assert owners.of("one").session.history.latest() == []
    roots.close()


NAMES = ["a.txt", "b.txt", "sub", "sub/c.txt", "sub/deep/d", "link", "new", "empty"]


def some_call(chance):
    """Return a call that may or may not make sense."""
    path, other = chance.choice(NAMES), chance.choice(NAMES)
    return chance.choice(
        [
            ("write_file", {"path": path, "content": chance.choice(["x", "old\r\n", ""])}),
            (
                "edit_file",
                {"path": path, "old_string": "o", "new_string": chance.choice(["", "oo", "\n"]), "replace_all": True},
            ),
            ("edit_lines", {"path": path, "operation": "insert", "lines": ["o"], "position": "start"}),
            ("replace_in_files", {"pattern": chance.choice("oxl\n"), "replacement": chance.choice(["", "old"])}),
            ("create_directory", {"path": path}),
            ("move_file", {"source": path, "destination": other, "overwrite": chance.random() < 0.5}),
            ("delete_file", {"path": path, "recursive": True, "trash_dir": chance.choice([None, "bin"])}),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_any_row_of_calls_is_taken_back_and_brought_again(call, folder, seed):
    chance = random.Random(seed)
    start = tree(folder)
    before, after = {}, {}
    for _ in range(40):
        name, arguments = some_call(chance)
        state = tree(folder)
        result = await call.result(name, arguments)
        if result.is_error or "undo" not in result.meta:
            assert tree(folder) == state
        else:
            before[result.meta["undo"]], after[result.meta["undo"]] = state, tree(folder)
    undos = []
    while not (undone := await call.result("undo", {})).is_error:
        made = undone.structured_content["id"]
        assert tree(folder) == before[made]
        undos.append((undone.meta["undo"], made))
    assert undone.structured_content["code"] == "not_found"
    assert len(undos) > 5
    assert tree(folder) == start
    for id, made in reversed(undos):
        assert not (await call.result("undo", {"id": id})).is_error
        assert tree(folder) == after[made]


async def test_the_latest_changes_are_listed_with_what_stands_in_their_way(call, folder):
    call.allowed_commands = ("true",)
    await call("edit_file", path="a.txt", old_string="one", new_string="1")
    await call("write_file", path="z", content="z")
    await call("write_file", path="n/w", content="w", create_parents=True)
    await call("bash", command="true")
    await call("delete_file", path="empty")
    await call("replace_in_files", pattern="old", replacement="new")
    await call("edit_file", path="n/w", old_string="w", new_string="v")
    await call("delete_file", path="link", mode="permanent")
    (folder / "a.txt").write_text("mine")
    (folder / "b.txt").write_text("mine")
    await call("undo", id="c2")
    rows = [row.split("\t") for row in (await call("undo", list=True)).split("\n")]
    assert [row[3].endswith(" s ago") for row in rows] == [True] * 8
    assert [[*row[:3], row[4]] for row in rows] == [
        ["c8", "undo", "z", "can be undone"],
        ["c7", "delete_file", "link", "cannot be undone: it deleted for good"],
        ["c6", "edit_file", "n/w", "can be undone"],
        ["c5", "replace_in_files", "b.txt, sub/c.txt", "can be undone but for what changed since: b.txt"],
        ["c4", "delete_file", "empty", "can be undone"],
        ["c3", "write_file", "n, n/w", "undo c6 first"],
        ["c2", "write_file", "z", "undone"],
        ["c1", "edit_file", "a.txt", "changed since: a.txt"],
    ]
    refused = await call("undo", id="c1")
    assert refused["hint"] == "restore it by hand; edit_file can be undone: id=c6"
    assert (await call("undo", id="c3"))["hint"] == "undo c6 first: edit_file changed it"
    for change in ("c6", "c3", "c4", "c5"):
        assert not isinstance(await call("undo", id=change), dict)


async def test_the_list_has_the_last_twenty(call, project):
    for number in range(22):
        await call("write_file", path=f"f{number}", content="")
    rows = (await call("undo", list=True)).split("\n")
    assert [row.split("\t")[0] for row in rows] == [f"c{number}" for number in range(22, 2, -1)]


async def test_what_this_session_changed_later_is_undone_first_and_what_others_changed_is_left(call, folder):
    await call("replace_in_files", pattern="old", replacement="new")
    await call("edit_file", path="sub/c.txt", old_string="new", new_string="newer")
    before = tree(folder)
    refused = await call("undo", id="c1")
    assert refused == {
        "code": "changed_since",
        "error": "sub/c.txt has changed since replace_in_files (c1)",
        "hint": "undo c2 first: edit_file changed it",
    }
    assert tree(folder) == before
    # Where the later change cannot be undone either, it keeps no other file from going back.
    (folder / "sub" / "c.txt").write_text("theirs")
    assert await call("undo", id="c1") == (
        "Undid replace_in_files (c1): restored b.txt; left, as changed since: sub/c.txt"
    )
    assert (folder / "sub" / "c.txt").read_text() == "theirs"


async def test_all_that_has_to_be_undone_first_is_named_in_order(call, folder):
    await call("edit_file", path="a.txt", old_string="one", new_string="1")
    await call("write_file", path="other", content="")
    for number in range(2, 6):
        await call("edit_file", path="a.txt", old_string=str(number - 1), new_string=str(number))
    await call("move_file", source="a.txt", destination="n/a.txt")
    assert (await call("undo", id="c1"))["hint"] == "undo c7, c6, c5 and 2 more first, in this order"
    (folder / "n" / "a.txt").write_text("theirs")
    assert (await call("undo", id="c1"))["hint"] == "restore it by hand; write_file can be undone: id=c2"


async def test_changes_to_what_was_moved_are_undone_before_the_move(call, folder):
    await call("move_file", source="sub", destination="lib")
    await call("edit_file", path="lib/c.txt", old_string="old", new_string="new")
    assert (await call("undo", id="c1"))["hint"] == "undo c2 first: edit_file changed it"
    await call("undo")
    await call("undo")
    assert (folder / "sub" / "c.txt").read_bytes() == b"old"


async def test_no_changes_are_an_empty_list_and_id_and_list_exclude_each_other(call, folder):
    assert await call("undo", list=True) == "(no changes)"
    assert await call.code("undo", list=True, id="c1") == "invalid_args"


async def test_a_change_that_failed_has_no_id(call, folder):
    result = await call.result("edit_file", {"path": "a.txt", "old_string": "nowhere", "new_string": ""})
    assert "[undo" not in result.content[0].text
