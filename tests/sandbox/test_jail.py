import asyncio
import contextlib
import functools
import inspect
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from toolbox_mcp.sandbox import jail
from toolbox_mcp.sandbox.backends import macos
from toolbox_mcp.sandbox.process import tree

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
linux = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and adoption of orphans are Linux")

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def defaults():
    yield
    jail.configure()


@pytest.fixture
def victims(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    import jail_victims

    return jail_victims


@pytest.fixture
def platform(monkeypatch):
    def pretend(**fields):
        known = {"platform": "linux", "fork": True, "landlock_abi": 0, "seatbelt": False, "reasons": ("no walls",)}
        monkeypatch.setattr(jail._shared, "support", jail.Support(**known | fields))

    return pretend


def alone(code, *arguments):
    """Run code in an interpreter of its own, with one thread, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": os.pathsep.join([HERE, *sys.path]), "SECRET": "s"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def dead(pid):
    """Wait until a process is dead, ten seconds at most."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            return bool(select.select([handle], [], [], 10)[0])
        finally:
            os.close(handle)
    return True


def zombies():
    return [pid for pid in tree.children(os.getpid()) if (seen := tree.look(pid)) and seen.dead]


# The contract


def test_the_signature_is_the_one_that_is_promised():
    promised = (
        "(fn, *args, timeout=None, cpu_timeout=None, memory_mb=None, fs_allow=None, fs_read_allow=None, "
        "mode='auto', max_result=67108864, on_unsupported=None)"
    )
    for function in (jail.run, jail.run_async):
        bare = [p.replace(annotation=p.empty) for p in inspect.signature(function).parameters.values()]
        assert str(inspect.Signature(bare)) == promised
    configure = inspect.signature(jail.configure).parameters.values()
    assert {p.name: p.default for p in configure} == {
        "default_timeout": 30,
        "default_memory_mb": 512,
        "default_fs_allow": (),
        "on_unsupported": "warn",
    }


@pytest.mark.parametrize(
    "name", ["TimeoutError", "MemoryError", "FilesystemError", "SandboxError", "UnsupportedPlatformError"]
)
def test_every_exception_is_an_error_of_the_jail(name):
    assert issubclass(getattr(jail, name), jail.Error)


# Results


@pytest.mark.parametrize("mode", ["auto", "zygote"])
def test_returns_what_the_function_returns(victims, mode):
    values = (None, 1.5, "é\ud800", b"\0", [1], {2: {3}}, datetime(2024, 1, 2), Decimal("1.10"), Path("/a"))
    assert jail.run(victims.echo, *values, mode=mode) == values


@pytest.mark.slow
def test_twenty_megabytes_come_back(victims):
    assert jail.run(victims.echo, b"x" * (20 << 20)) == (b"x" * (20 << 20),)
    rows = [{"id": i, "name": f"row {i}", "price": 1.5} for i in range(200_000)]
    assert jail.run(victims.echo, rows) == (rows,)


def test_a_result_above_the_limit_is_refused_and_nothing_is_left(victims):
    with pytest.raises(jail.SandboxError) as caught:
        jail.run(victims.echo, b"x" * 5000, max_result=4096)
    assert caught.value.original_class == "OutputLimit"


def test_a_result_of_another_type_is_a_type_error_of_the_function(victims):
    with pytest.raises(jail.SandboxError) as caught:
        jail.run(victims.makes_an_object)
    assert caught.value.original_class == "TypeError"


def test_what_the_child_changes_is_not_seen_here(victims):
    assert [jail.run(victims.leaves_a_mark) for _ in range(2)] == [1, 1]
    assert victims.calls == []


def test_a_function_that_forks_gives_one_result(victims):
    assert jail.run(victims.forks_and_returns) == "parent"


@pytest.mark.parametrize("size", [3, 16, 4096])
def test_a_forged_result_is_an_error(victims, size):
    with pytest.raises(jail.SandboxError):
        jail.run(victims.forges, size)


# Exceptions


@pytest.mark.parametrize(
    ("kind", "args", "message"),
    [("ZeroDivisionError", ("by zero",), "by zero"), ("SystemExit", (3,), "3"), ("KeyboardInterrupt", (), "")],
)
def test_an_exception_is_described(victims, kind, args, message):
    with pytest.raises(jail.SandboxError) as caught:
        jail.run(victims.raises, kind, *args)
    error = caught.value
    assert (error.original_class, error.original_message) == (kind, message)
    assert str(error) == f"{kind}: {message}"
    assert any("in raises" in line for line in error.original_backtrace)


@pytest.mark.parametrize("name", ["hangs", "spins", "closes_its_channel"])
def test_the_wall_clock_ends_a_call(victims, name):
    with pytest.raises(jail.TimeoutError, match=r"wall clock of 0\.3 s"):
        jail.run(getattr(victims, name), timeout=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spins", "spins_deaf"])
def test_the_cpu_time_ends_a_call(victims, name):
    with pytest.raises(jail.TimeoutError, match="CPU time of 1 s"):
        jail.run(getattr(victims, name), timeout=60, cpu_timeout=0.5)


def test_memory_above_the_limit_is_a_memory_error(victims):
    with pytest.raises(jail.MemoryError):
        jail.run(victims.takes, 200, memory_mb=128)
    assert jail.run(victims.takes, 200, memory_mb=256) == 200 << 20


def test_an_exception_that_cannot_say_what_it_is_keeps_its_class(victims):
    with pytest.raises(jail.SandboxError) as caught:
        jail.run(victims.raises_without_words)
    assert (caught.value.original_class, caught.value.original_message) == (
        "Speechless",
        "(LookupError from its __str__)",
    )


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL])
def test_a_violent_end_with_full_memory_is_a_memory_error(victims, number):
    with pytest.raises(jail.MemoryError):
        jail.run(victims.dies_by, int(number), 100, memory_mb=115)


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_a_violent_end_with_memory_left_names_the_signal(victims, number):
    with pytest.raises(jail.SandboxError, match=number.name) as caught:
        jail.run(victims.dies_by, int(number))
    assert caught.value.original_class is None


