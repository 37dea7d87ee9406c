"""What a server that is killed leaves beside its files goes at the next write there, and nothing else does."""

import os
import signal
import time
from pathlib import Path

import pytest

from toolbox_mcp.safety.path_jail.roots import Roots
from toolbox_mcp.safety.writes.atomic import replace
from toolbox_mcp.safety.writes.batch import Change, change_all
from toolbox_mcp.safety.writes.file_version import FileVersion
from toolbox_mcp.safety.writes.rollback import not_back
from toolbox_mcp.safety.writes.temp_names import is_temporary, temporary_name

FILES = 8


def left(project: Path) -> list[str]:
    return sorted(path.name for path in project.iterdir() if is_temporary(path.name))


def write_on(project: Path, said: int) -> None:
    """Write for ever, one file by itself and several together, and say so of each."""
    roots = Roots([project])
    places = [roots.place(f"f{number}") for number in range(FILES)]
    turn = 0
    while True:
        turn += 1
        data = str(turn % 10).encode() * (1 << 16)
        replace(places[0], data, expect=FileVersion.of(os.stat(places[0].path)))
        changes = [Change(place, data, FileVersion.of(os.stat(place.path))) for place in places]
        os.write(said, b".")
        change_all(changes)


def started(project: Path) -> tuple[int, int]:
    """Return a child that writes, and the pipe in which it says so."""
    said, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_on(project, theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    return child, said


@pytest.mark.attack
def test_a_killed_writer_leaves_nothing_after_the_next_write_and_whole_files(project):
    for number in range(FILES):
        (project / f"f{number}").write_bytes(b"0" * (1 << 16))
    ever_left = 0
    failed = []
    for kill in range(60):
        child, said = started(project)
        for _ in range(1 + kill % 5):
            assert os.read(said, 1) == b"."
        until = time.perf_counter() + kill % 12 * 0.0005
        while time.perf_counter() < until:
            pass
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(said)
        ever_left += bool(left(project))
        roots = Roots([project])
        replace(roots.place("other"), b"x")
        roots.close()
        if left(project) or any(
            len(data := (project / f"f{number}").read_bytes()) != 1 << 16 or len({*data}) != 1
            for number in range(FILES)
        ):
            failed.append((kill, left(project)))
    # Without the sweep, kills do leave something.
    assert ever_left
    assert failed == []


def test_what_is_not_left_by_a_dead_process_of_this_machine_stays(project, roots):
    fd = os.open(project, os.O_RDONLY)
    mine = roots.staging.name(fd)
    os.close(fd)
    world, pid, start, _ = mine.removeprefix(".toolbox-").removesuffix(".tmp").split("-")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    dead = f".toolbox-{world}-{child:x}-{start}-00000000.tmp"
    reused = f".toolbox-{world}-{pid}-1-00000000.tmp"
    stays = [
        mine,
        f".toolbox-00000000-{child:x}-{start}-00000000.tmp",
        f".toolbox-{world}-0-{start}-00000000.tmp",
        f"a.toolbox-{world}-{child:x}-{start}-00000000.tmp",
        temporary_name(),
    ]
    for name in [dead, reused, *stays]:
        (project / name).write_text("x")
    folder = dead.replace("00000000.tmp", "00000001.tmp")
    (project / folder).mkdir()
    (project / folder / "f").write_text("x")
    other = Roots([project])
    replace(other.place("file"), b"x")
    other.close()
    assert {path.name for path in project.iterdir()} == {"file", folder, *stays}


def test_what_could_not_be_put_back_outlives_its_server(project, roots):
    fd = os.open(project, os.O_RDONLY)
    swept = roots.staging.name(fd).replace(f"-{os.getpid():x}-", "-1-")
    for name in (swept, kept := swept.replace(".tmp", "").rpartition("-")[0] + "-00000000.tmp"):
        (project / name).write_text("theirs")
    told = not_back(roots.place("a"), fd, kept, OSError(5, "broken")).error
    os.close(fd)
    other = Roots([project])
    replace(other.place("file"), b"x")
    other.close()
    [name] = left(project)
    assert (project / name).read_text() == "theirs"
    assert name in told
