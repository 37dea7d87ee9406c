import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from toolbox_mcp.safety.writes import batch
from toolbox_mcp.safety.writes import fs_ops as entries
from toolbox_mcp.safety.writes import renameat2 as renaming
from toolbox_mcp.safety.writes.atomic import read_whole
from toolbox_mcp.safety.writes.fs_ops import make_folders, move, remove
from toolbox_mcp.safety.writes.tree_ops import copy


@pytest.fixture
def tree(project: Path) -> Path:
    outside = project.parent / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "kept").write_text("kept")
    (project / "folder" / "sub").mkdir(parents=True)
    (project / "folder" / "sub" / "file").write_text("f")
    (project / "empty").mkdir()
    (project / "file").write_text("file")
    (project / "other").write_text("other")
    (project / "repo" / ".git").mkdir(parents=True)
    (project / "repo" / ".git" / "config").touch()
    (project / "settings" / "in").mkdir(parents=True)
    (project / "settings" / "in" / ".mcp.json").touch()
    (project / "out").symlink_to(outside)
    (project / "folder" / "out").symlink_to(outside)
    (project / "folder" / "out_file").symlink_to(outside / "deep" / "kept")
    (project / "dangling").symlink_to("nothing")
    os.mkfifo(project / "fifo")
    return project


def everything(folder: Path) -> list[tuple[str, int, bytes]]:
    """List what is below, without following links."""
    found = []
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = Path(at, name)
            status = path.lstat()
            data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            found.append((str(path), stat.S_IFMT(status.st_mode), data))
    return sorted(found)


@pytest.mark.parametrize(
    ("source", "destination", "overwrite", "code"),
    [
        ("missing", "new", False, "not_found"),
        ("out/deep", "new", False, "path_denied"),
        (".", "new", False, "refused"),
        ("file", "file", False, "no_change"),
        ("file", "folder/../file", False, "no_change"),
        ("file", "other", False, "exists"),
        ("file", "folder", False, "is_a_directory"),
        ("file", "folder", True, "is_a_directory"),
        ("file", ".", True, "is_a_directory"),
        ("folder", "empty", True, "is_a_directory"),
        ("folder", "file", True, "exists"),
        ("folder", "folder/sub/x", False, "refused"),
        ("folder", "folder/new/x", False, "refused"),
        ("file", "out/deep/new", False, "path_denied"),
        ("file", "../new", False, "path_denied"),
        ("file", "other/new", False, "not_a_directory"),
        ("file", "1/2/3/4/5/6/7/8/9/f", False, "refused"),
        ("file", ".git", False, "protected_path"),
        ("file", "new/.git/hooks/x", False, "protected_path"),
        ("folder", ".claude", False, "protected_path"),
        ("repo/.git", "new", False, "protected_path"),
        ("repo", "new", False, "protected_path"),
        ("settings", "new", False, "protected_path"),
    ],
)
def test_a_refused_move_changes_nothing(tree, jail, outcome, source, destination, overwrite, code):
    roots = jail(protected=[".mcp.json", ".claude/settings*.json"])
    before = everything(tree.parent)
    act = lambda: move(roots.place(source), roots.place(destination), overwrite=overwrite)
    assert outcome(act) == code
    assert everything(tree.parent) == before


@pytest.mark.parametrize("source", ["file", "folder", "out", "dangling", "fifo", "empty"])
def test_moves_the_entry_itself(tree, roots, source):
    before = [row[1:] for row in everything(tree / source)]
    kind = stat.S_IFMT((tree / source).lstat().st_mode)
    moved = move(roots.place(source), roots.place("new/folder/name"))
    assert not os.path.lexists(tree / source)
    assert stat.S_IFMT((tree / "new/folder/name").lstat().st_mode) == kind
    assert [row[1:] for row in everything(tree / "new/folder/name")] == before
    assert [folder.shown for folder in moved.folders] == ["new", "new/folder"]
    assert (tree.parent / "outside/deep/kept").read_text() == "kept"


@pytest.mark.parametrize("destination", ["other", "dangling", "folder/out_file"])
def test_overwrites_a_file_or_link_when_asked(tree, roots, destination):
    assert move(roots.place("file"), roots.place(destination), overwrite=True).replaced
    assert (tree / destination).read_text() == "file"
    assert not (tree / destination).is_symlink()
    assert not (tree / "file").exists()
    assert (tree.parent / "outside/deep/kept").read_text() == "kept"


