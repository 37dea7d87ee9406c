import os
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.writes import batch
from toolbox_mcp.safety.writes import rollback as putting_back
from toolbox_mcp.safety.writes import swap as swapping
from toolbox_mcp.safety.writes.atomic import read_whole
from toolbox_mcp.safety.writes.batch import Change, change_all
from toolbox_mcp.safety.writes.file_version import FileVersion
from toolbox_mcp.safety.writes.fs_ops import move
from toolbox_mcp.safety.writes.swap import Swap


@pytest.fixture
def files(project):
    for folder in ("a", "b", "c"):
        (project / folder).mkdir()
        for name in ("1", "2", "3"):
            (project / folder / name).write_text(f"old {folder}{name}")
    os.chmod(project / "a/1", 0o751)
    return project


@pytest.fixture
def rewritten(files, roots):
    """Return changes that give every file other content."""

    def make():
        out = []
        for path in sorted(files.glob("?/?")):
            place = roots.place(str(path)).target()
            out.append(Change(place, b"new " + path.name.encode(), read_whole(place, 100)[1]))
        return out

    return make


def without_exchange(monkeypatch):
    for module in (swapping, putting_back):
        monkeypatch.setattr(module, "exchange", lambda *_: False)


def before_the_swap_of(name, act, monkeypatch):
    """Have something done once, right before the file of this name gets its new content."""
    real, acts = Swap.run, [act]

    def run(swap, dir_fd):
        if acts and swap.place.name == name:
            acts.pop()()
        real(swap, dir_fd)

    monkeypatch.setattr(Swap, "run", run)


def state(folder: Path) -> dict[str, tuple[int, int, bytes | None]]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_ino,
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


def test_gives_every_file_its_content_and_keeps_its_mode(files, rewritten):
    done = change_all(rewritten())
    assert {path.read_text() for path in files.glob("?/?")} == {"new 1", "new 2", "new 3"}
    assert stat.S_IMODE((files / "a/1").stat().st_mode) == 0o751
    assert sorted(files.rglob("*")) == sorted([*files.glob("?"), *files.glob("?/?")])
    assert len({path.stat().st_mode for path in files.glob("?/?")}) == 2
    for changed in done:
        assert changed.after == FileVersion.of(changed.change.place.path.stat())


def test_creates_removes_and_links(files, roots):
    gone = roots.place("a/1").target()
    _, seen = read_whole(gone, 100)
    done = change_all(
        [
            Change(gone, None, seen),
            Change(roots.place("n/e/w").target(), b"new", None, mode=0o640),
            Change(roots.place("a/link").target(), b"2", None, link=True),
        ]
    )
    assert not (files / "a/1").exists()
    assert (files / "n/e/w").read_text() == "new"
    assert stat.S_IMODE((files / "n/e/w").stat().st_mode) == 0o640
    assert os.readlink(files / "a/link") == "2"
    assert [[folder.shown for folder in changed.folders] for changed in done] == [[], [], ["n", "n/e"]]


def test_nothing_to_change_is_nothing(roots):
    assert change_all([]) == ()


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("step", [(batch, "stage"), (Swap, "run"), (swapping, "fill")], ids=["stage", "swap", "fill"])
@pytest.mark.parametrize("which", range(9))
def test_a_failure_at_any_file_puts_the_very_files_back(files, rewritten, monkeypatch, step, which, swaps):
    if not swaps:
        without_exchange(monkeypatch)
    before = state(files)
    real = getattr(*step)
    left = [which]

    def fails(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return real(*arguments, **options)

    monkeypatch.setattr(*step, fails)
    with pytest.raises(ToolError) as refused:
        change_all(rewritten())
    assert refused.value.code == "refused"
    monkeypatch.undo()
    assert state(files) == before


@pytest.mark.parametrize("which", range(3))
def test_a_failure_takes_back_created_removed_and_linked_entries(files, roots, monkeypatch, which, outcome):
    gone = roots.place("a/1").target()
    _, seen = read_whole(gone, 100)
    changes = [
        Change(gone, None, seen),
        Change(roots.place("b/link").target(), b"2", None, link=True),
        Change(roots.place("n/e/w").target(), b"new", None),
        Change(roots.place("z").target(), b"new", None),
    ]
    before = state(files)
    real = Swap.run
    left = [which + 1]

    def fails(swap, dir_fd):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(swap, dir_fd)

    monkeypatch.setattr(Swap, "run", fails)
    assert outcome(lambda: change_all(changes)) == "refused"
    assert state(files) == before


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("linked", [True, False])
def test_without_an_exchange_the_old_file_is_kept_by_a_link_or_a_copy(files, rewritten, monkeypatch, swaps, linked):
    without_exchange(monkeypatch)
    if not linked:

        def no_links(*_, **__):
            raise OSError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_links)
    real = Swap.run
    left = [9 if swaps else 5]

    def fails(swap, dir_fd):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(swap, dir_fd)

    monkeypatch.setattr(Swap, "run", fails)
    before = {path: what[1:] for path, what in state(files).items()}
    if swaps:
        change_all(rewritten())
        assert {path.read_text() for path in files.glob("?/?")} == {"new 1", "new 2", "new 3"}
    else:
        with pytest.raises(ToolError):
            change_all(rewritten())
        assert {path: what[1:] for path, what in state(files).items()} == before
    assert len(list(files.rglob("*"))) == 12


