import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine import needs, no_user_namespace
from toolbox_mcp.sandbox.large_files import largest_open
from toolbox_mcp.sandbox.process import tree
from toolbox_mcp.sandbox.process.child import NotStarted

if sys.platform != "linux":
    pytest.skip("mount namespaces are Linux", allow_module_level=True)

from toolbox_mcp.sandbox.linux import landlock
from toolbox_mcp.sandbox.linux.rg_namespace import View
from toolbox_mcp.sandbox.linux.rg_namespace_process import LARGEST_ORDER

pytestmark = needs(no_user_namespace())

SHELL = os.path.realpath("/bin/sh")
READ = "read x < {}; echo $x"


@pytest.fixture
def places(tmp_path):
    for name in ("root", "other", "outside"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "file").write_text(f"{name}\n")
        program = tmp_path / name / "program"
        program.write_text("#!/bin/sh\necho ran\n")
        program.chmod(0o755)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "up").symlink_to("../outside")
    return tmp_path


async def made(folders, program=SHELL):
    opened = [os.open(folder, os.O_RDONLY) for folder in folders]
    view = View(opened, program)
    for fd in opened:
        os.close(fd)
    await view.settled()
    return view


@pytest.fixture
async def view(places):
    view = await made([places / "root", places / "other"])
    assert view.stands, view.trouble
    yield view
    await view.aclose()


def begin(view, cwd, *arguments, env=None, **options):
    fd = os.open(cwd, os.O_RDONLY)
    try:
        folder = f"/proc/self/fd/{fd}"
        return view.start([SHELL, *arguments], cwd=folder, env=env or {}, stdin=subprocess.DEVNULL, **options)
    finally:
        os.close(fd)


async def ended(program):
    """Return what a program wrote and how it ended."""
    out = b""
    os.set_blocking(program.stdout, True)
    while piece := os.read(program.stdout, 65536):
        out += piece
    handle = os.pidfd_open(program.pid)
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.add_reader(handle, lambda: over.done() or over.set_result(None))
    await asyncio.wait_for(over, 20)
    loop.remove_reader(handle)
    os.close(handle)
    result = program.collect()
    for fd in filter(None, (program.stdin, program.stdout, program.stderr)):
        os.close(fd)
    return os.fsdecode(out).split(), result


async def outcome(view, cwd, script):
    return (await ended(begin(view, cwd, "-c", script)))[0]


def without(script, cwd):
    done = subprocess.run([SHELL, "-c", script], cwd=cwd, env={}, capture_output=True, check=False, timeout=20)
    return done.stdout.decode().split()


ATTEMPTS = {
    "read": READ.format("../outside/file"),
    "read through a link": READ.format("link/file"),
    "read through a link that goes up": READ.format("up/file"),
    "list": "set -- ../outside/*; [ -e \"$1\" ] && echo $# || :",
    "enter": "cd ../outside && echo there",
    "run": "../outside/program",
    "run inside": "./program",
    "write inside": "echo x > new && read x < new && echo $x",
    "change inside": "echo x >> file && echo done",
    "empty inside": ": > file && echo done",
    "write outside": "echo x > ../outside/new && echo done",
    "read accounts": READ.format("/etc/passwd"),
    "see processes": "[ -e /proc/self ] && echo there",
    "open a device": "exec 3< /dev/zero && echo open",
    "end the server": "kill -0 {parent} && echo alive",
}  # fmt: skip


@pytest.mark.parametrize("name", ATTEMPTS)
async def test_only_reading_below_the_folders_is_possible(places, view, name):
    if name == "end the server" and landlock.abi() < 6:
        pytest.skip("this Landlock knows no signals")
    script = ATTEMPTS[name].replace("{parent}", str(os.getpid()))
    before = sorted((path.name, path.is_file() and path.read_bytes()) for path in places.rglob("*"))
    assert await outcome(view, places / "root", script) == []
    assert sorted((path.name, path.is_file() and path.read_bytes()) for path in places.rglob("*")) == before
    assert without(script, places / "root"), "the attempt works without the view"