@linux
def test_a_violent_end_by_a_signal_without_a_name_is_an_error(victims):
    with pytest.raises(jail.SandboxError, match="SIG40"):
        jail.run(victims.dies_by, 40)


def test_a_segmentation_fault_is_an_error_and_the_next_call_works(victims):
    with pytest.raises(jail.SandboxError, match="SIGSEGV"):
        jail.run(victims.touches_nothing)
    assert jail.run(victims.echo) == ()


def test_an_exit_without_a_result_names_the_status(victims):
    with pytest.raises(jail.SandboxError, match="exit status 7"):
        jail.run(victims.exits, 7)


@pytest.mark.parametrize("number", [1, 13])
def test_a_permission_error_that_leaves_the_function_is_a_filesystem_error(victims, number):
    with pytest.raises(jail.FilesystemError, match="no"):
        jail.run(victims.raises_permission_error, number)


def test_a_permission_error_without_a_file_policy_is_just_an_error(victims, platform):
    platform()
    with pytest.raises(jail.SandboxError) as caught:
        jail.run(victims.raises_permission_error, 13, on_unsupported="ignore")
    assert caught.value.original_class == "PermissionError"


# Files


@pytest.fixture
def files(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    for place in ("in", "out"):
        (tmp_path / place / "a").write_text(place)
    return tmp_path


@linux
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("reads", ["out/a"]),
        ("reads", ["in/../out/a"]),
        ("lists", ["out"]),
        ("writes", ["out/a"]),
        ("writes", ["out/b"]),
        ("removes", ["out/a"]),
        ("truncates", ["out/a"]),
        ("links", ["out/a", "in/link"]),
        ("reads", ["/etc/passwd"]),
        ("reads", ["/proc/self/environ"]),
        ("lists", ["/root"]),
    ],
)
def test_nothing_outside_the_lists_is_reached(victims, files, name, arguments):
    paths = [argument if argument.startswith("/") else str(files / argument) for argument in arguments]
    with pytest.raises(jail.FilesystemError):
        jail.run(getattr(victims, name), *paths, fs_allow=[files / "in"])
    assert (files / "out" / "a").read_text() == "out"
    assert os.listdir(files / "out") == ["a"]


