"""What another program writes at the worst moment, and what fails then, loses nothing untold."""

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.safety.writes import atomic, batch
from toolbox_mcp.safety.writes import cross_device_move as far_moves
from toolbox_mcp.safety.writes import file_version as states
from toolbox_mcp.safety.writes import fs_ops as entries
from toolbox_mcp.safety.writes import rollback as putting_back
from toolbox_mcp.safety.writes import swap as swapping
from toolbox_mcp.safety.writes import tree_ops as trees
from toolbox_mcp.safety.writes.atomic import read_whole
from toolbox_mcp.safety.writes.batch import Change, change_all
from toolbox_mcp.safety.writes.swap import Swap
from toolbox_mcp.tools.settings import ToolSettings
from toolbox_mcp.tools.undo.journal import History, current
from toolbox_mcp.tools.undo.revert import revert

MEMORY = Path("/dev/shm")
far = pytest.mark.skipif(not MEMORY.is_dir(), reason="there is no second file system to move to")


def save(path, text):
    """Save a file as editors do."""
    (path.parent / "~").write_text(text)
    (path.parent / "~").replace(path)


def holds(*folders):
    """Return what the files of folders hold, by their paths below."""
    return {str(p.relative_to(f)): p.read_text() for f in folders for p in f.rglob("*") if p.is_file()}


def refused(act, *arguments, **options):
    """Return the error of what is refused, None of what is done."""
    try:
        act(*arguments, **options)
    except ToolError as e:
        return e.error
    return None


def nothing():
    pass


def fails(code):
    raise OSError(code, os.strerror(code))


def before(monkeypatch, module, name, *acts):
    """Have one thing done before each of the next calls of a function."""
    real, left = getattr(module, name), list(acts)

    def called(*arguments, **options):
        if left:
            left.pop(0)()
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, called)


def without_descriptors(monkeypatch):
    real = os.open

    def opened(path, flags, *more, **options):
        return fails(errno.EMFILE) if flags & os.O_NONBLOCK else real(path, flags, *more, **options)

    monkeypatch.setattr(os, "open", opened)


@pytest.fixture
def disk():
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def both(project):
    """Return two files that hold something, and the roots that they are in."""
    for name in "ab":
        (project / name).write_text(f"old {name}")
    return Roots([project, *([MEMORY] if MEMORY.is_dir() else [])])


def expected(roots, disk, there):
    """Return the state of a file that something moves to; None where there is to be none."""
    if not there:
        return None
    (disk / "b").write_text("b")
    return read_whole(roots.place(str(disk / "b")), 99)[1]


def rewritten(roots):
    return [Change(place.target(), b"new", read_whole(place, 99)[1]) for place in map(roots.place, "ab")]


def test_a_batch_that_runs_out_of_descriptors_keeps_what_the_files_held(project, both, monkeypatch):
    def out():
        without_descriptors(monkeypatch)
        fails(errno.EMFILE)

    before(monkeypatch, Swap, "run", nothing, out)
    error = refused(change_all, rewritten(both))
    monkeypatch.undo()
    assert "old a" in holds(project).values(), error


async def test_an_edit_that_runs_out_of_descriptors_keeps_what_the_file_held(call, project, monkeypatch):
    (project / "a").write_text("old")

    @contextlib.contextmanager
    def opened(*_):
        without_descriptors(monkeypatch)
        yield None

    monkeypatch.setattr(swapping, "_opened", opened)
    answer = await call("edit_file", path="a", old_string="old", new_string="new")
    monkeypatch.undo()
    assert answer["code"] == "refused"
    assert "old" in holds(project).values()


async def test_a_file_that_comes_while_another_is_written_there_stays(call, project, monkeypatch):
    before(monkeypatch, swapping, "fill", lambda: (project / "new").write_text("theirs"))
    assert await call.code("write_file", path="new", content="mine") == "file_changed"
    assert holds(project) == {"new": "theirs"}