async def test_both_folders_and_what_is_below_them_are_read(places, view):
    (places / "root" / "sub" / "deep").write_text("deep\n")
    script = f"{READ.format('file')}; {READ.format('../other/file')}; {READ.format('sub/deep')}"
    assert await outcome(view, places / "root", script) == ["root", "other", "deep"]
    assert await outcome(view, places / "root" / "sub", READ.format("deep")) == ["deep"]


async def test_the_program_gets_three_streams_and_nothing_else(places, view):
    program = begin(view, places / "root", "-c", "kill -STOP $$")
    await eventually(lambda: stopped(program.pid))
    seen = tree.look(program.pid)
    assert (seen.session, seen.group) == (program.pid, program.pid)
    assert sorted(os.listdir(f"/proc/{program.pid}/fd")) == ["0", "1", "2"]
    os.kill(program.pid, signal.SIGKILL)
    assert (await ended(program))[1].signal == signal.SIGKILL


def stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


async def eventually(condition):
    """Wait for a state of the system, which tells nobody when it comes."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_it_holds_no_capability_that_could_undo_the_view(view):
    status = Path(f"/proc/{view.pid}/status").read_text()
    held = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    allowed = 1 << 1 if os.geteuid() == 0 else 0  # CAP_DAC_OVERRIDE
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(held[name], 16) & ~allowed == 0, name
    assert held["NoNewPrivs"] == "1"


async def test_the_network_is_not_there(places):
    python = os.path.realpath(sys.executable)
    view = await made([places / "root", sys.base_prefix], python)
    script = "import socket; socket.create_connection(('127.0.0.1', {}), 5); print('reached')"
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = ["-I", "-S", "-c", script.format(server.getsockname()[1])]
        reached = subprocess.run([python, *argv], capture_output=True, check=True, timeout=20)
        assert reached.stdout == b"reached\n"
        program = begin(view, places / "root", *argv)
        assert (await ended(program))[0] == []
    await view.aclose()


async def test_what_files_a_program_holds_open_is_seen_from_outside(places, view):
    (places / "root" / "large").write_bytes(b"x" * 100_000)
    program = begin(view, places / "root", "-c", "exec 5< large; kill -STOP $$")
    await eventually(lambda: stopped(program.pid))
    assert largest_open(program.pid) == 100_000
    os.kill(program.pid, signal.SIGKILL)
    await ended(program)


async def test_how_a_program_ends_is_told_and_it_is_collected(places, view):
    for script, status, number in (("exit 3", 3, None), ("kill -KILL $$", 137, signal.SIGKILL), (":", 0, None)):
        program = begin(view, places / "root", "-c", script)
        assert tree.look(program.pid)
        _, result = await ended(program)
        assert (result.status, result.signal) == (status, number)
    await eventually(lambda: not list(tree.children(view.pid)))


async def test_its_end_is_told_by_a_descriptor_of_any_number(places, view):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("no descriptor may have such a number")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    try:
        low = [os.dup(view._orders.fileno()) for _ in range(1100)]
        program = begin(view, places / "root", "-c", "exit 3")
        for fd in low:
            os.close(fd)
        assert (await ended(program))[1].status == 3
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_its_arguments_environment_and_marks_are_those_that_were_asked_for(places, view):
    program = begin(view, places / "root", "-c", 'echo "$0" "$NAME"', "ä\udcff", env={"NAME": "value"})
    assert (await ended(program))[0] == ["ä\udcff", "value"]


async def test_rules_are_a_file_as_long_as_the_program_lives(places):
    # cat names the option that it does not know.
    view = await made([places / "root"], os.path.realpath("/bin/cat"))
    program = begin(view, places / "root", rules=b"*.log\n")
    os.set_blocking(program.stderr, True)
    assert b"--ignore-file=/.rules/1" in os.read(program.stderr, 1000)
    assert Path(f"/proc/{view.pid}/root/.rules/1").read_bytes() == b"*.log\n"
    await ended(program)
    await eventually(lambda: not os.listdir(f"/proc/{view.pid}/root/.rules"))
    await view.aclose()


async def test_a_folder_that_was_swapped_since_it_was_opened_is_not_searched(places, view):
    fd = os.open(places / "root" / "sub", os.O_RDONLY)
    (places / "root" / "sub").rename(places / "outside" / "moved")
    with pytest.raises(NotStarted):
        view.start([SHELL, "-c", ":"], cwd=f"/proc/self/fd/{fd}", env={}, stdin=subprocess.DEVNULL)
    (places / "outside" / "moved").rename(places / "root" / "moved")
    program = view.start([SHELL, "-c", "pwd"], cwd=f"/proc/self/fd/{fd}", env={}, stdin=subprocess.DEVNULL)
    os.close(fd)
    assert (await ended(program))[0] == [str(places / "root" / "moved")]
    assert view.stands


async def test_a_folder_that_a_view_cannot_hold_is_left_to_another_way():
    view = await made(["/"])
    assert (view.stands, bool(view.trouble)) == (False, True)
    with pytest.raises(NotStarted):
        begin(view, "/")
    await view.aclose()


async def test_arguments_that_are_too_long_are_left_to_another_way(places, view):
    with pytest.raises(NotStarted):
        begin(view, places / "root", "-c", "x" * (1 << 20))
    assert await outcome(view, places / "root", "echo on") == ["on"]


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
async def test_arguments_that_no_program_can_be_given_are_refused_as_popen_refuses_them(places, view, text):
    for start in (lambda: begin(view, places / "root", text), lambda: subprocess.Popen([SHELL, text])):
        with pytest.raises(ValueError, match=r"null|surrogate"):
            start()
    assert view.stands


async def test_when_its_process_is_killed_nothing_more_is_started_and_the_way_says_so(places, view):
    os.kill(view.pid, signal.SIGKILL)
    with pytest.raises(NotStarted):
        begin(view, places / "root", "-c", ":")
    assert not view.stands
    assert view.trouble
    with pytest.raises(NotStarted):
        begin(view, places / "root", "-c", ":")


async def test_a_process_that_is_stopped_holds_the_server_up_for_a_moment_only(places, view, monkeypatch):
    import toolbox_mcp.sandbox.linux.rg_namespace as module

    monkeypatch.setattr(module, "_ANSWER", 0.05)
    os.kill(view.pid, signal.SIGSTOP)
    await eventually(lambda: stopped(view.pid))
    with pytest.raises(NotStarted):
        begin(view, places / "root", "-c", ":")
    assert not view.stands
    os.kill(view.pid, signal.SIGCONT)


async def test_with_its_end_the_process_is_gone(places):
    view = await made([places / "root"])
    pid = view.pid
    await view.aclose()
    assert tree.look(pid) is None
    assert view.pid is None


LATER = """
import asyncio, os, subprocess, sys
from toolbox_mcp.sandbox.linux.namespaces import NODEV, RECURSIVE, mount
from toolbox_mcp.sandbox.linux.rg_namespace import View