@linux
def test_a_file_is_not_moved_in_from_outside(victims, files):
    with pytest.raises(jail.Error):
        jail.run(victims.renames, str(files / "out/a"), str(files / "in/b"), fs_allow=[files / "in"])
    assert (files / "out" / "a").exists()


@linux
def test_mode_and_time_of_a_file_outside_stay(victims, files):
    before = os.stat(files / "out/a")
    with contextlib.suppress(jail.Error):
        jail.run(victims.opens_up, str(files / "out/a"))
    after = os.stat(files / "out/a")
    assert (after.st_mode, after.st_mtime) == (before.st_mode, before.st_mtime)


@linux
@pytest.mark.parametrize(("name", "place"), [("marks", "in/a"), ("leases", "in/a"), ("watches", "in")])
@pytest.mark.parametrize("lists", [{"fs_read_allow": ["in"]}, {"fs_read_allow": ["in"], "fs_allow": ["out"]}])
def test_what_may_be_read_is_only_read(victims, files, monkeypatch, name, place, lists):
    monkeypatch.chdir(files)
    act = getattr(victims, name)
    act(place)
    with pytest.raises(jail.FilesystemError):
        jail.run(act, place, **lists)


def test_mode_and_time_of_a_writable_file_change(victims, files):
    jail.run(victims.opens_up, str(files / "in/a"), fs_allow=[files / "in"])
    after = os.stat(files / "in/a")
    assert (after.st_mode & 0o777, after.st_mtime) == (0o777, 0)


@linux
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_socket_with_a_path_outside_is_not_reached(victims, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, kind) as listener:
        listener.bind("s")
        if kind == socket.SOCK_STREAM:
            listener.listen()
        with pytest.raises(jail.Error):
            jail.run(victims.talks_to, int(socket.AF_UNIX), "s")
        with pytest.raises(jail.Error):
            jail.run(victims.talks_by_a_pair, "s")


def test_the_network_is_left_to_the_function(victims):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert jail.run(victims.talks_to, int(socket.AF_INET), listener.getsockname())


def test_a_writable_folder_is_read_and_written(victims, files):
    assert jail.run(victims.reads, str(files / "in/a"), fs_allow=[files / "in"]) == "in"
    assert jail.run(victims.writes, str(files / "in/b"), "new", fs_allow=[files / "in"])
    jail.run(victims.renames, str(files / "in/b"), str(files / "in/c"), fs_allow=[files / "in"])
    assert (files / "in/c").read_text() == "new"


@linux
def test_a_readable_folder_is_only_read(victims, files):
    assert jail.run(victims.reads, str(files / "in/a"), fs_read_allow=[files / "in"]) == "in"
    with pytest.raises(jail.FilesystemError):
        jail.run(victims.writes, str(files / "in/a"), fs_read_allow=[files / "in"])
    assert (files / "in/a").read_text() == "in"


@linux
def test_a_single_file_can_be_listed(victims, files):
    assert jail.run(victims.reads, str(files / "in/a"), fs_read_allow=[str(files / "in/a")]) == "in"
    (files / "in/b").write_text("b")
    with pytest.raises(jail.FilesystemError):
        jail.run(victims.reads, str(files / "in/b"), fs_read_allow=[str(files / "in/a")])


@linux
@pytest.mark.parametrize("lists", [{}, {"fs_allow": []}, {"fs_read_allow": []}])
def test_without_lists_files_are_still_confined(victims, files, lists):
    with pytest.raises(jail.FilesystemError):
        jail.run(victims.reads, str(files / "in/a"), **lists)
    with pytest.raises(jail.FilesystemError):
        jail.run(victims.writes, str(files / "in/b"), **lists)