async def test_a_write_in_the_same_tick_as_the_reading_is_seen(call, project, monkeypatch):
    monkeypatch.setattr(states, "TICK_NS", 10**12)
    (project / "a").write_text("1111")
    await call("read_file", path="a")

    def writes():
        status = (project / "a").stat()
        (project / "a").write_text("2222")
        os.utime(project / "a", ns=(status.st_atime_ns, status.st_mtime_ns))

    before(monkeypatch, swapping, "exchange", writes)
    assert await call.code("write_file", path="a", content="mine") == "file_changed"
    assert holds(project) == {"a": "2222"}


def test_a_save_of_the_source_stays_while_it_moves_over_another_file(project, both, monkeypatch):
    expect = read_whole(both.place("b"), 99)[1]
    real = swapping.exchange

    def exchange(*names, **options):
        done = real(*names, **options)
        save(project / "a", "a, saved")
        return done

    monkeypatch.setattr(swapping, "exchange", exchange)
    entries.move(both.place("a"), both.place("b"), overwrite=True, expect=expect)
    assert holds(project) == {"a": "a, saved", "b": "old a"}


def test_saves_of_the_destination_stay_while_another_file_moves_there(project, both, monkeypatch):
    expect = read_whole(both.place("b"), 99)[1]
    before(monkeypatch, swapping, "exchange", lambda: save(project / "b", "save 1"))
    before(monkeypatch, putting_back, "exchange", lambda: save(project / "b", "save 2"))
    assert refused(entries.move, both.place("a"), both.place("b"), overwrite=True, expect=expect)
    assert holds(project) == {"a": "old a", "b": "save 2"}


def append(path, text):
    """Write into a file as shells do."""
    with path.open("a") as file:
        file.write(text)


def test_what_is_written_into_a_file_that_moves_over_a_changed_one_is_told(project, both, monkeypatch):
    expect = read_whole(both.place("b"), 99)[1]
    before(monkeypatch, swapping, "exchange", lambda: save(project / "b", "saved"))
    before(monkeypatch, putting_back, "exchange", lambda: append(project / "b", ", more"))
    told = refused(entries.move, both.place("a"), both.place("b"), overwrite=True, expect=expect)
    assert told == "b has just changed, and again since it was written; it stays so"
    assert holds(project) == {"a": "old a, more", "b": "old a, more"}


def test_a_source_that_cannot_go_leaves_the_destination(project, both, monkeypatch):
    expect = read_whole(both.place("b"), 99)[1]
    monkeypatch.setattr(entries, "_remove_name", lambda *_: fails(errno.EACCES))
    assert refused(entries.move, both.place("a"), both.place("b"), overwrite=True, expect=expect)
    assert holds(project) == {"a": "old a", "b": "old b"}


def test_a_save_of_one_of_two_names_stays_when_they_become_one(project, both, monkeypatch):
    (project / "b").unlink()
    os.link(project / "a", project / "b")
    before(monkeypatch, entries, "make_parents", lambda: save(project / "a", "theirs"))
    refused(entries.move, both.place("a"), both.place("b"), overwrite=True)
    assert "theirs" in holds(project).values()


@far
@pytest.mark.parametrize("there", [True, False])
def test_a_save_of_the_destination_stays_when_a_move_to_another_file_system_fails(
    both, project, disk, monkeypatch, there
):
    expect = expected(both, disk, there)

    def act():
        save(disk / "b", "theirs")
        fails(errno.EACCES)

    before(monkeypatch, far_moves, "_set_aside", act)
    assert refused(entries.move, both.place("a"), both.place(str(disk / "b")), overwrite=there, expect=expect)
    assert holds(disk) == {"b": "theirs"}
    assert holds(project) == {"a": "old a", "b": "old b"}


@far
@pytest.mark.parametrize("there", [True, False])
def test_what_is_written_into_a_copy_whose_move_fails_is_told(both, project, disk, monkeypatch, there):
    expect = expected(both, disk, there)

    def act():
        append(disk / "b", ", more")
        fails(errno.EACCES)

    before(monkeypatch, far_moves, "_set_aside", act)
    told = refused(entries.move, both.place("a"), both.place(str(disk / "b")), overwrite=there, expect=expect)
    assert told and told.endswith("it stays so")
    assert (holds(disk), holds(project)["a"]) == ({"b": "old a, more"}, "old a")