def sly(file):
    """Write as much as there was, and leave the time as it was."""
    before = file.stat()
    file.write_text("sly c2")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_text("someone else's"),
        lambda file: file.unlink(),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: (file.unlink(), file.symlink_to("../a/1")),
        lambda file: (file.unlink(), os.mkfifo(file)),
        lambda file: os.utime(file, ns=(1, 1)),
        sly,
    ],
)
@pytest.mark.parametrize("when", ["before", "staged", "swapping"])
def test_one_file_that_changed_meanwhile_stops_all(files, rewritten, monkeypatch, change, when):
    changes = rewritten()
    seen = {}

    def meddle():
        change(files / "c/2")
        seen.update(state(files))

    if when == "before":
        meddle()
    elif when == "staged":
        real_swaps = batch._Batch._swap

        def swap_all(self):
            meddle()
            real_swaps(self)

        monkeypatch.setattr(batch._Batch, "_swap", swap_all)
    else:
        # In the instant between the last look and the exchange.
        real_there = swapping.look
        looks = []

        def there(place, dir_fd, expect):
            status = real_there(place, dir_fd, expect)
            looks.append(place.shown)
            if looks.count("c/2") == 2 and place.shown == "c/2":
                meddle()
            return status

        monkeypatch.setattr(swapping, "look", there)
    with pytest.raises(ToolError) as refused:
        change_all(changes)
    assert refused.value.code in ("file_changed", "is_a_directory", "not_a_file")
    kept = {path: what for path, what in seen.items() if ".toolbox" not in path}
    after = state(files)
    assert after.keys() == kept.keys()
    assert after.get("c/2") == kept.get("c/2")
    assert all(after[f"{a}/{b}"][2] == f"old {a}{b}".encode() for a in "ab" for b in "123")


def test_a_name_that_is_taken_meanwhile_is_not_replaced(files, roots, monkeypatch, outcome):
    change = Change(roots.place("new").target(), b"new", None)
    real = batch._Batch._swap

    def swap_all(self):
        (files / "new").write_text("someone else's")
        real(self)

    monkeypatch.setattr(batch._Batch, "_swap", swap_all)
    assert outcome(lambda: change_all([change])) == "file_changed"
    assert (files / "new").read_text() == "someone else's"
    assert len(list(files.rglob("*"))) == 13


@pytest.mark.parametrize("given", [0, 1, 2])
def test_a_system_without_threads_to_spare_leaves_nothing_behind(files, rewritten, monkeypatch, given):
    before = state(files)
    start, stage, shutdown = threading.Thread.start, batch.stage, ThreadPoolExecutor.shutdown
    ending = threading.Event()
    lost = []

    def started(thread):
        nonlocal given
        given -= 1
        if given < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    def staged(place, dir_fd, *arguments, **options):
        # As late as can be: when nothing but the end of the threads is waited for.
        assert ending.wait(5)
        lost.append(place)
        os.fstat(dir_fd)
        lost.remove(place)
        return stage(place, dir_fd, *arguments, **options)

    def ended(pool, *arguments, **options):
        ending.set()
        shutdown(pool, *arguments, **options)

    monkeypatch.setattr(threading.Thread, "start", started)
    monkeypatch.setattr(batch, "stage", staged)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", ended)
    with pytest.raises(ToolError, match="no more threads"):
        change_all(rewritten())
    assert not lost
    assert state(files) == before