@pytest.mark.parametrize("other", ["hard", "File"])
def test_moves_one_name_of_a_file_onto_another(tree, roots, outcome, other):
    os.link(tree / "file", tree / other)
    assert outcome(lambda: move(roots.place("file"), roots.place(other))) == "exists"
    assert move(roots.place("file"), roots.place(other), overwrite=True).replaced
    assert "file" not in os.listdir(tree)
    assert (tree / other).read_text() == "file"


def test_moves_between_roots(tree, jail):
    other = tree.parent / "other_root"
    other.mkdir()
    roots = jail(tree, other)
    move(roots.place("folder"), roots.place(str(other / "moved")))
    assert (other / "moved/sub/file").read_text() == "f"


def test_a_move_loses_against_an_entry_that_appears(tree, roots, monkeypatch, outcome):
    make = entries.make_folders

    def meanwhile(*arguments, **options):
        (tree / "new").write_text("theirs")
        return make(*arguments, **options)

    monkeypatch.setattr(entries, "make_folders", meanwhile)
    assert outcome(lambda: move(roots.place("file"), roots.place("new"))) == "exists"
    assert (tree / "new").read_text() == "theirs"
    assert (tree / "file").read_text() == "file"


@pytest.mark.parametrize("number", [{}, {"x86_64": 1 << 20, "aarch64": 1 << 20}])
@pytest.mark.parametrize("source", ["file", "folder", "dangling"])
def test_renames_without_replacing_where_the_system_call_is_missing(tree, monkeypatch, source, number):
    monkeypatch.setattr(renaming, "SYSCALL_NUMBERS", number)
    renaming._syscall.cache_clear()
    fd = os.open(tree, os.O_RDONLY)
    try:
        with pytest.raises(FileExistsError):
            renaming.rename_no_replace(fd, source, fd, "other")
        renaming.rename_no_replace(fd, source, fd, "new")
        assert not renaming.exchange(fd, "other", "empty")
    finally:
        os.close(fd)
        renaming._syscall.cache_clear()
    assert os.path.lexists(tree / "new")
    assert not os.path.lexists(tree / source)
    assert (tree / "other").read_text() == "other"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
@pytest.mark.parametrize("number", [renaming.SYSCALL_NUMBERS, {}])
@pytest.mark.parametrize("act", ["move", "remove", "change"])
def test_a_refusal_in_a_shared_folder_leaves_no_second_name(project, jail, as_nobody, monkeypatch, act, number):
    monkeypatch.setattr(renaming, "SYSCALL_NUMBERS", number)
    renaming._syscall.cache_clear()
    project.chmod(0o777)
    shared = project / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "file").write_text("theirs")
    (shared / "file").chmod(0o666)
    roots = jail(project)
    at = roots.place("shared/file").target()
    acts = {
        "move": lambda: move(at, roots.place("new")),
        "remove": lambda: remove(at),
        "change": lambda: batch.change_all([batch.Change(at, b"mine", read_whole(at, 10)[1])]),
    }
    try:
        assert as_nobody(acts[act]) == "path_denied"
    finally:
        renaming._syscall.cache_clear()
    assert everything(project)[1:] == [(str(shared / "file"), stat.S_IFREG, b"theirs")]


ACROSS = """
import os, sys
from toolbox_mcp.safety.writes.fs_ops import move, remove
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Engine, Roots
os.chdir(sys.argv[1])
roots = Roots(["."], engine=Engine(sys.argv[2]))
def attempt(act, *arguments, **options):
    try:
        act(*arguments, **options)
        print("done")
    except ToolError as e:
        print(e.code)
attempt(move, roots.place("folder"), roots.place("mounted/new"))
print(open("mounted/new/sub/file").read(), os.readlink("mounted/new/out_file"), os.path.exists("folder"))
os.chmod("file", 0o640)
attempt(move, roots.place("file"), roots.place("mounted/file"))
print(oct(os.stat("mounted/file").st_mode), os.path.exists("file"))
attempt(move, roots.place("mounted/file"), roots.place("other"))
attempt(move, roots.place("mounted/file"), roots.place("other"), overwrite=True)
print(open("other").read())
attempt(move, roots.place("fifo"), roots.place("mounted/fifo"))
with open("big", "wb") as file:
    file.write(b"x" * 1_000_000)
attempt(move, roots.place("big"), roots.place("mounted/big"))
print(os.path.getsize("big"), sorted(os.listdir("mounted")))
attempt(remove, roots.place("mounted"), recursive=True)
os.mkdir("around")
attempt(remove, roots.place("holder"), recursive=True)
print(sorted(os.listdir("holder/mount")))
"""