def test_the_devices_every_program_needs_are_there(victims):
    assert jail.run(victims.random_bytes) == 8


@linux
def test_a_function_that_handles_its_refusal_returns_normally(victims, files):
    assert jail.run(victims.handles_it, str(files / "in/a")) == "refused"


@pytest.mark.parametrize("name", ["fs_allow", "fs_read_allow"])
def test_a_missing_path_is_reported_before_anything_starts(victims, files, name, monkeypatch):
    monkeypatch.setattr(jail, "from_zygote", None)
    monkeypatch.setattr(jail, "from_here", None)
    with pytest.raises(FileNotFoundError):
        jail.run(victims.echo, **{name: [files / "missing"]})


@linux
def test_a_relative_path_is_relative_to_the_caller(victims, files, monkeypatch):
    monkeypatch.chdir(files)
    assert jail.run(victims.reads, "in/a", fs_read_allow=["in"]) == "in"


# The process


def test_the_function_has_no_streams_descriptors_or_environment_of_ours(victims, monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    one, other = socket.socketpair()
    with one, other:
        found = jail.run(victims.about_itself)
    null = os.stat("/dev/null").st_rdev
    assert found["streams"] == [null] * 3
    assert len(found["descriptors"]) == 1
    assert "SECRET" not in found["environment"]
    assert found["cwd"] == os.getcwd()
    assert found["leader"]
    # At 0, Linux would still start a core_pattern that is a program.
    assert found["core"] == ((1, 1) if sys.platform == "linux" else (0, 0))


def test_the_zygote_is_clean(victims):
    found = jail.run(victims.about_itself)
    assert found["threads"] == 1
    assert not {"mcp", "pydantic", "asyncio", "toolbox_mcp.server", "toolbox_mcp.sandbox.jail"} & set(found["modules"])


@linux
def test_the_function_cannot_kill_us_or_its_supervisor(victims):
    for pid in (os.getpid(), os.getppid()):
        with pytest.raises(jail.FilesystemError):
            jail.run(victims.signals, pid)


@linux
@pytest.mark.parametrize("wait", [False, True])
def test_grandchildren_die_with_the_child(victims, tmp_path, wait):
    note = tmp_path / "pids"
    with contextlib.suppress(jail.TimeoutError):
        jail.run(victims.scatter, str(note), wait, timeout=2 if wait else 30, fs_allow=[tmp_path])
    pids = [int(pid) for pid in note.read_text().split()]
    assert len(pids) == 3
    assert all(tree.look(pid) is None or tree.look(pid).dead or dead(pid) for pid in pids)


@pytest.mark.slow
def test_a_hundred_runs_leave_no_zombie_and_no_descriptor(victims):
    jail.run(victims.echo)
    before = sorted(os.listdir("/dev/fd"))
    for _ in range(100):
        jail.run(victims.echo)
    assert sorted(os.listdir("/dev/fd")) == before
    assert not zombies()


@linux
def test_a_zygote_that_was_killed_is_replaced(victims):
    jail.run(victims.echo)
    for pid in tree.children(os.getpid()):
        if b"jail_zygote" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            assert dead(pid)
    assert jail.run(victims.echo, 1) == (1,)


@linux
def test_calls_from_many_threads_do_not_mix(victims):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: jail.run(victims.echo, n), range(40))) == [(n,) for n in range(40)]


@linux
def test_the_call_dies_with_the_caller(tmp_path):
    program = """
        import os, sys, threading
        import jail_victims
        from toolbox_mcp.sandbox import jail
        note = sys.argv[1]
        def end():
            while not os.path.exists(note) or not open(note).read().count(" ") == 2:
                threading.Event().wait(0.01)
            os.kill(os.getpid(), 9)
        threading.Thread(target=end).start()
        jail.run(jail_victims.scatter, note, True, fs_allow=[os.path.dirname(note)])
    """
    with pytest.raises(AssertionError):
        alone(program, str(tmp_path / "pids"))
    assert all(dead(int(pid)) for pid in (tmp_path / "pids").read_text().split())


