import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.safety.writes import atomic
from toolbox_mcp.safety.writes import renameat2 as renaming
from toolbox_mcp.safety.writes import swap as swapping
from toolbox_mcp.safety.writes.atomic import locked, read_whole, replace
from toolbox_mcp.safety.writes.file_version import FileVersion, etag

linux = pytest.mark.skipif(sys.platform != "linux", reason="as Linux has it")


def test_an_etag_is_sixteen_digits_of_sha256():
    assert etag(b"abc") == "ba7816bf8f01cfea"


def test_replaces_a_file_and_keeps_its_mode(project, roots):
    file = project / "run.sh"
    file.write_text("old")
    file.chmod(0o751)
    written = replace(roots.place("run.sh"), b"new", keep=10)
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert (written.created, written.old, written.old_mode, written.etag) == (False, b"old", 0o751, etag(b"new"))
    assert os.listdir(project) == ["run.sh"]


@linux
def test_keeps_attributes_and_owner(project, roots):
    file = project / "a"
    file.write_text("old")
    os.setxattr(file, "user.origin", b"here")
    if os.geteuid() == 0:
        os.chown(file, 1234, 1235)
    before = file.stat()
    replace(roots.place("a"), b"new")
    assert os.getxattr(file, "user.origin") == b"here"
    assert (file.stat().st_uid, file.stat().st_gid) == (before.st_uid, before.st_gid)