@pytest.mark.parametrize("step", ["_stage", "_swap", "_finish", "_take_back"])
def test_a_folder_is_not_moved_away_while_its_files_change(files, roots, rewritten, monkeypatch, step):
    real = getattr(batch._Batch, step)
    mover = threading.Thread(target=lambda: move(roots.place("b"), roots.place("moved")))

    def meanwhile(self, *arguments):
        mover.start()
        while mover.is_alive() and not roots.locks._waiting:
            threading.Event().wait(0)
        real(self, *arguments)

    monkeypatch.setattr(batch._Batch, step, meanwhile)
    changes = rewritten()
    if step == "_take_back":
        changes[-1] = replace(changes[-1], expect=None)
        with pytest.raises(ToolError):
            change_all(changes)
    else:
        change_all(changes)
    mover.join(5)
    assert {path.name for path in files.rglob("*")} == {"a", "c", "moved", "1", "2", "3"}
    assert {path.read_text()[:3] for path in files.glob("?*/?")} == {"old" if step == "_take_back" else "new"}


def test_old_files_go_also_where_the_system_gives_no_thread(files, rewritten, monkeypatch):
    def submit(pool, act, item):
        if act.func is batch._finish:
            raise RuntimeError("can't start new thread")
        return real(pool, act, item)

    real = ThreadPoolExecutor.submit
    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    change_all(rewritten())
    assert {path.read_text() for path in files.glob("?/?")} == {"new 1", "new 2", "new 3"}
    assert sorted(files.rglob("*")) == sorted([*files.glob("?"), *files.glob("?/?")])


def test_a_folder_that_may_not_be_written_stops_all(files, rewritten, as_nobody):
    if os.geteuid() == 0:
        for path in (files, *files.rglob("*")):
            os.chown(path, 65534, 65534)
        for folder in files.parents:
            folder.chmod(folder.stat().st_mode | 0o055)
    (files / "b").chmod(0o555)
    before = state(files)
    assert as_nobody(lambda: change_all(rewritten())) == "path_denied"
    assert state(files) == before


def test_giving_up_leaves_nothing(files, rewritten):
    before = state(files)
    asked = []

    def give_up():
        asked.append(1)
        if len(asked) > 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change_all(rewritten(), give_up)
    assert state(files) == before


@pytest.mark.parametrize("path", [".git/config", ".mcp.json", ".vscode/tasks.json"])
def test_one_protected_place_stops_all(files, jail, outcome, path):
    (files / path).parent.mkdir(exist_ok=True)
    (files / path).write_text("old")
    roots = jail(protected=[".mcp.json", ".vscode/tasks.json"])
    places = [roots.place(name).target() for name in ("a/1", path)]
    changes = [Change(place, b"new", read_whole(place, 100)[1]) for place in places]
    assert outcome(lambda: change_all(changes)) == "protected_path"
    assert (files / "a/1").read_text() == "old a1"
    assert (files / path).read_text() == "old"


def test_a_folder_swapped_for_a_link_leads_nowhere(files, rewritten, monkeypatch):
    outside = files.parent / "outside"
    outside.mkdir()
    for name in "123":
        (outside / name).write_text("outside")
    real = batch._Batch._swap

    def swap_all(self):
        (files / "b").rename(files / "moved")
        (files / "b").symlink_to(outside)
        real(self)

    monkeypatch.setattr(batch._Batch, "_swap", swap_all)
    with pytest.raises(ToolError):
        change_all(rewritten())
    assert {path.read_text() for path in outside.iterdir()} == {"outside"}
    assert (files / "a/1").read_text() == "old a1"
    assert (files / "moved/1").read_text() == "old b1"


KILLED = """
import os, sys
from toolbox_mcp.safety.writes import batch
from toolbox_mcp.safety.writes.atomic import read_whole
from toolbox_mcp.safety.writes.batch import Change, change_all
from toolbox_mcp.safety.writes.swap import Swap
from toolbox_mcp.safety.path_jail.roots import Roots

roots = Roots([sys.argv[1]])
steps = int(sys.argv[2])

def counted(real):
    def act(*arguments, **options):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), 9)
        return real(*arguments, **options)
    return act

for owner, name in ((batch, "stage"), (Swap, "run"), (Swap, "finish")):
    setattr(owner, name, counted(getattr(owner, name)))
changes = []
for number in range(20):
    place = roots.place(f"{number}").target()
    changes.append(Change(place, b"new" * 1000, read_whole(place, 10_000)[1]))
change_all(changes)
print("done")
"""