# Modes


def test_a_closure_runs_in_a_fork(victims):
    assert (
        alone("""
        from toolbox_mcp.sandbox import jail
        local = {"a": 1}
        print(jail.run(lambda key: (local[key], local.update(a=2), local), "a"), local)
    """)
        == "(1, None, {'a': 2}) {'a': 1}"
    )


def test_a_fork_of_a_process_without_standard_streams_works():
    assert (
        alone("""
        import os
        from toolbox_mcp.sandbox import jail
        os.close(0), os.close(2)
        print(jail.run(lambda: 5))
    """)
        == "5"
    )


def test_a_fork_is_confined_too(tmp_path):
    (tmp_path / "secret").write_text("s")
    assert alone(
        """
        import os, sys, socket
        from toolbox_mcp.sandbox import jail
        path = sys.argv[1]
        held = open(path)
        def through_a_descriptor(): return os.read(held.fileno(), 9)
        for fn in (lambda: open(path).read(), lambda: open(path, "w"), through_a_descriptor,
                   lambda: len(bytearray(900 << 20)), lambda: os._exit(4), lambda: 1 / 0):
            try:
                print("escaped", jail.run(fn, memory_mb=64, timeout=20))
            except jail.Error as e:
                print(type(e).__name__, getattr(e, "original_class", ""))
    """,
        str(tmp_path / "secret"),
    ).splitlines() == [
        "FilesystemError ",
        "FilesystemError ",
        "SandboxError OSError",
        "MemoryError ",
        "SandboxError None",
        "SandboxError ZeroDivisionError",
    ]
    assert (tmp_path / "secret").read_text() == "s"


@linux
def test_a_supervisor_that_is_stopped_is_killed_in_the_end():
    code = """
        import asyncio, os, signal, time
        from toolbox_mcp.sandbox import jail; from toolbox_mcp.sandbox.isolate import job as jail_job; from toolbox_mcp.sandbox.process import tree

        jail_job._START_SECONDS = jail_job._END_SECONDS = 0.3

        async def main():
            call = asyncio.create_task(jail.run_async(lambda: time.sleep(60), mode="fork", timeout=0.3))
            await asyncio.sleep(0)
            (supervisor,) = tree.children(os.getpid())
            os.kill(supervisor, signal.SIGSTOP)
            try:
                await call
            except jail.Error:
                print("failed", tree.children(os.getpid()))

        asyncio.run(main())
    """
    assert alone(code) == "failed []"


def test_fork_mode_is_refused_when_threads_run():
    assert alone("""
        import threading
        from toolbox_mcp.sandbox import jail
        done = threading.Event()
        thread = threading.Thread(target=done.wait)
        thread.start()
        try:
            for options in ({"mode": "fork"}, {}):
                try:
                    print(jail.run(lambda: 1, **options))
                except RuntimeError as e:
                    print(type(e).__name__, "one thread" in str(e))
        finally:
            done.set()
            thread.join()
        print(jail.run(lambda: 1))
    """).splitlines() == ["RuntimeError True", "RuntimeError True", "1"]


@pytest.mark.slow
def test_a_hundred_forks_leave_no_zombie_and_no_descriptor():
    assert (
        alone("""
        import os
        from toolbox_mcp.sandbox import jail
        before = sorted(os.listdir("/dev/fd"))
        for n in range(100):
            assert jail.run(lambda: n) == n
        assert sorted(os.listdir("/dev/fd")) == before
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("none")
    """)
        == "none"
    )


def test_a_fork_inside_a_running_event_loop_works_and_is_killed_by_cancelling(tmp_path):
    assert alone(
        """
        import asyncio, os, sys, time
        from toolbox_mcp.sandbox import jail
        note = sys.argv[1]
        def hang():
            open(note, "w").write(str(os.getpid()))
            time.sleep(600)
        async def main():
            print(await jail.run_async(lambda: asyncio.run(asyncio.sleep(0, "inner"))))
            task = asyncio.create_task(jail.run_async(hang, fs_allow=[os.path.dirname(note)]))
            while not os.path.exists(note) or not open(note).read():
                await asyncio.sleep(0.01)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                print("cancelled")
            try:
                os.kill(int(open(note).read()), 0)
            except ProcessLookupError:
                print("gone")
        asyncio.run(main())
    """,
        str(tmp_path / "pid"),
    ).splitlines() == ["inner", "cancelled", "gone"]