@far
def test_what_comes_into_a_copied_folder_stays_when_its_move_fails(both, project, disk, monkeypatch):
    (project / "d").mkdir()
    (project / "d/f").write_text("f")

    def act():
        (disk / "d/g").write_text("theirs")
        fails(errno.EACCES)

    before(monkeypatch, far_moves, "_set_aside", act)
    told = refused(entries.move, both.place("d"), both.place(str(disk / "d")))
    assert told and told.endswith("it stays so")
    assert holds(disk) == {"d/f": "f", "d/g": "theirs"}
    assert holds(project) == {"a": "old a", "b": "old b", "d/f": "f"}


@far
def test_a_save_of_the_source_behind_the_last_look_stops_a_move_to_another_file_system(
    both, project, disk, monkeypatch
):
    before(monkeypatch, far_moves, "_set_aside", lambda: save(project / "a", "theirs"))
    assert refused(entries.move, both.place("a"), both.place(str(disk / "b")))
    assert (holds(project)["a"], holds(disk)) == ("theirs", {})


@far
@pytest.mark.parametrize("text", ["a", "a longer source than is kept"])
async def test_what_a_copy_replaced_comes_back_though_its_source_could_not_be_removed(
    call, project, disk, monkeypatch, text
):
    call.roots = [project, disk]
    call.settings = ToolSettings(undo_max_bytes=10)
    (project / "a").write_text(text)
    (disk / "b").write_text("b")
    before(monkeypatch, far_moves, "remove_tree", lambda: fails(errno.EIO))
    answer = await call("move_file", source="a", destination=str(disk / "b"), overwrite=True)
    assert "not all of it could be removed" in answer["error"]
    assert (holds(project), holds(disk)) == ({"a": text}, {"b": text})
    await call("undo")
    assert (holds(project), holds(disk)) == ({"a": text}, {"b": "b"})