async def main():
    # As init systems have it; in a mount namespace of its own this reaches nobody else.
    mount(None, "/", None, RECURSIVE | 1 << 20)
    fd = os.open(sys.argv[1], os.O_RDONLY)
    view = View([fd], sys.argv[2])
    await view.settled()
    mount("tmpfs", sys.argv[1] + "/sub", "tmpfs", NODEV, "size=64k")
    open(sys.argv[1] + "/sub/new", "w").write("mounted\\n")
    script = "read x < sub/new; echo $x; echo y > sub/other && echo written"
    program = view.start([sys.argv[2], "-c", script], cwd=f"/proc/self/fd/{fd}", env={}, stdin=subprocess.DEVNULL)
    os.set_blocking(program.stdout, True)
    print(open(program.stdout, closefd=False).read(), os.path.exists(sys.argv[1] + "/sub/other"))
    await view.aclose()

asyncio.run(main())
"""


async def test_what_is_mounted_below_a_folder_later_is_seen_and_not_written(places):
    alone = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    argv = [*alone, sys.executable, "-P", "-c", LATER, places / "root", SHELL]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout.split(), done.stderr) == (["mounted", "False"], "")


async def test_no_rules_are_left_of_a_program_that_could_not_be_started(places, view):
    with pytest.raises(NotStarted):
        begin(view, places / "root", "-c", "x" * 150_000, rules=b"*.log\n")
    assert view.stands
    assert os.listdir(f"/proc/{view.pid}/root/.rules") == []


async def test_rules_for_which_there_is_no_room_leave_it_to_later_programs(places, view):
    with pytest.raises(NotStarted):
        begin(view, places / "root", "-c", ":", rules=bytes(65 << 20))
    program = begin(view, places / "root", "-c", ":", rules=bytes(32 << 20))
    await ended(program)


@pytest.mark.parametrize("size", [LARGEST_ORDER - 10_000, LARGEST_ORDER + 10_000])
async def test_an_order_as_long_as_one_may_be_does_not_end_the_view(places, view, size):
    with contextlib.suppress(NotStarted):
        await ended(begin(view, places / "root", "-c", ":", *["x" * 1000] * (size // 1004)))
    assert await outcome(view, places / "root", "echo on") == ["on"]


async def test_a_folder_is_not_held_once_it_was_searched(places, view):
    await outcome(view, places / "root" / "sub", ":")
    assert os.readlink(f"/proc/{view.pid}/cwd") == "/"


def descriptors():
    return sorted(os.listdir("/proc/self/fd"))


async def test_without_descriptors_nothing_is_started_and_none_is_lost(places, view):
    before = descriptors()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for more in range(1, 10):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(before[-1]) + more, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                begin(view, places / "root", "-c", ":", rules=b"rules")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert descriptors() == before
    assert await outcome(view, places / "root", "echo on") == ["on"]


@pytest.mark.parametrize("free", range(1, 5))
@pytest.mark.parametrize("rules", [b"", b"rules"])
async def test_a_view_without_descriptors_starts_nothing_and_stands(places, view, free, rules):
    taken = {int(name) for name in os.listdir(f"/proc/{view.pid}/fd")}
    soft, hard = resource.prlimit(view.pid, resource.RLIMIT_NOFILE)
    limit = [number for number in range(100) if number not in taken][free]
    resource.prlimit(view.pid, resource.RLIMIT_NOFILE, (limit, hard))
    with pytest.raises(NotStarted):
        begin(view, places / "root", "-c", "while :; do :; done", rules=rules)
    assert tree.children(view.pid) == []
    resource.prlimit(view.pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert await outcome(view, places / "root", "echo on") == ["on"]


async def test_a_process_that_is_stopped_is_waited_for_once(places, view, monkeypatch):
    import toolbox_mcp.sandbox.linux.rg_namespace as module

    programs = [begin(view, places / "root", "-c", "kill -STOP $$") for _ in range(3)]
    for program in programs:
        await eventually(lambda pid=program.pid: stopped(pid))
    os.kill(view.pid, signal.SIGSTOP)
    await eventually(lambda: stopped(view.pid))
    waits = []
    said = module._said
    monkeypatch.setattr(module, "_said", lambda report, seconds: waits.append(seconds) or said(report, seconds / 40))
    for program in programs:
        os.kill(program.pid, signal.SIGKILL)
        assert (await ended(program))[1] is None
    assert [bool(wait) for wait in waits] == [True, False, False]
    assert view.lost
    os.kill(view.pid, signal.SIGCONT)


async def test_a_folder_in_another_one_is_not_mounted_again(places):
    # Who writes to the outer one chooses what is mounted in the place of the inner one.
    view = await made([places / "root", places / "root" / "sub"])
    (places / "root" / "sub" / "deep").write_text("deep\n")
    assert await outcome(view, places / "root" / "sub", READ.format("deep")) == ["deep"]
    places_there = [line.split()[4] for line in Path(f"/proc/{view.pid}/mountinfo").read_text().splitlines()]
    assert str(places / "root") in places_there
    assert str(places / "root" / "sub") not in places_there
    await view.aclose()


async def test_a_path_that_is_longer_than_the_system_tells_is_left_to_another_way(places, view):
    fd = os.open(places / "root", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=fd)
        deeper = os.open("x" * 250, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    with pytest.raises(NotStarted):
        view.start([SHELL, "-c", ":"], cwd=f"/proc/self/fd/{fd}", env={}, stdin=subprocess.DEVNULL)
    os.close(fd)
    assert view.stands
