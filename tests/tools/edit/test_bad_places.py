"""Paths and files that an attacker, or bad luck, puts before the tools: a clear code, in time, and nothing changed."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys

import pytest

from tests.tables import each_row

EDIT = {"old_string": "a", "new_string": "b"}
TOOLS = {
    "write_file": {"content": "x"},
    "edit_file": EDIT,
    "multi_edit": {"edits": [EDIT]},
    "edit_lines": {"operation": "insert", "lines": ["x"]},
    "create_directory": {},
    "delete_file": {"mode": "permanent", "recursive": True},
    "replace_in_files": {"pattern": "a", "replacement": "b"},
}
CONTENT = ("edit_file", "multi_edit", "edit_lines")


def state(folder):
    return sorted((str(path), path.lstat().st_ino, path.lstat().st_mtime_ns) for path in folder.rglob("*"))


@pytest.fixture
def folder(project):
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("a")
    (project.parent / "project-sibling").mkdir()
    (project.parent / "project-sibling" / "f").write_text("a")
    (project / "f").write_text("a")
    (project / "d").mkdir()
    (project / "to-file").symlink_to(outside / "f")
    (project / "to-folder").symlink_to(outside)
    (project / "dangling").symlink_to(outside / "none")
    (project / "loop").symlink_to("loop")
    (project / "loop1").symlink_to("loop2")
    (project / "loop2").symlink_to("loop1")
    os.mkfifo(project / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(project / "socket"))
    return project


OUTSIDE = [
    "a\x00b", "\x00", "", "..", "../outside/f", "d/../../outside/f", "../project-sibling/f", "/etc/passwd", "//etc/passwd",
    "/proc/self/root/etc/passwd", "to-folder/f", "to-folder/new", "to-folder/../f2/../../outside/f", "dangling/x", "loop/x",
    "loop1/x", "n" * 256, "n" * 300, "d/" + "é" * 128, "x/" * 2100 + "f", "\ud800",
]  # fmt: skip


@each_row("path", OUTSIDE)
@each_row("tool", TOOLS)
async def test_what_is_outside_or_malformed_is_denied(call, folder, tool, path):
    if (tool, path) == ("replace_in_files", ""):
        return  # An optional path that is empty is absent, of which test_an_optional_path_that_is_empty_is_absent tells.
    before = state(folder.parent)
    code = await call.code(tool, path=path, **TOOLS[tool])
    # A path that cannot be is not inside, whichever of the words says so.
    assert code == "path_denied" or ((code, tool) == ("invalid_args", tool) and path == "\ud800")
    assert state(folder.parent) == before


@pytest.mark.parametrize("tool", TOOLS)
async def test_where_links_are_blocked_nothing_is_changed_behind_one(call, project, tool):
    (project / "d").mkdir()
    (project / "d" / "f").write_text("a")
    (project / "to-d").symlink_to("d")
    call.jail = {"block_symlinks": True}
    before = state(project)
    assert await call.code(tool, path="to-d/f", **TOOLS[tool]) == "path_denied"
    assert state(project) == before


async def test_an_optional_path_that_is_empty_is_absent(call, folder):
    assert (await call("delete_file", path="f", trash_dir="")).startswith("Moved file f to trash: .trash/f.")
    (folder / "f").write_text("a")
    answer = await call("replace_in_files", pattern="a", replacement="b", path="")
    assert answer == "Replaced 1 occurrence(s) in 1 file(s)\nf: 1"


@each_row("path", OUTSIDE)
@each_row(
    ("tool", "name", "more"),
    [
        ("move_file", "source", {"destination": "new"}),
        ("move_file", "destination", {"source": "f", "overwrite": True}),
        ("delete_file", "trash_dir", {"path": "f"}),
    ],
)
async def test_nothing_is_moved_out_or_in(call, folder, tool, name, more, path):
    if (name, path) == ("trash_dir", ""):
        return  # Absent, as above.
    before = state(folder.parent)
    code = await call.code(tool, **{name: path}, **more)
    assert code == "path_denied" or (code == "invalid_args" and path == "\ud800")
    assert state(folder.parent) == before


@each_row("path", ["to-file", "dangling", "loop", "loop1"])
@each_row("tool", [tool for tool in TOOLS if tool != "delete_file"])
async def test_no_write_follows_a_link_outside_or_round_and_round(call, folder, tool, path):
    before = state(folder.parent)
    assert await call.code(tool, path=path, **TOOLS[tool]) == "path_denied"
    assert state(folder.parent) == before


@pytest.mark.parametrize(
    ("path", "code"), [("pipe", "not_a_file"), ("socket", "not_a_file"), ("d", None), ("device", "not_a_file")]
)
@pytest.mark.parametrize("tool", ["write_file", *CONTENT])
async def test_only_regular_files_are_written(call, folder, tool, path, code):
    if path == "device":
        if os.geteuid() != 0:
            pytest.skip("only root makes devices")
        os.mknod(folder / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    before = state(folder.parent)
    expected = code or ("is_a_directory" if tool == "write_file" else "not_a_file")
    assert await call.code(tool, path=path, **TOOLS[tool]) == expected
    assert state(folder.parent) == before


@each_row(
    ("data", "code"),
    [
        (b"a\x00", "binary_file"),
        (b"\x00" * 100 + b"a", "binary_file"),
        (b"\xff\xfea", "binary_file"),
        (b"\xff\xfe\x00\xd8a\x00", "binary_file"),
        (b"\xfe\xff\x00", "binary_file"),
        ("\ufeffa\n".encode("utf-32-le"), "binary_file"),
        ("\ufeffa\n".encode("utf-32-be"), "binary_file"),
    ],
)
@each_row("tool", CONTENT)
async def test_what_is_no_text_is_left_alone(call, folder, tool, data, code):
    (folder / "f").write_bytes(data)
    assert await call.code(tool, path="f", **TOOLS[tool]) == code
    assert (folder / "f").read_bytes() == data


@pytest.mark.parametrize("tool", CONTENT)
async def test_a_file_with_a_hole_of_a_terabyte_is_too_large_at_once(call, folder, tool):
    os.truncate(folder / "f", 2**40)
    assert await call.code(tool, path="f", **TOOLS[tool]) == "too_large"
    assert (folder / "f").stat().st_size == 2**40


async def test_a_replacement_skips_a_file_with_a_hole_of_a_terabyte(call, folder):
    (folder / "hole").touch()
    os.truncate(folder / "hole", 2**40)
    assert await call("replace_in_files", pattern="a", replacement="b") == "Replaced 1 occurrence(s) in 1 file(s)\nf: 1"


@pytest.mark.parametrize("tool", CONTENT)
async def test_one_line_of_ten_megabytes_is_edited_and_one_of_twenty_refused(call, folder, tool):
    for size, fits in ((9 * 2**20, True), (20 * 2**20, False)):
        (folder / "f").write_bytes(b"x" * size + b"a")
        answer = await call(tool, path="f", **TOOLS[tool])
        assert isinstance(answer, str) == fits
        assert fits or answer["code"] == "too_large"


async def test_a_miss_in_one_long_line_answers(call, folder):
    (folder / "f").write_bytes(b"x" * 9 * 2**20)
    answer = await call("edit_file", path="f", old_string="y" * 2**20, new_string="z")
    assert answer["code"] == "no_match"


SWAPPING = """
import os, sys, threading
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.tools.undo.journal import History
from toolbox_mcp.tools.edit._load import edit
from toolbox_mcp.safety.writes import fs_ops as entries, renameat2 as renaming