@pytest.mark.parametrize("fn", [lambda: 1, functools.partial(int, "1"), "x".join], ids=["lambda", "partial", "method"])
def test_zygote_mode_is_refused_for_what_cannot_be_imported(fn):
    with pytest.raises(ValueError, match="cannot be imported"):
        jail.run(fn, mode="zygote")


def test_zygote_mode_is_refused_for_arguments_that_cannot_travel(victims):
    with pytest.raises(TypeError):
        jail.run(victims.echo, object(), mode="zygote")


def test_a_module_that_only_this_process_knows_is_not_importable(monkeypatch):
    import types

    module = types.ModuleType("only_here")
    exec("def fn(): return 1", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(ValueError, match="cannot be imported"):
        jail.run(module.fn, mode="zygote")


# run_async


async def test_the_loop_runs_on_while_a_call_runs(victims):
    first, second = await asyncio.gather(jail.run_async(victims.echo, 1), jail.run_async(victims.echo, 2))
    assert (first, second) == ((1,), (2,))


@pytest.mark.parametrize(
    ("name", "arguments", "options", "error"),
    [
        ("hangs", (), {"timeout": 0.3}, jail.TimeoutError),
        ("takes", (900,), {"memory_mb": 64}, jail.MemoryError),
        ("reads", ("/etc/passwd",), {}, jail.FilesystemError),
        ("exits", (1,), {}, jail.SandboxError),
        ("echo", (b"x" * 5000,), {"max_result": 100}, jail.SandboxError),
    ],
)
async def test_async_failures_are_the_same(victims, name, arguments, options, error):
    with pytest.raises(error):
        await jail.run_async(getattr(victims, name), *arguments, **options)


async def test_megabytes_come_back_asynchronously(victims):
    assert await jail.run_async(victims.echo, b"x" * (20 << 20)) == (b"x" * (20 << 20),)


@linux
async def test_cancelling_kills_the_child_and_its_children(victims, tmp_path):
    note = tmp_path / "pids"
    call = asyncio.create_task(jail.run_async(victims.scatter, str(note), True, fs_allow=[tmp_path]))
    async with asyncio.timeout(20):
        while not await asyncio.to_thread(note.exists) or note.read_text().count(" ") != 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    for pid in note.read_text().split():
        seen = tree.look(int(pid))
        assert seen is None or seen.dead


@linux
async def test_a_call_that_is_cancelled_twice_leaves_nothing(victims):
    await jail.run_async(victims.echo)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        call = asyncio.create_task(jail.run_async(victims.hangs))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert len(os.listdir("/proc/self/fd")) == before


# Settings


def test_configure_sets_what_none_stands_for(victims, files):
    jail.configure(default_timeout=0.3, default_memory_mb=64, default_fs_allow=[files / "in"])
    with pytest.raises(jail.TimeoutError, match=r"0\.3 s"):
        jail.run(victims.hangs)
    with pytest.raises(jail.MemoryError):
        jail.run(victims.takes, 100)
    assert jail.run(victims.reads, str(files / "in/a"), timeout=20) == "in"


@linux
def test_an_explicit_list_replaces_the_default_one(victims, files):
    jail.configure(default_fs_allow=[files / "in"])
    with pytest.raises(jail.FilesystemError):
        jail.run(victims.reads, str(files / "in/a"), fs_allow=[])


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"cpu_timeout": 0},
        {"timeout": 1e10},
        {"cpu_timeout": 1e19},
        {"memory_mb": 0},
        {"memory_mb": 1.5},
        {"memory_mb": 1 << 44},
        {"max_result": 0},
        {"mode": "thread"},
        {"on_unsupported": "shrug"},
    ],
)
def test_senseless_options_are_refused(victims, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        jail.run(victims.echo, **options)


@pytest.mark.parametrize("path", ["/x", b"/x", Path("/x")])
@pytest.mark.parametrize("name", ["fs_allow", "fs_read_allow"])
def test_one_path_in_the_place_of_a_list_is_refused(victims, tmp_path, monkeypatch, name, path):
    # Letter by letter it would name the root, and x.
    (tmp_path / "x").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match=f"{name} has to be a list"):
        jail.run(victims.echo, **{name: path})
    with pytest.raises(TypeError, match="default_fs_allow has to be a list"):
        jail.configure(default_fs_allow=path)