def test_moves_to_another_file_system_by_copying(tree, engine, with_mounts):
    (tree / "mounted").mkdir()
    (tree / "holder" / "mount").mkdir(parents=True)
    mounts = f"mount -t tmpfs -o size=256k tmpfs {tree}/mounted && mount -t tmpfs tmpfs {tree}/holder/mount"
    mounts += f" && touch {tree}/holder/mount/kept"
    told = with_mounts(mounts, ACROSS, tree, engine.value).splitlines()
    assert told == [
        "done",
        f"f {tree.parent}/outside/deep/kept False",
        "done",
        "0o100640 False",
        "exists",
        "done",
        "file",
        "refused",
        "refused",
        "1000000 ['new']",
        "path_denied",
        "refused",
        "['kept']",
    ]


@pytest.mark.parametrize(
    ("path", "recursive", "code"),
    [
        (".", True, "refused"),
        ("missing", True, "not_found"),
        ("folder", False, "not_empty"),
        ("out/deep", True, "path_denied"),
        ("../outside", True, "path_denied"),
        ("repo", True, "protected_path"),
        ("repo/.git", True, "protected_path"),
        ("settings", True, "protected_path"),
    ],
)
def test_a_refused_removal_changes_nothing(tree, jail, outcome, path, recursive, code):
    roots = jail(protected=[".mcp.json"])
    before = everything(tree.parent)
    assert outcome(lambda: remove(roots.place(path), recursive=recursive)) == code
    assert everything(tree.parent) == before


@pytest.mark.parametrize(
    ("path", "recursive", "what"),
    [
        ("file", False, "file"),
        ("empty", False, "directory"),
        ("folder", True, "directory"),
        ("out", True, "link"),
        ("dangling", False, "link"),
        ("fifo", False, "file"),
    ],
)
def test_removes_the_entry_and_never_what_a_link_leads_to(tree, roots, path, recursive, what):
    assert remove(roots.place(path), recursive=recursive) == what
    assert not os.path.lexists(tree / path)
    assert (tree.parent / "outside/deep/kept").read_text() == "kept"


def test_removes_a_tree_deeper_than_a_path_can_say(bottomless, roots):
    before = len(os.listdir("/dev/fd"))
    assert remove(roots.place("deep"), recursive=True) == "directory"
    assert os.listdir(bottomless) == []
    assert len(os.listdir("/dev/fd")) == before


def test_a_folder_carried_away_during_removal_takes_nothing_else_along(tree, roots, monkeypatch, outcome):
    unlink = os.unlink
    outside = tree.parent / "outside"

    def meanwhile(name, **options):
        if name == "file":
            (tree / "folder" / "sub").rename(outside / "sub")
        unlink(name, **options)

    monkeypatch.setattr(entries.os, "unlink", meanwhile)
    assert outcome(lambda: remove(roots.place("folder"), recursive=True)) == "path_denied"
    assert (outside / "deep" / "kept").read_text() == "kept"


@pytest.mark.parametrize(
    ("path", "made"),
    [
        ("folder", []),
        (".", []),
        ("new", ["new"]),
        ("folder/a/b", ["folder/a", "folder/a/b"]),
        ("1/2/3/4/5/6/7/8", ["1", "1/2", "1/2/3"]),
        ("1/2/3/4/5/6/7/8/9", "refused"),
        ("file", "exists"),
        ("fifo", "exists"),
        ("file/x", "not_a_directory"),
        ("out/new", "path_denied"),
        (".git", "protected_path"),
        ("a/.git/hooks", "protected_path"),
        ("repo/.git", []),
        ("dangling/x", ["nothing", "nothing/x"]),
    ],
)
def test_makes_folders_and_those_above(tree, roots, outcome, path, made):
    answer = outcome(lambda: [folder.shown for folder in make_folders(roots.place(path))][:3])
    assert answer == made
    for folder in made if isinstance(made, list) else []:
        assert (tree / folder).is_dir()
    assert os.listdir(tree.parent / "outside") == ["deep"]