base = sys.argv[1]
os.chdir(base)
base_fd = os.open(".", os.O_RDONLY)
os.symlink("../outside", "link")
stop = threading.Event()

def swap():
    while not stop.is_set():
        renaming.exchange(base_fd, "root/d", "link")

thread = threading.Thread(target=swap)
thread.start()
roots = Roots(["root"])
history = History()
done = refused = 0
for number in range(int(sys.argv[2])):
    try:
        journal = history.journal("edit_file", 1000)
        edit(roots.place("d/f"), None, journal, lambda file: (file.text.text + "x", "x"))
        done += 1
    except ToolError:
        refused += 1
    for act in (
        lambda: entries.move(roots.place("d/g"), roots.place("d/h")),
        lambda: entries.move(roots.place("d/h"), roots.place("d/g")),
        lambda: entries.make_folders(roots.place("d/made")),
        lambda: entries.remove(roots.place("d/made")),
    ):
        try:
            act()
        except ToolError:
            pass
stop.set()
thread.join()
if os.path.islink("root/d"):
    renaming.exchange(base_fd, "root/d", "link")
print(done, refused)
"""


def test_a_folder_swapped_for_a_link_during_the_call_leads_nowhere(tmp_path):
    for name in ("root/d", "outside"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "f").write_text("a")
        (tmp_path / name / "g").write_text("g")
    (tmp_path / "outside/made").mkdir()
    before = state(tmp_path / "outside")
    ended = subprocess.run(
        [sys.executable, "-c", SWAPPING, tmp_path, "1500"], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    done, refused = map(int, ended.stdout.split())
    assert done
    assert refused
    assert state(tmp_path / "outside") == before
    found = (tmp_path / "root/d/f").read_text()
    assert found == "a" + "x" * done


AS_NOBODY = """
import asyncio, json, os, sys
from pathlib import Path
from toolbox_mcp.server.build import build_server
from toolbox_mcp.server.config.load import load
from toolbox_mcp.tools.context import CallContext

root, calls = sys.argv[1], json.load(sys.stdin)
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)

async def main():
    config = load(["--root", root, "--enable-exec", "--set", "records=false"], {"HOME": "/nowhere"}, cwd=Path(root))
    async with build_server(config, {}) as toolbox:
        for name, arguments in calls:
            result = await toolbox.pipeline.call(name, arguments, CallContext("1"))
            error = result["structuredContent"] if result["isError"] else None
            print(json.dumps([result["content"][0]["text"], error]))

