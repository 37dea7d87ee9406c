import json
import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux")


@pytest.fixture
def places(tmp_path):
    """A root, a folder outside it, each with a file, and a program outside."""
    for name in ("root", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    program = tmp_path / "outside" / "program"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    return tmp_path


ATTEMPTS = """
import json, os, subprocess, sys
place = sys.argv[1]
def attempt(name, act):
    try:
        act()
    except OSError:
        return
    done.append(name)
done = []
attempt("write", lambda: open(place + "/a", "w").close())
attempt("append", lambda: open(place + "/a", "a").close())
attempt("truncate", lambda: os.truncate(place + "/a", 0))
attempt("create", lambda: open(place + "/b", "x").close())
attempt("mkdir", lambda: os.mkdir(place + "/d"))
attempt("symlink", lambda: os.symlink("a", place + "/l"))
attempt("link", lambda: os.link(place + "/a", place + "/h"))
attempt("fifo", lambda: os.mkfifo(place + "/f"))
attempt("rename", lambda: os.rename(place + "/a", place + "/c"))
attempt("back", lambda: os.rename(place + "/c", place + "/a"))
attempt("read", lambda: open(place + "/a").close())
attempt("list", lambda: os.listdir(place))
attempt("run", lambda: subprocess.run([place + "/program"], check=True))
attempt("remove", lambda: os.remove(place + "/a"))
print(json.dumps(done))
"""

CHANGES = ["write", "append", "truncate", "create", "mkdir", "symlink", "link", "fifo", "rename", "back", "remove"]
READS = ["read", "list", "run"]


def attempts(place, before="", cwd="/"):
    """What is possible in a folder for a process that did `before`, and for a child of it."""
    program = textwrap.dedent("""
        import os, subprocess, sys
        from toolbox_mcp.sandbox import confine
        BEFORE
        subprocess.run([sys.executable, "-c", os.environ["ATTEMPTS"], sys.argv[1]], check=True)
    """).replace("BEFORE", before)
    done = subprocess.run(
        [sys.executable, "-c", program, str(place)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
        cwd=cwd,
        env={"PYTHONPATH": os.pathsep.join(sys.path), "ATTEMPTS": ATTEMPTS},
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_without_confinement_every_attempt_works(places):
    assert sorted(attempts(places / "outside")) == sorted([*CHANGES, *READS])


def test_level_write_stops_every_change_outside_and_no_reading(places):
    assert attempts(places / "outside", f"confine.apply('write', write=[{str(places / 'root')!r}])") == READS
    assert (places / "outside" / "a").read_text() == "outside"


def test_level_strict_stops_reading_too(places):
    assert attempts(places / "outside", f"confine.apply('strict', write=[{str(places / 'root')!r}])") == []


def test_level_strict_reads_what_it_was_given(places):
    before = f"confine.apply('strict', write=[{str(places / 'root')!r}], read=[{str(places / 'outside')!r}])"
    assert attempts(places / "outside", before) == READS


@pytest.mark.parametrize("level", ["write", "strict"])
def test_inside_the_write_folders_everything_works(places, level):
    (places / "outside" / "program").rename(places / "root" / "program")
    before = f"confine.apply({level!r}, write=[{str(places / 'root')!r}])"
    assert sorted(attempts(places / "root", before)) == sorted([*CHANGES, *READS])


@pytest.mark.parametrize("level", ["write", "strict"])
def test_a_confined_server_still_has_its_worker_its_jail_and_terminals(places, level):
    program = textwrap.dedent("""
        import asyncio, math, os, pty, sys
        from toolbox_mcp.sandbox import confine, jail
        from toolbox_mcp.sandbox.isolate.worker import Worker
        print(confine.apply(sys.argv[1], write=[sys.argv[2]]) >= 3)
        async def main():
            async with Worker() as worker:
                print(await worker.call(math.sqrt, 4, deadline=20))
        asyncio.run(main())
        print(jail.run(math.sqrt, 9))
        ours, theirs = pty.openpty()
        print(os.write(theirs, b"x"))
    """)
    done = subprocess.run(
        [sys.executable, "-c", program, level, str(places / "root")],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.decode().split() == ["True", "2.0", "3.0", "1"]


def refusal(before):
    program = f"""
import threading
from toolbox_mcp.sandbox import confine
from toolbox_mcp.sandbox.linux import landlock
try:
    {before}
except confine.ConfineError as e:
    print(e)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.stdout.decode().strip()


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (
            "threading.Thread(target=threading.Event().wait, daemon=True).start(); confine.apply('write', write=[])",
            "must be applied while one thread runs",
        ),
        ("confine.apply('write', write=['/nonexistent/folder'])", "/nonexistent/folder does not exist"),
        ("confine.apply('strict', write=[], read=['/nonexistent'])", "/nonexistent does not exist"),
        ("landlock.abi = lambda: 0; confine.apply('write', write=[])", "needs Landlock ABI 3"),
        ("landlock.abi = lambda: 2; confine.apply('write', write=[])", "this kernel has 2"),
        ("confine.sys.platform = 'darwin'; confine.apply('write', write=[])", "needs Linux"),
    ],
)
def test_what_is_not_possible_is_an_error(before, said):
    assert said in refusal(before)