def test_takes_back_folders_when_one_cannot_be_made(project, roots, monkeypatch, outcome):
    mkdir = os.mkdir

    def failing(name, **options):
        if name == "c":
            raise OSError(28, "No space left on device")
        mkdir(name, **options)

    monkeypatch.setattr(entries.os, "mkdir", failing)
    assert outcome(lambda: make_folders(roots.place("a/b/c"))) == "refused"
    assert os.listdir(project) == []


KEPT = """
import os, sys
from toolbox_mcp.safety.writes import batch, fs_ops as entries, cross_device_move as far_moves, renameat2 as renaming
from toolbox_mcp.safety.writes.atomic import read_whole
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Roots
os.chdir(sys.argv[1])
roots = Roots(["."])
os.mkdir("d")
os.chmod("d", 0o2750)
open("d/f", "w").write("f")
os.chmod("d/f", 0o6754)
for path in ("d", "d/f"):
    os.setxattr(path, "user.note", b"kept")
with open("d/hole", "wb") as file:
    file.write(b"begin")
    file.seek(2**30)
    file.write(b"end")
    file.truncate(2**40)
entries.move(roots.place("d"), roots.place("mounted/d"))
for path in ("mounted/d", "mounted/d/f"):
    status = os.stat(path)
    print(status.st_uid, status.st_gid, oct(status.st_mode & 0o7777))
print(os.getxattr("mounted/d/f", "user.note").decode())
with open("mounted/d/hole", "rb") as file:
    print(file.read(6), os.fstat(file.fileno()).st_size == 2**40, os.fstat(file.fileno()).st_blocks < 1000)
    file.seek(2**30)
    print(file.read(3), os.path.exists("d"))
real = far_moves.copy
def copy(*arguments):
    real(*arguments)
    with open("g/f", "w") as file:
        file.write("someone else's")
far_moves.copy = copy
os.mkdir("g")
open("g/f", "w").write("mine")
try:
    entries.move(roots.place("g"), roots.place("mounted/g"))
except ToolError as e:
    print(e.code, open("g/f").read(), os.listdir("mounted"))
"""


def test_a_move_to_another_file_system_keeps_what_a_file_has_and_loses_nothing(project, with_mounts):
    (project / "mounted").mkdir()
    told = with_mounts(f"mount -t tmpfs -o size=1m tmpfs {project}/mounted", KEPT, project).splitlines()
    assert told == [
        "0 0 0o2750", "0 0 0o6754", "kept", "b'begin\\x00' True True", "b'end' False", "file_changed someone else's ['d']",
    ]  # fmt: skip


COPIED = """
import os, sys
from toolbox_mcp.safety.writes.tree_ops import copy
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
folder = os.open(sys.argv[1], os.O_RDONLY)
copy(folder, "a", folder, "b")
print(oct(os.stat("b", dir_fd=folder).st_mode & 0o7777))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
@pytest.mark.parametrize(
    ("owner", "kept"), [((65534, 65534), "0o6755"), ((65534, 1235), "0o755"), ((1234, 65534), "0o755")]
)
def test_a_copy_runs_as_its_owners_only_where_they_are_the_same(project, owner, kept):
    for folder in project.parents:
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    project.chmod(0o777)
    (project / "a").write_text("program")
    os.chown(project / "a", *owner)
    (project / "a").chmod(0o6755)
    command = [sys.executable, "-c", COPIED, str(project)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == kept


UNREMOVABLE = """
import errno, os, sys
from toolbox_mcp.safety.writes import fs_ops as entries, cross_device_move as far_moves
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Roots
os.chdir(sys.argv[1])
roots = Roots(["."])
def attempt(source, destination, overwrite=False):
    try:
        entries.move(roots.place(source), roots.place(destination), overwrite=overwrite)
    except ToolError as e:
        print(e.code, e.error)
open("kept", "w").write("kept")
attempt("fixed/f", "kept", overwrite=True)
attempt("fixed/f", "new/f")
attempt("fixed/d", "new/d")
print(sorted(os.listdir(".")), open("kept").read())

removed, renamed = far_moves.remove_tree, os.rename
def not_removed(fd, name):
    raise PermissionError(errno.EACCES, "")