def test_changed_programs_lose_their_set_id_bits(project, roots):
    file = project / "a"
    file.touch()
    file.chmod(0o6755)
    replace(roots.place("a"), b"new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


def test_created_files_have_the_mode_of_the_umask(project, roots):
    before = os.umask(0o027)
    try:
        assert replace(roots.place("a"), b"x").created
        replace(roots.place("b"), b"x", mode=0o604)
    finally:
        os.umask(before)
    assert stat.S_IMODE((project / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((project / "b").stat().st_mode) == 0o604


def test_replaces_the_target_of_a_link(project, roots):
    (project / "a").write_text("old")
    (project / "link").symlink_to(project / "a")
    (project / "dangling").symlink_to("made")
    replace(roots.place("link"), b"new")
    replace(roots.place("dangling"), b"made")
    assert (project / "link").is_symlink()
    assert (project / "a").read_text() == "new"
    assert (project / "made").read_text() == "made"


def test_a_hard_link_keeps_its_content(project, roots):
    outside = project.parent / "outside"
    outside.write_text("old")
    os.link(outside, project / "a")
    replace(roots.place("a"), b"new")
    assert outside.read_text() == "old"


@pytest.fixture
def targets(project: Path) -> Path:
    outside = project.parent / "outside"
    outside.mkdir()
    (project / "folder").mkdir()
    (project / "file").write_text("old")
    (project / "out").symlink_to(outside / "new")
    (project / "out_folder").symlink_to(outside)
    os.mkfifo(project / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(project / "socket"))
    return project


@pytest.mark.parametrize(
    ("path", "options", "code"),
    [
        (".", {}, "is_a_directory"),
        ("folder", {}, "is_a_directory"),
        ("fifo", {}, "not_a_file"),
        ("socket", {}, "not_a_file"),
        ("file", {"overwrite": False}, "exists"),
        ("folder", {"overwrite": False}, "is_a_directory"),
        ("new/file", {}, "not_found"),
        ("file/below", {"create_parents": True}, "not_a_directory"),
        ("1/2/3/4/5/6/7/8/9/file", {"create_parents": True}, "refused"),
        ("out", {}, "path_denied"),
        ("out_folder/new", {}, "path_denied"),
        ("out_folder/new/deep", {"create_parents": True}, "path_denied"),
        ("../outside/new", {}, "path_denied"),
        (".git/config", {"create_parents": True}, "protected_path"),
        ("n" * 256, {}, "path_denied"),
    ],
)
def test_refuses_and_leaves_everything_as_it_was(targets, roots, outcome, path, options, code):
    before = sorted(targets.parent.rglob("*"))
    assert outcome(lambda: replace(roots.place(path), b"new", **options)) == code
    assert sorted(targets.parent.rglob("*")) == before
    assert (targets / "file").read_text() == "old"


def test_makes_up_to_eight_folders(project, roots):
    written = replace(roots.place("1/2/3/4/5/6/7/8/file"), b"x", create_parents=True)
    assert [folder.shown for folder in written.folders][:2] == ["1", "1/2"]
    assert len(written.folders) == 8


def test_takes_back_the_folders_when_the_write_fails(project, roots, monkeypatch, outcome):
    def full(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert outcome(lambda: replace(roots.place("a/b/file"), b"x", create_parents=True)) == "refused"
    assert os.listdir(project) == []


@pytest.mark.parametrize("change", ["content", "touch", "swap", "remove", "link"])
def test_refuses_a_file_that_changed_since_it_was_read(project, roots, change):
    file = project / "a"
    file.write_text("old")
    place = roots.place("a")
    _, seen = read_whole(place, 100)
    if change == "content":
        file.write_text("other")
    elif change == "touch":
        os.utime(file, ns=(1, 1))
    else:
        file.rename(project / "b")
        if change == "swap":
            file.write_text("old")
        elif change == "link":
            file.symlink_to("b")
            (project / "b").write_text("old!")
    with pytest.raises(ToolError) as caught:
        replace(place, b"new", expect=seen)
    assert caught.value.code is Code.FILE_CHANGED
    assert "new" not in [path.read_text() for path in project.iterdir()]


def test_a_file_that_changes_during_the_write_is_not_lost(project, roots, monkeypatch, outcome):
    file = project / "a"
    file.write_text("old")
    _, seen = read_whole(roots.place("a"), 100)
    sync = os.fsync

    def meanwhile(fd):
        file.write_text("theirs")
        sync(fd)

    monkeypatch.setattr(os, "fsync", meanwhile)
    assert outcome(lambda: replace(roots.place("a"), b"new", expect=seen)) == "file_changed"
    assert file.read_text() == "theirs"
    assert os.listdir(project) == ["a"]


def test_a_file_that_appears_during_the_write_is_not_replaced(project, roots, monkeypatch, outcome):
    look = swapping.look
    calls = []

    def meanwhile(*arguments):
        result = look(*arguments)
        calls.append(result)
        if len(calls) == 2:
            (project / "a").write_text("theirs")
        return result

    monkeypatch.setattr(swapping, "look", meanwhile)
    assert outcome(lambda: replace(roots.place("a"), b"new", overwrite=False)) == "exists"
    assert (project / "a").read_text() == "theirs"
    assert os.listdir(project) == ["a"]


def test_reads_at_most_the_limit(project, roots, outcome):
    (project / "a").write_bytes(b"x" * 100)
    assert read_whole(roots.place("a"), 100)[0] == b"x" * 100
    assert outcome(read_whole, roots.place("a"), 99) == "too_large"
    (project / "empty").touch()
    assert read_whole(roots.place("empty"), 0)[0] == b""


def test_a_sparse_tebibyte_is_too_large_at_once(project, roots, outcome):
    with open(project / "sparse", "wb") as file:
        file.truncate(1 << 40)
    assert outcome(read_whole, roots.place("sparse"), 1 << 20) == "too_large"


@linux
def test_reads_files_that_lie_about_their_size(jail, outcome):
    roots = jail(Path("/proc"))
    assert roots.place("self/status").stat().st_size == 0
    assert b"Pid:" in read_whole(roots.place("self/status"), 1 << 20)[0]
    assert outcome(read_whole, roots.place("self/status"), 10) == "too_large"


def test_a_growing_file_is_read_up_to_the_limit(project, roots, monkeypatch, outcome):
    file = project / "log"
    file.write_bytes(b"x")
    read = os.read

    def growing(fd, count):
        with open(file, "ab") as log:
            log.write(b"y" * 100)
        return read(fd, count)

    monkeypatch.setattr(atomic.os, "read", growing)
    assert outcome(read_whole, roots.place("log"), 1000) == "too_large"


WRITER = """
import sys
from toolbox_mcp.safety.writes.atomic import replace
from toolbox_mcp.safety.path_jail.roots import Engine, Roots
place = Roots([sys.argv[1]], engine=Engine(sys.argv[2])).place("file")
while True:
    for byte in b"ab":
        replace(place, bytes([byte]) * 300_000)
        sys.stdout.write(".")
        sys.stdout.flush()
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_the_old_file_or_the_new(project, engine):
    (project / "file").write_bytes(b"a" * 300_000)
    seen = set()
    for round in range(25):
        command = [sys.executable, "-c", WRITER, str(project), engine.value]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            # The kill comes while the write after the last one told is going on.
            writer.stdout.read(1 + round % 4)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        data = (project / "file").read_bytes()
        assert data in (b"a" * 300_000, b"b" * 300_000)
        seen.add(data[:1])
    assert seen == {b"a", b"b"}


LIMITED = """
import resource, signal, sys
from toolbox_mcp.safety.writes.atomic import replace
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Engine, Roots
if sys.argv[3] == "limit":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
place = Roots([sys.argv[1]], engine=Engine(sys.argv[2])).place("file")
try:
    replace(place, b"new" * 100_000)
except ToolError as e:
    print(e.code)
    print(e.error)
"""


def test_a_full_disk_leaves_the_file_whole(project, engine, with_mounts):
    mounts = f"mount -t tmpfs -o size=128k tmpfs {project} && printf old > {project}/file"
    script = LIMITED + '\nimport os; print(open(sys.argv[1] + "/file").read(), os.listdir(sys.argv[1]))'
    told = with_mounts(mounts, script, project, engine.value, "disk")
    assert told.splitlines() == ["refused", "the disk is full, file is as it was", "old ['file']"]


def test_a_size_limit_leaves_the_file_whole(project, engine):
    (project / "file").write_text("old")
    command = [sys.executable, "-c", LIMITED, str(project), engine.value, "limit"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.splitlines()[0] == "refused"
    assert (project / "file").read_text() == "old"
    assert os.listdir(project) == ["file"]


def test_a_read_only_file_system_is_path_denied(project, engine, with_mounts):
    (project / "file").write_text("old")
    mounts = f"mount --bind {project} {project} && mount -o remount,bind,ro {project}"
    told = with_mounts(mounts, LIMITED, project, engine.value, "disk")
    assert told.splitlines() == ["path_denied", "file is on a read-only file system"]
    assert (project / "file").read_text() == "old"


def test_a_folder_that_may_not_be_written_is_path_denied(project, roots, as_nobody):
    (project / "file").write_text("old")
    (project / "file").chmod(0o666)
    project.chmod(0o555)
    assert as_nobody(lambda: replace(roots.place("file"), b"new").etag) == "path_denied"
    assert as_nobody(lambda: replace(roots.place("new"), b"new").etag) == "path_denied"
    assert (project / "file").read_text() == "old"
    project.chmod(0o777)
    assert as_nobody(lambda: replace(roots.place("new"), b"new").etag) == etag(b"new")


def test_readers_see_the_old_content_or_the_new(project, roots):
    place = roots.place("file")
    replace(place, b"a" * 100_000)
    stop = threading.Event()
    seen: set[bytes] = set()

    def read():
        while not stop.is_set():
            seen.add(read_whole(place, 1 << 20)[0])

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for number in range(100):
            replace(place, (b"a", b"b")[number % 2] * 100_000)
        stop.set()
        for reader in readers:
            reader.result()
    assert seen <= {b"a" * 100_000, b"b" * 100_000}


def test_two_writers_that_hold_the_file_lose_no_update(project, roots):
    (project / "count").write_text("0")
    (project / "link").symlink_to("count")

    def add(name):
        for _ in range(20):
            with locked(roots.place(name)) as place:
                data, seen = read_whole(place, 100)
                replace(place, str(int(data) + 1).encode(), expect=seen)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, ["count", "link", "./count", str(project / "count")]))
    assert (project / "count").read_text() == "80"


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_text("someone else's"),
        lambda file: (file.unlink(), file.write_text("someone else's")),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: file.unlink(),
    ],
)
def test_what_comes_in_the_instant_before_the_rename_is_not_lost(project, roots, monkeypatch, outcome, change):
    file = project / "a"
    file.write_text("old")
    place = roots.place("a")
    _, seen = read_whole(place, 100)
    real = swapping.exchange
    changed = []

    def exchange(dir_fd, one, other):
        if not changed:
            changed.append(change(file))
        return real(dir_fd, one, other)

    monkeypatch.setattr(swapping, "exchange", exchange)
    assert outcome(lambda: replace(place, b"new", expect=seen)) == "file_changed"
    assert [path.name for path in project.iterdir()] == (["a"] if file.exists() else [])
    assert not file.is_file() or file.read_text() == "someone else's"


@pytest.mark.parametrize("late", ["saved", "deleted", "written"])
def test_what_comes_while_a_changed_file_is_put_back_is_not_lost(project, roots, monkeypatch, late):
    file = project / "a"
    file.write_text("old")
    place = roots.place("a")
    _, seen = read_whole(place, 100)
    real, left = FileVersion.holds, [1]

    def holds(self, dir_fd, name):
        if left:
            left.pop()
            # Who had the former file open writes into it, and then somebody does the same as an editor would, or else.
            (project / name).write_text("changed")
            if late == "deleted":
                file.unlink()
            else:
                written = file if late == "written" else project.parent / "beside"
                written.write_text("precious")
                os.replace(written, file)
        return real(self, dir_fd, name)

    monkeypatch.setattr(FileVersion, "holds", holds)
    with pytest.raises(ToolError) as refused:
        replace(place, b"new", expect=seen)
    assert refused.value.code == "file_changed"
    assert ("stays so" in refused.value.error) == (late == "written")
    kept = "changed" if late == "deleted" else "precious"
    assert [(path.name, path.read_text()) for path in project.iterdir()] == [("a", kept)]


def test_a_changed_file_that_cannot_be_put_back_is_kept_and_told(project, roots, monkeypatch):
    (project / "a").write_text("old")
    place = roots.place("a")
    _, seen = read_whole(place, 100)

    def fails(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(FileVersion, "holds", lambda *_: False)
    monkeypatch.setattr(swapping, "put_back", fails)
    with pytest.raises(ToolError) as refused:
        replace(place, b"new", expect=seen)
    assert refused.value.code == "refused"
    kept = re.search(r"what it held, or somebody has saved since, is in (\S+): Input/output error", refused.value.error)
    assert kept
    assert (project / kept[1]).read_text() == "old"
    assert (project / "a").read_text() == "new"


@pytest.mark.parametrize("taken", [True, False])
def test_files_are_made_where_there_are_no_hard_links(project, roots, monkeypatch, taken):
    def no_links(*_, **__):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(renaming, "renameat2", lambda *_: False)
    monkeypatch.setattr(os, "link", no_links)
    if taken:
        real = swapping.fill

        def fill(*arguments):
            (project / "a").write_text("theirs")
            real(*arguments)

        monkeypatch.setattr(swapping, "fill", fill)
        with pytest.raises(ToolError) as refused:
            replace(roots.place("a"), b"new")
        assert refused.value.code == "file_changed"
    else:
        replace(roots.place("a"), b"new")
    assert [(path.name, path.read_text()) for path in project.iterdir()] == [("a", "theirs" if taken else "new")]


def test_files_are_renamed_where_the_system_cannot_exchange_them(project, roots, monkeypatch):
    (project / "a").write_text("old")
    place = roots.place("a")
    _, seen = read_whole(place, 100)
    monkeypatch.setattr(swapping, "exchange", lambda *_: False)
    replace(place, b"new", expect=seen)
    assert (project / "a").read_text() == "new"
    assert os.listdir(project) == ["a"]


@pytest.mark.parametrize("change", ["mode", "hidden"])
def test_what_leaves_the_time_as_it_was_is_seen_too(project, roots, monkeypatch, outcome, change):
    file = project / "a"
    file.write_text("old")
    os.utime(file, ns=(10**18, 10**18))
    _, seen = read_whole(roots.place("a"), 100)
    sync = os.fsync

    def meanwhile(fd):
        if change == "mode":
            file.chmod(0o600)
        else:
            file.write_text("sly")
            os.utime(file, ns=(10**18, 10**18))
        sync(fd)

    monkeypatch.setattr(os, "fsync", meanwhile)
    assert outcome(lambda: replace(roots.place("a"), b"new", expect=seen)) == "file_changed"
    assert file.read_text() == ("old" if change == "mode" else "sly")
    assert os.listdir(project) == ["a"]


def test_a_write_within_the_same_tick_of_the_clock_is_not_lost(project, roots, monkeypatch, outcome):
    file = project / "a"
    file.write_text("old")
    _, seen = read_whole(roots.place("a"), 100)
    assert seen.digest == etag(b"old")
    real = swapping.exchange
    tick = file.stat()

    def exchange(dir_fd, one, other):
        # As a clock that counts ticks leaves it.
        if file.read_text() == "old":
            file.write_text("sly")
            os.utime(file, ns=(tick.st_atime_ns, tick.st_mtime_ns))
        return real(dir_fd, one, other)

    monkeypatch.setattr(swapping, "exchange", exchange)
    assert outcome(lambda: replace(roots.place("a"), b"new", expect=seen)) == "file_changed"
    assert file.read_text() == "sly"
    assert os.listdir(project) == ["a"]


def test_what_undo_would_bring_back_is_what_goes_away(project, roots, monkeypatch, outcome):
    file = project / "a"
    file.write_text("old")
    real = atomic._content

    def meanwhile(*arguments):
        old = real(*arguments)
        file.write_text("theirs")
        return old

    monkeypatch.setattr(atomic, "_content", meanwhile)
    assert outcome(lambda: replace(roots.place("a"), b"new", keep=100)) == "file_changed"
    assert file.read_text() == "theirs"


SHARED = """
import os, sys
from toolbox_mcp.safety.writes.atomic import replace
from toolbox_mcp.safety.path_jail.roots import Roots
os.setgroups([int(group) for group in sys.argv[2:]])
os.setgid(65534)
os.setuid(65534)
replace(Roots([sys.argv[1]]).place("a"), b"new")
status = os.stat(sys.argv[1] + "/a")
print(status.st_uid, status.st_gid, oct(status.st_mode & 0o7777))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
@pytest.mark.parametrize(
    ("groups", "mode", "kept"),
    [(["1235"], 0o664, "65534 1235 0o664"), (["1235"], 0o6675, "65534 1235 0o675"), ([], 0o674, "65534 65534 0o644")],
)
def test_who_may_not_give_a_file_away_leaves_it_to_its_group_and_no_other(project, groups, mode, kept):
    for folder in project.parents:
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    project.chmod(0o777)
    (project / "a").write_text("old")
    os.chown(project / "a", 1234, 1235)
    (project / "a").chmod(mode)
    command = [sys.executable, "-c", SHARED, str(project), *groups]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.strip() == kept
    assert (project / "a").read_text() == "new"


def test_the_etag_of_a_large_file_is_that_of_its_bytes(project, roots, outcome):
    data = bytes(range(256)) * 2**14
    (project / "a").write_bytes(data)
    assert atomic.digested(roots.place("a"))[0] == etag(data)
    (project / "a").write_bytes(b"")
    assert atomic.digested(roots.place("a"))[0] == etag(b"")
    os.mkfifo(project / "pipe")
    assert outcome(atomic.digested, roots.place("pipe")) == "not_a_file"


@pytest.mark.parametrize("there", [False, True])
def test_a_file_is_synced_before_it_gets_its_name(project, roots, monkeypatch, there):
    if there:
        (project / "a").write_text("old")
    place = roots.place("a")
    seen = read_whole(place, 100)[1] if there else None
    synced: list[str] = []

    def sync(fd):
        assert stat.S_ISREG(os.fstat(fd).st_mode)
        is_new = (project / "a").exists() and (project / "a").read_bytes() == b"written"
        synced.append("after" if is_new else "before")

    monkeypatch.setattr(os, "fsync", sync)
    replace(place, b"written", expect=seen)
    assert synced == ["before"]


def test_a_file_that_may_not_be_read_is_replaced_all_the_same(project, roots, as_nobody):
    (project / "a").write_text("old")
    (project / "a").chmod(0o200)
    project.chmod(0o777)
    assert as_nobody(lambda: replace(roots.place("a"), b"new").etag) == etag(b"new")
    (project / "a").chmod(0o600)
    assert (project / "a").read_text() == "new"