asyncio.run(main())
"""
ALL = [
    ("write_file", {"path": "d/f", "content": "x"}),
    ("write_file", {"path": "d/new", "content": "x"}),
    ("edit_file", {"path": "d/f"} | EDIT),
    ("multi_edit", {"path": "d/f", "edits": [EDIT]}),
    ("edit_lines", {"path": "d/f", "operation": "insert", "lines": ["x"]}),
    ("replace_in_files", {"pattern": "a", "replacement": "b"}),
    ("create_directory", {"path": "d/new"}),
    ("move_file", {"source": "d/f", "destination": "d/g"}),
    ("delete_file", {"path": "d/f"}),
    ("delete_file", {"path": "d/f", "mode": "permanent"}),
]


def called(root, calls, mounts="true"):
    """Make calls as an ordinary user, after a shell line that changes the mounts for nobody else."""
    command = [sys.executable, "-c", AS_NOBODY, str(root)]
    script = (
        ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$0" "$@"', *command] if mounts != "true" else command
    )
    ended = subprocess.run(script, input=json.dumps(calls), capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.fixture
def shared(folder):
    (folder / "d/f").write_text("a")
    (folder / "open").mkdir()
    (folder / "open/f").write_text("a")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    for above in folder.parents:
        if above.stat().st_uid == os.geteuid():
            above.chmod(above.stat().st_mode | 0o055)
    return folder


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes owners and mounts")


@as_root
def test_a_folder_that_may_not_be_written_is_denied_and_so_is_all_that_came_with_it(shared):
    (shared / "d").chmod(0o555)
    before = state(shared)
    answers = called(shared, ALL)
    assert [error["code"] for _, error in answers] == ["path_denied"] * len(ALL)
    assert state(shared) == before


@as_root
def test_a_read_only_file_system_is_denied(shared):
    before = state(shared)
    answers = called(shared, ALL, f"mount --bind {shared} {shared} && mount -o remount,ro,bind {shared}")
    assert [error["code"] for _, error in answers] == ["path_denied"] * len(ALL)
    assert state(shared) == before


@as_root
def test_a_full_disk_leaves_all_files_as_they_were(tmp_path, shared):
    """The disk has room for the files, and none for their replacements."""
    disk = shared / "d"
    shutil.rmtree(disk)
    disk.mkdir()
    keep = shared.parent / "kept"
    keep.mkdir()
    fill = (
        f"mount -t tmpfs -o size=256k,uid=65534,gid=65534 none {disk} && "
        f"for n in 1 2 3; do head -c 60000 /dev/zero | tr '\\0' a > {disk}/f$n; done && chown 65534 {disk}/*"
    )
    calls = [
        ("replace_in_files", {"path": "d", "pattern": "a", "replacement": "b"}),
        ("write_file", {"path": "d/f1", "content": "x" * 100_000}),
        ("write_file", {"path": "d/new/deep/f", "content": "x" * 100_000}),
        ("edit_lines", {"path": "d/f1", "operation": "insert", "lines": ["x" * 50_000]}),
        ("move_file", {"source": "open/big", "destination": "d/big"}),
        ("replace_in_files", {"path": "d", "pattern": "a", "replacement": "b", "dry_run": True}),
        ("list_directory", {"path": "d", "recursive": True}),
        ("edit_lines", {"path": "d/f1", "operation": "insert", "lines": ["x"]}),
        ("undo", {}),
    ]
    (shared / "open/big").write_bytes(b"x" * 100_000)
    os.chown(shared / "open/big", 65534, 65534)
    answers = called(shared, calls, fill)
    assert [error and error["code"] for _, error in answers] == ["refused"] * 5 + [None] * 4, answers
    assert answers[5][0] == "Would replace 180000 occurrence(s) in 3 file(s)\nd/f1: 60000\nd/f2: 60000\nd/f3: 60000"
    assert answers[6][0] == "file\t60000\tf1\nfile\t60000\tf2\nfile\t60000\tf3"
    assert (shared / "open/big").stat().st_size == 100_000


@as_root
def test_a_move_and_a_delete_across_file_systems_keep_content_mode_and_time(shared):
    disk = shared / "d"
    os.chmod(shared / "open/f", 0o640)
    os.utime(shared / "open/f", ns=(10**18 + 1, 10**18 + 1))
    calls = [
        ("move_file", {"source": "open", "destination": "d/moved"}),
        ("list_directory", {"path": "d", "recursive": True}),
        ("undo", {}),
        ("delete_file", {"path": "open", "recursive": True, "trash_dir": "d/bin"}),
        ("undo", {}),
        ("move_file", {"source": "open/f", "destination": "d/f", "overwrite": True}),
        ("undo", {}),
        ("delete_file", {"path": "open/f", "trash_dir": "d/bin"}),
        ("undo", {}),
    ]
    answers = called(shared, calls, f"mount -t tmpfs -o size=1m,uid=65534,gid=65534 none {disk}")
    assert [error for _, error in answers] == [None] * len(calls), answers
    status = (shared / "open/f").stat()
    assert (status.st_mode & 0o7777, status.st_mtime_ns) == (0o640, 10**18 + 1)
    assert (shared / "open/f").read_text() == "a"