@pytest.mark.parametrize("steps", [0, 1, 10, 20, 21, 25, 30, 39, 40, 41, 50, 60])
def test_killed_in_the_middle_each_file_is_old_or_new(project, steps):
    for number in range(20):
        (project / f"{number}").write_bytes(b"old" * 1000)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, project, str(steps)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == (0 if steps == 60 else -signal.SIGKILL), ended.stderr
    found = [(project / f"{number}").read_bytes() for number in range(20)]
    assert set(found) <= {b"old" * 1000, b"new" * 1000}
    if steps < 20:
        assert set(found) == {b"old" * 1000}
    elif steps >= 40:
        assert set(found) == {b"new" * 1000}
    else:
        assert found.count(b"new" * 1000) == steps - 20


def save(file: Path, text: str) -> None:
    """Save a file as editors do."""
    beside = file.parent.parent / "beside"
    beside.write_text(text)
    os.replace(beside, file)


def append(file: Path, text: str) -> None:
    with file.open("a") as stream:
        stream.write(text)


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize(
    ("change", "code", "left"),
    [
        (lambda file: save(file, "precious"), "file_changed", "precious"),
        (lambda file: file.unlink(), "file_changed", "old a1"),
        (lambda file: file.write_text("precious"), "refused", "precious"),
        (lambda file: append(file, ", precious"), "refused", "new 1, precious"),
    ],
    ids=["saved", "deleted", "written", "appended"],
)
def test_what_others_write_into_a_new_file_stays_when_the_rest_is_put_back(
    files, rewritten, monkeypatch, swaps, change, code, left
):
    if not swaps:
        without_exchange(monkeypatch)

    def meanwhile():
        change(files / "a/1")
        save(files / "b/2", "changed")

    changes = rewritten()
    before = {name: there for name, there in state(files).items() if name not in ("a/1", "b/2")}
    before_the_swap_of("2", lambda: before_the_swap_of("2", meanwhile, monkeypatch), monkeypatch)
    with pytest.raises(ToolError) as refused:
        change_all(changes)
    monkeypatch.undo()
    assert refused.value.code == code
    assert ("a/1 stays changed" in refused.value.error) == (code == "refused")
    after = state(files)
    content = after.pop("a/1", (0, 0, None))[2]
    assert content == (left and left.encode())
    assert after.pop("b/2")[2] == b"changed"
    assert after == before


@pytest.mark.parametrize(("change", "left"), [(lambda file: save(file, "theirs"), "theirs"), (Path.unlink, None)])
def test_what_comes_into_the_place_of_a_created_file_stays(files, roots, monkeypatch, change, left):
    places = [roots.place(path).target() for path in ("n", "z")]
    before = state(files)

    def meanwhile():
        change(files / "n")
        (files / "z").write_text("taken")

    before_the_swap_of("z", meanwhile, monkeypatch)
    with pytest.raises(ToolError) as refused:
        change_all([Change(place, b"new", None) for place in places])
    assert refused.value.code == "file_changed"
    after = state(files)
    assert after.pop("n", (0, 0, None))[2] == (left and left.encode())
    assert after.pop("z")[2] == b"taken"
    assert after == before


def test_a_removed_file_whose_name_is_taken_is_kept_and_told(files, roots, monkeypatch):
    changes = [Change(place, None, read_whole(place, 100)[1]) for place in map(roots.place, ("a/1", "a/2"))]

    def meanwhile():
        (files / "a/1").write_text("theirs")
        save(files / "a/2", "changed")

    before_the_swap_of("2", meanwhile, monkeypatch)
    with pytest.raises(ToolError) as refused:
        change_all(changes)
    assert refused.value.code == "refused"
    kept = refused.value.error.rpartition(" is in ")[2]
    assert (files / kept).read_text() == "old a1"
    assert (files / "a/1").read_text() == "theirs"
    assert (files / "a/2").read_text() == "changed"


def test_what_cannot_be_put_back_is_kept_and_told(files, rewritten, monkeypatch):
    changes = rewritten()

    def fails(*_):
        raise OSError(5, "Input/output error")

    def meanwhile():
        monkeypatch.setattr(putting_back, "exchange", fails)
        save(files / "a/3", "changed")

    before_the_swap_of("3", meanwhile, monkeypatch)
    with pytest.raises(ToolError) as refused:
        change_all(changes)
    assert refused.value.code == "refused"
    for name in ("1", "2"):
        assert f"a/{name} could not be put back: what it held, or somebody has saved since, is in a/.toolbox-" in str(
            refused.value.error
        )
        assert (files / "a" / name).read_text() == f"new {name}"
    kept = {path.read_text() for path in files.glob("a/.toolbox-*")}
    assert kept >= {"old a1", "old a2"}