# Platforms


def test_support_says_what_this_system_can_do():
    support = jail.supported()
    assert support.platform == sys.platform
    assert support.fork
    if sys.platform == "linux":
        assert support.walls == ("landlock" if support.landlock_abi else "")


@pytest.mark.parametrize("fields", [{"fork": False, "platform": "win32"}, {"fork": True}])
def test_where_files_cannot_be_confined_raise_refuses(victims, platform, fields):
    platform(**fields)
    with pytest.raises(jail.UnsupportedPlatformError, match="no walls"):
        jail.run(victims.leaves_a_mark, on_unsupported="raise")
    assert victims.calls == []


@pytest.mark.parametrize(("answer", "said"), [("warn", "no walls"), ("ignore", "")])
def test_without_fork_the_function_runs_here(victims, platform, capsys, monkeypatch, answer, said):
    monkeypatch.setattr(victims, "calls", [])
    platform(fork=False, platform="win32")
    assert jail.run(victims.leaves_a_mark, on_unsupported=answer) == 1
    assert victims.calls == [1]
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "said"), [("warn", "no walls"), ("ignore", "")])
def test_without_landlock_the_limits_hold_and_files_do_not(victims, platform, capsys, files, answer, said):
    platform()
    assert jail.run(victims.reads, str(files / "out/a"), on_unsupported=answer) == "out"
    assert said in capsys.readouterr().err
    with pytest.raises(jail.TimeoutError):
        jail.run(victims.hangs, timeout=0.2, on_unsupported="ignore")


def test_the_configured_answer_holds_where_none_is_given(victims, platform):
    platform()
    jail.configure(on_unsupported="raise")
    with pytest.raises(jail.UnsupportedPlatformError):
        jail.run(victims.echo)


async def test_without_fork_an_async_call_runs_in_a_thread(victims, platform):
    platform(fork=False)
    assert await jail.run_async(victims.echo, 1, on_unsupported="ignore") == (1,)
    with pytest.raises(jail.SandboxError) as caught:
        await jail.run_async(victims.raises, "ZeroDivisionError", on_unsupported="ignore")
    assert caught.value.original_class == "ZeroDivisionError"


def test_a_missing_path_is_reported_on_every_platform(victims, platform, files):
    platform(fork=False)
    with pytest.raises(FileNotFoundError):
        jail.run(victims.echo, fs_allow=[files / "missing"], on_unsupported="ignore")


def test_the_seatbelt_profile_names_the_lists_and_quotes_them():
    assert macos.profile(["/r"], ['/w"x\\']).splitlines() == [
        "(version 1)",
        "(allow default)",
        "(deny file-read-data)",
        "(deny file-write*)",
        "(deny signal)",
        "(allow signal (target self))",
        '(allow file-read-data (literal "/") (literal "/dev/null")',
        '  (subpath "/System")',
        '  (subpath "/Library/Frameworks")',
        '  (subpath "/usr")',
        '  (subpath "/bin")',
        '  (subpath "/sbin")',
        '  (subpath "/private/var/db/dyld")',
        '  (subpath "/private/var/db/timezone")',
        '  (subpath "/r")',
        '  (subpath "/w\\"x\\\\"))',
        '(allow file-write* (literal "/dev/null")',
        '  (subpath "/w\\"x\\\\"))',
    ]