@far
def test_a_copy_is_on_the_disk_before_its_source_goes(both, disk, monkeypatch):
    events, sync, remove = [], os.fsync, far_moves.remove_tree
    number = disk.stat().st_ino

    def synced(fd):
        if os.fstat(fd).st_ino == number:
            events.append("synced")
        sync(fd)

    def removed(*names):
        events.append("removed")
        remove(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(far_moves, "remove_tree", removed)
    entries.move(both.place("a"), both.place(str(disk / "b")))
    assert events.index("synced") < events.index("removed")


@pytest.mark.parametrize(
    "step", [(entries, "_rename"), pytest.param((far_moves, "copy"), marks=far)], ids=["near", "far"]
)
def test_a_destination_that_changed_is_not_replaced_where_names_cannot_be_exchanged(
    both, project, disk, monkeypatch, step
):
    there = (project if step[0] is entries else disk) / "b"
    there.write_text("b")
    expect = read_whole(both.place(str(there)), 99)[1]
    monkeypatch.setattr(swapping, "exchange", lambda *_, **__: False)
    before(monkeypatch, *step, lambda: there.write_text("theirs"))
    assert refused(entries.move, both.place("a"), both.place(str(there)), overwrite=True, expect=expect)
    assert there.read_text() == "theirs"
    assert (project / "a").read_text() == "old a"


def test_an_undo_of_several_groups_that_fails_leaves_all_as_it_was(project, monkeypatch):
    roots, history = Roots([project]), History()
    for name in ("a", "z"):
        (project / name).mkdir()
        (project / name / "f").write_text(f"old {name}")
    places = [roots.place(f"{name}/f").target() for name in "anz"]
    former = [current(place, 100) for place in places]
    changes = [Change(place, b"new", now.seen if now else None) for place, now in zip(places, former, strict=True)]
    history.journal("replace_in_files", 10**6).change_all(changes, former)
    there = holds(project)
    # z/f is staged first; then comes a/f.
    before(monkeypatch, batch, "stage", nothing, lambda: fails(errno.ENOSPC))
    assert refused(revert, history, None, history.journal("undo", 10**6))
    assert holds(project) == there


async def test_an_undo_whose_own_taking_back_fails_says_so(call, project, monkeypatch):
    for name in "ab":
        (project / name).write_text(name)
    await call("move_file", source="a", destination="b", overwrite=True)
    undone = await call.result("undo", {})
    before(monkeypatch, entries, "move", lambda: (project / "b").write_text("theirs"))
    answer = await call("undo", id=undone.meta["undo"])
    assert answer["code"] == "refused"
    assert "could not be taken back" in answer["error"]


def test_a_folder_that_is_renamed_during_a_batch_is_told(project, monkeypatch):
    roots = Roots([project])
    for name in "ab":
        (project / name).mkdir()
        (project / name / "f").write_text("old")
    changes = [Change(p.target(), b"new", read_whole(p, 99)[1]) for p in map(roots.place, ("a/f", "b/f"))]

    def act():
        (project / "a").rename(project / "moved")
        (project / "a").mkdir()
        fails(errno.ENOSPC)

    before(monkeypatch, Swap, "run", nothing, act)
    assert "a/f could not be put back" in refused(change_all, changes)


def test_a_file_that_is_renamed_during_a_batch_leaves_the_former_one(project, both, monkeypatch):
    def act():
        (project / "a").rename(project / "kept")
        fails(errno.ENOSPC)

    before(monkeypatch, Swap, "run", nothing, act)
    assert refused(change_all, rewritten(both))
    assert holds(project) == {"a": "old a", "b": "old b", "kept": "new"}


@pytest.mark.parametrize(("function", "there"), [("exchange", True), ("rename_no_replace", False)])
def test_where_a_save_is_that_could_not_get_its_name_again_is_told(project, both, monkeypatch, function, there):
    changes = rewritten(both)
    if not there:
        (project / "a").unlink()
        changes[0] = Change(changes[0].place, b"new", None)
    before(monkeypatch, Swap, "run", nothing, lambda: fails(errno.ENOSPC))
    before(monkeypatch, putting_back, function, lambda: save(project / "a", "theirs"), lambda: fails(errno.EIO))
    error = refused(change_all, changes)
    kept = next(project.glob(".toolbox-*"))
    assert kept.read_text() == "theirs"
    assert "somebody has saved since" in error
    assert kept.name in error


def test_a_source_whose_name_cannot_go_has_it_again(project, both, monkeypatch):
    expect = read_whole(both.place("b"), 99)[1]
    before(monkeypatch, os, "unlink", lambda: fails(errno.EIO))
    assert refused(entries.move, both.place("a"), both.place("b"), overwrite=True, expect=expect)
    assert holds(project) == {"a": "old a", "b": "old b"}


def test_a_source_that_cannot_have_its_name_again_is_told(project, both, monkeypatch):
    expect = read_whole(both.place("b"), 99)[1]

    def act():
        (project / "a").write_text("theirs")
        fails(errno.EIO)

    before(monkeypatch, os, "unlink", act)
    error = refused(entries.move, both.place("a"), both.place("b"), overwrite=True, expect=expect)
    kept = next(project.glob(".toolbox-*"))
    assert holds(project) == {"a": "theirs", "b": "old b", kept.name: "old a"}
    assert error.startswith("a could not be put back")
    assert kept.name in error


def test_a_destination_that_cannot_be_looked_at_is_put_back(project, both, monkeypatch):
    expect = read_whole(both.place("b"), 99)[1]
    before(monkeypatch, states.FileVersion, "holds", lambda: fails(errno.EMFILE))
    assert "could not be put back" not in refused(
        entries.move, both.place("a"), both.place("b"), overwrite=True, expect=expect
    )
    assert holds(project) == {"a": "old a", "b": "old b"}


def test_a_destination_that_cannot_be_put_back_when_the_source_stays_is_told(project, both, monkeypatch):
    expect = read_whole(both.place("b"), 99)[1]
    before(monkeypatch, os, "unlink", lambda: fails(errno.EIO))
    before(monkeypatch, swapping, "put_back", lambda: fails(errno.EIO))
    error = refused(entries.move, both.place("a"), both.place("b"), overwrite=True, expect=expect)
    kept = next(project.glob(".toolbox-*"))
    assert (kept.read_text(), kept.name in error) == ("old b", True)


@far
def test_a_copy_that_cannot_be_looked_at_goes_again(both, project, disk, monkeypatch):
    before(monkeypatch, far_moves, "signature", nothing, nothing, lambda: fails(errno.EMFILE))
    assert refused(entries.move, both.place("a"), both.place(str(disk / "b")))
    assert (holds(project)["a"], holds(disk)) == ("old a", {})


@far
@pytest.mark.parametrize("there", [True, False])
def test_a_source_whose_name_is_taken_when_its_copy_fails_is_told_and_the_destination_put_back(
    both, project, disk, monkeypatch, there
):
    expect = expected(both, disk, there)

    def act():
        (project / "a").write_text("theirs")
        fails(errno.EIO)

    before(monkeypatch, os, "fsync", nothing, act)
    error = refused(entries.move, both.place("a"), both.place(str(disk / "b")), overwrite=there, expect=expect)
    kept = next(project.glob(".toolbox-*"))
    assert holds(disk) == ({"b": "b"} if there else {})
    assert holds(project) == {"a": "theirs", "b": "old b", kept.name: "old a"}
    assert kept.name in error


@far
@pytest.mark.parametrize(("there", "function"), [(True, "put_back"), (False, "remove_again")])
def test_a_copy_that_cannot_be_taken_back_is_told(both, disk, monkeypatch, there, function):
    expect = expected(both, disk, there)
    before(monkeypatch, far_moves, "_set_aside", lambda: fails(errno.EACCES))
    before(monkeypatch, swapping, function, lambda: fails(errno.EIO))
    error = refused(entries.move, both.place("a"), both.place(str(disk / "b")), overwrite=there, expect=expect)
    assert error.startswith(f"{disk / 'b'} could not be put back")


@far
def test_where_the_rest_of_a_source_is_that_was_copied_is_told(both, project, disk, monkeypatch):
    def act():
        (project / "a").write_text("theirs")
        fails(errno.EIO)

    before(monkeypatch, far_moves, "remove_tree", act)
    with pytest.raises(far_moves.SourceLeft) as left:
        entries.move(both.place("a"), both.place(str(disk / "b")))
    kept = next(project.glob(".toolbox-*"))
    assert (kept.read_text(), left.value.hint) == ("old a", f"delete what is left of {kept.name}")


@pytest.mark.parametrize("near", [True, pytest.param(False, marks=far)])
async def test_a_move_says_which_of_its_places_has_just_changed(call, project, disk, monkeypatch, near):
    call.roots = [project, disk]
    there = (project if near else disk) / "b"
    (project / "a").write_text("a")
    before(monkeypatch, entries, "_rename", lambda: there.write_text("theirs"))
    assert await call.code("move_file", source="a", destination=str(there)) == "exists"
    before(monkeypatch, entries, "_rename", lambda: there.unlink())
    assert await call.code("move_file", source="a", destination=str(there), overwrite=True) == "file_changed"
    before(monkeypatch, entries, "_rename", lambda: (project / "a").unlink())
    answer = await call("move_file", source="a", destination=str(there))
    assert (answer["code"], answer["error"]) == ("not_found", "there is no a")


def test_a_link_that_goes_while_it_is_read_has_changed(project, monkeypatch):
    (project / "l").symlink_to("a")
    place = Roots([project]).place("l", follow=False).target()
    before(monkeypatch, os, "readlink", lambda: fails(errno.EINVAL))
    assert refused(current, place, 99) == "l has just changed"


@far
@pytest.mark.parametrize("step", [(atomic, "_content"), (trees, "_copy_one")])
def test_a_file_that_becomes_a_folder_before_it_is_read_leaves_no_descriptor(both, project, disk, monkeypatch, step):
    def act():
        (project / "a").unlink()
        (project / "a").mkdir()

    before(monkeypatch, *step, act)
    there = len(os.listdir("/dev/fd"))
    if step[0] is atomic:
        assert refused(atomic.replace, both.place("a"), b"new", keep=99)
    else:
        assert refused(entries.move, both.place("a"), both.place(str(disk / "b")))
    assert len(os.listdir("/dev/fd")) == there


def test_a_folder_that_is_renamed_at_the_end_of_a_batch_leaves_nothing_beside_the_files_of_others(project, monkeypatch):
    roots = Roots([project])
    for name in "ab":
        (project / name).mkdir()
        (project / name / "f").write_text("old")
    changes = [Change(p.target(), b"new", read_whole(p, 99)[1]) for p in map(roots.place, ("a/f", "b/f"))]
    before(monkeypatch, batch._Batch, "_finish", lambda: (project / "a").rename(project / "moved"))
    change_all(changes)
    assert holds(project / "b") == {"f": "new"}


def test_a_copy_of_a_replaced_file_that_fails_leaves_nothing(project, both, monkeypatch):
    def copy(old_fd, old_name, new_fd, new_name):
        os.close(os.open(new_name, os.O_WRONLY | os.O_CREAT, dir_fd=new_fd))
        fails(errno.ENOSPC)

    monkeypatch.setattr(swapping, "exchange", lambda *_: False)
    monkeypatch.setattr(os, "link", lambda *_, **__: fails(errno.EPERM))
    monkeypatch.setattr(swapping, "copy", copy)
    assert refused(change_all, rewritten(both))
    assert holds(project) == {"a": "old a", "b": "old b"}


@pytest.mark.parametrize(("code", "told"), [(errno.ENOTEMPTY, "not_empty"), (errno.EIO, "path_denied")])
async def test_a_folder_that_is_removed_in_part_is_told(call, project, monkeypatch, code, told):
    (project / "d").mkdir()
    (project / "d/f").write_text("f")
    before(monkeypatch, os, "rmdir", lambda: fails(code))
    answer = await call("delete_file", path="d", recursive=True, mode="permanent")
    assert answer["code"] == told
    assert answer["error"].endswith("a part of it may be gone")


async def test_a_file_that_comes_where_a_folder_is_made_is_told(call, project, monkeypatch):
    before(monkeypatch, os, "mkdir", lambda: (project / "m").write_text("theirs"))
    assert await call.code("create_directory", path="m") == "exists"
    before(monkeypatch, os, "mkdir", lambda: (project / "n").mkdir())
    assert await call("create_directory", path="n") == "n/ already exists"


async def test_a_file_that_goes_while_it_is_written_has_changed(call, project, monkeypatch):
    (project / "a").write_text("old")
    before(monkeypatch, atomic, "_content", lambda: (project / "a").unlink())
    assert await call.code("write_file", path="a", content="new") == "file_changed"


def test_a_file_that_becomes_a_folder_where_names_cannot_be_exchanged_leaves_no_copy(project, both, monkeypatch):
    def act():
        (project / "a").unlink()
        (project / "a").mkdir()
        (project / "a/f").write_text("theirs")

    monkeypatch.setattr(swapping, "exchange", lambda *_: False)
    before(monkeypatch, Swap, "_rename_over", act)
    assert refused(change_all, rewritten(both))
    assert holds(project) == {"a/f": "theirs", "b": "old b"}


@far
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_a_link_keeps_its_owner_on_another_disk_and_where_undo_makes_it_again(call, project, disk):
    call.roots = [project, disk]
    (project / "a").write_text("a")
    for path in (project / "l", disk / "m"):
        path.symlink_to("a")
        os.lchown(path, 1000, 1001)
    await call("move_file", source="l", destination=str(disk / "l"))
    await call("move_file", source="a", destination=str(disk / "m"), overwrite=True)
    await call("undo")
    for name in "lm":
        status = (disk / name).lstat()
        assert (status.st_uid, status.st_gid) == (1000, 1001)


@pytest.mark.parametrize("step", [(trees, "_copy_one"), (trees, "keep_attributes")])
def test_a_save_while_a_replaced_file_is_copied_stays(project, both, monkeypatch, step):
    monkeypatch.setattr(swapping, "exchange", lambda *_: False)
    monkeypatch.setattr(os, "link", lambda *_, **__: fails(errno.EPERM))
    before(monkeypatch, *step, lambda: save(project / "a", "theirs, and longer"))
    assert refused(change_all, rewritten(both)) == "a has changed since it was read"
    assert holds(project) == {"a": "theirs, and longer", "b": "old b"}