def in_place(old, new, *, src_dir_fd, dst_dir_fd):
    if src_dir_fd == dst_dir_fd and not old.startswith(".toolbox-"):
        raise OSError(errno.EXDEV, "")
    renamed(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
far_moves.remove_tree = not_removed
mounted = os.open("mounted", os.O_RDONLY)
for way in (renamed, in_place):
    os.rename = way
    os.makedirs("d/e")
    attempt("d", "mounted/d")
    far_moves.remove_tree = removed
    print(os.listdir("d"), os.listdir("mounted"), os.listdir("mounted/d"))
    attempt("d", "mounted/d2")
    print(os.path.exists("d"), sorted(os.listdir("mounted")))
    for name in os.listdir("mounted"):
        removed(mounted, name)
    far_moves.remove_tree = not_removed
"""


def test_what_cannot_go_away_is_not_moved_to_another_file_system(project, with_mounts):
    for name in ("fixed", "mounted"):
        (project / name).mkdir()
    mounts = f"mount -t tmpfs tmpfs {project}/mounted && mount -t tmpfs tmpfs {project}/fixed && cd {project}/fixed"
    mounts += " && mkdir d && echo f >f && mount -o remount,ro ."
    left = "all of it is copied to mounted/d, and not all of it could be removed"
    half = [f"path_denied the system does not permit access to d: {left}", "['e'] ['d'] ['e']", "False ['d', 'd2']"]
    assert with_mounts(mounts, UNREMOVABLE, project).splitlines() == [
        "path_denied fixed/f is on a read-only file system",
        "path_denied fixed/f is on a read-only file system",
        "path_denied fixed/d is on a read-only file system",
        "['fixed', 'kept', 'mounted'] kept",
        *half,
        *half,
    ]


ALWAYS_NAMED = """
import os, sys
from toolbox_mcp.safety.writes import fs_ops as entries, cross_device_move as far_moves
from toolbox_mcp.safety.path_jail.roots import Roots
os.chdir(sys.argv[1])
roots = Roots(["."])
set_aside = far_moves._set_aside
def watched(old, fd):
    print(open("mounted/f").read())
    return set_aside(old, fd)
far_moves._set_aside = watched
for text in ("created", "replacing"):
    open("f", "w").write(text)
    entries.move(roots.place("f"), roots.place("mounted/f"), overwrite=True)
print(os.listdir("."), os.listdir("mounted"), open("mounted/f").read())
"""


def test_before_what_moves_to_another_file_system_loses_its_name_the_copy_has_one(project, with_mounts):
    (project / "mounted").mkdir()
    told = with_mounts(f"mount -t tmpfs tmpfs {project}/mounted", ALWAYS_NAMED, project).splitlines()
    assert told == ["created", "replacing", "['mounted'] ['f'] replacing"]


STUCK = """
import os, sys
from toolbox_mcp.safety.writes import fs_ops as entries, cross_device_move as far_moves, rollback as putting_back
from toolbox_mcp.safety.path_jail.roots import Roots
os.chdir(sys.argv[1])
roots = Roots(["."])
open("f", "w").write("moving")
open("mounted/f", "w").write("there")
def stuck(*names):
    raise OSError(5, "Input/output error")
def kept(old, fd):
    raise PermissionError(13, "Permission denied")
far_moves._set_aside = kept
if "stuck" in sys.argv:
    putting_back.exchange = stuck
try:
    entries.move(roots.place("f"), roots.place("mounted/f"), overwrite=True)
except Exception as e:
    print(type(e).__name__, open("f").read(), sorted(open("mounted/" + name).read() for name in os.listdir("mounted")))
"""


@pytest.mark.parametrize(("how", "there"), [("free", "['there']"), ("stuck", "['moving', 'there']")])
def test_what_a_copy_took_the_place_of_is_not_lost_where_the_source_stays(project, with_mounts, how, there):
    (project / "mounted").mkdir()
    told = with_mounts(f"mount -t tmpfs tmpfs {project}/mounted", STUCK, project, how)
    assert told == f"ToolError moving {there}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
def test_a_copy_has_the_owners_of_what_was_copied(project):
    (project / "d").mkdir()
    (project / "d/f").touch()
    os.chown(project / "d", 1234, 1235)
    os.chown(project / "d/f", 1236, 1237)
    (project / "d").chmod(0o2751)
    fd = os.open(project, os.O_RDONLY)
    copy(fd, "d", fd, "copied")
    os.close(fd)
    kept = [(path.stat().st_uid, path.stat().st_gid, path.stat().st_mode) for path in (project / "d", project / "d/f")]
    for path in (project / "copied", project / "copied/f"):
        assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode) == kept.pop(0)
