"""What is promised of programs that wait, in every back end that can keep some."""

import ast
import asyncio
import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.machine import no_back_end, skip_for
from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.backends import native
from toolbox_mcp.sandbox.languages import LANGUAGES
from toolbox_mcp.sandbox.process import tree
from toolbox_mcp.sandbox.service import Sandbox, SandboxSettings
from toolbox_mcp.sandbox.spec import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the back ends that keep programs waiting are Linux's")

SYSTEM, OWN = "/usr/bin:/bin", f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"
KINDS = {
    "bubblewrap": ("bubblewrap", SYSTEM),
    "native": ("native", SYSTEM),
    "native, forked": ("native", OWN),
    "landlock": ("landlock", SYSTEM),
}
COLD = {"python": replace(LANGUAGES["python"], waiting=0)}


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """Return a folder that the tests share, so that each back end is attacked once."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def scratch():
    """Return a folder that any user may enter, and see that it is empty at the end."""
    folder = tempfile.mkdtemp(prefix="pool-test-")
    os.chmod(folder, 0o711)
    yield Path(folder)
    os.rmdir(folder)


# The two ways to keep a program waiting; the other kinds share them.
PLAIN = ("bubblewrap", "native, forked")


@pytest.fixture(params=[kind if kind in PLAIN else pytest.param(kind, marks=pytest.mark.attack) for kind in KINDS])
def settings(request, state, scratch):
    runtime, path = KINDS[request.param]
    skip_for(no_back_end(runtime))
    env = {"PATH": path, "LANG": "C.UTF-8", "HOME": "/nonexistent"}
    return SandboxSettings(state=state, temp=scratch, home="/nonexistent", env=env, runtime=runtime, timeout=20)


@pytest.fixture
async def made(settings):
    """Return a maker of sandboxes of one kind."""
    async with contextlib.AsyncExitStack() as stack:

        def make(languages=LANGUAGES, **more):
            sandbox = Sandbox(replace(settings, **more), languages)
            stack.push_async_callback(sandbox.aclose)
            return sandbox

        yield make


@pytest.fixture
async def warm(made):
    """Return a sandbox in which programs wait."""
    sandbox = made()
    await sandbox.run_code("python", "pass")
    await sandbox.warmed()
    return sandbox


async def said(sandbox, code):
    """Return what a program prints, when it ends well."""
    done = (await sandbox.run_code("python", textwrap.dedent(code))).finished
    assert (done.exit_code, done.stderr.text) == (0, "")
    return done.stdout.text


def outcome(done):
    """Return of a result all that does not differ from run to run."""
    end = done.finished
    words = end.stderr.text.splitlines()[-1:]
    return end.exit_code, end.signal, end.timed_out, end.killed_by, end.stdout.text, words, done.runtime, done.reasons


def below(pid):
    return {process.pid for process in tree.descendants(pid) if not process.dead}


def launcher_of(keeper):
    return tree.look(keeper).parent


def gone(pids, seconds=20):
    """Return True if all of the processes end in time."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                if not select.select([handle], [], [], seconds)[0]:
                    return False
            finally:
                os.close(handle)
    return True


# What waits, and for how long


async def test_nothing_waits_before_the_first_run(made):
    before = below(os.getpid())
    sandbox = made()
    assert (sandbox.waiting, below(os.getpid())) == ((), before)


async def test_a_run_takes_a_program_that_waits_and_another_takes_its_place(warm):
    first, second = warm.waiting
    assert await said(warm, "print(6 * 7)") == "42\n"
    await warm.warmed()
    assert len(warm.waiting) == 2
    assert warm.waiting[0] == second
    assert first not in warm.waiting
    assert gone([first])


async def test_more_runs_at_a_time_than_programs_wait_are_all_served(warm):
    answers = await asyncio.gather(*(said(warm, f"print({number})") for number in range(6)))
    assert answers == [f"{number}\n" for number in range(6)]


async def test_what_is_no_program_takes_none_that_waits(warm):
    waiting = warm.waiting
    with pytest.raises(ToolError):
        await warm.run_code("python", " \n")
    assert warm.waiting == waiting


async def test_nothing_is_left_when_the_sandbox_closes(made, scratch):
    before = below(os.getpid()), sorted(os.listdir("/proc/self/fd"))
    sandbox = made()
    await sandbox.run_code("python", "pass")
    await sandbox.warmed()
    await sandbox.aclose()
    assert (below(os.getpid()), sorted(os.listdir("/proc/self/fd"))) == before
    assert os.listdir(scratch) == []


async def test_nothing_is_left_when_it_closes_while_programs_are_being_started(made, scratch):
    before = below(os.getpid()), sorted(os.listdir("/proc/self/fd"))
    sandbox = made()
    await sandbox.run_code("python", "pass")
    await sandbox.aclose()
    assert (below(os.getpid()), sorted(os.listdir("/proc/self/fd"))) == before
    assert os.listdir(scratch) == []


# A warm run and a cold one


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "more", "cause"),
    [
        ("print('hi')", {}, None),
        ("import sys; sys.exit(3)", {}, None),
        ("1 / 0", {}, None),
        ("import time\nprint('begun', flush=True)\ntime.sleep(60)", {"timeout": 1.0}, "wall"),
        ("import os; os.kill(os.getpid(), 9)", {}, "external"),
        ("import os; os.kill(os.getpid(), 6)", {}, None),
        ("print(len(bytearray(1 << 30)))", {}, None),
        (
            "import os, time\nfor _ in range(4):\n  if os.fork() == 0:\n    x = b'x' * (100 << 20); time.sleep(20)\ntime.sleep(20)",
            {"memory": 128 * MIB},
            "memory",
        ),
        (
            "import os, time\nfor _ in range(40):\n  if os.fork() == 0: time.sleep(20)",
            {"pids": 16},
            None,
        ),
        ("open('/tmp/a', 'wb').write(bytes(65 << 20))", {}, None),
        ("import os\nfor n in range(300): os.open('/dev/null', 0)", {}, None),
        ("import os; print(sorted(os.environ), os.getcwd() == os.environ['HOME'])", {}, None),
        ("print(input())", {}, None),
        ("import sys; print(sys.argv, __name__, sys.stdin.read())", {}, None),
    ],
)
async def test_a_warm_run_ends_as_a_cold_one_does(made, code, more, cause):
    cold, warm = made(COLD, **more), made(**more)
    await warm.run_code("python", "pass")
    await warm.warmed()
    taken = warm.waiting[0]
    ended = outcome(await warm.run_code("python", code))
    assert taken not in warm.waiting
    assert ended == outcome(await cold.run_code("python", code))
    assert cold.waiting == ()
    assert ended[3] == cause


async def test_waiting_widens_no_limit(made):
    cold, warm = made(COLD, pids=100), made(pids=100)
    await warm.run_code("python", "pass")
    await warm.warmed()
    code = """
        import resource
        print({name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")})
    """
    waited, expected = [ast.literal_eval(await said(sandbox, code)) for sandbox in (warm, cold)]
    for name, room in (("RLIMIT_NPROC", 64), ("RLIMIT_DATA", MIB)):
        # Beside the host's processes those of the user count, which come and go; in a fork, what was mapped before.
        assert waited.pop(name)[0] == pytest.approx(expected.pop(name)[0], abs=room)
    assert waited == expected


def test_the_room_for_processes_goes_when_a_program_stops_waiting():
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as program:
        resource.prlimit(program.pid, resource.RLIMIT_NPROC, (5000, 5000))
        native._lower_processes(program.pid, 100)
        assert resource.prlimit(program.pid, resource.RLIMIT_NPROC) == (100, 100)
        native._lower_processes(program.pid, 6000)
        assert resource.prlimit(program.pid, resource.RLIMIT_NPROC) == (100, 100)
    native._lower_processes(program.pid, 100)


async def test_what_a_warm_run_used_is_its_own(warm):
    used = (await warm.run_code("python", "x = b'x' * (40 << 20); sum(range(10**6))")).finished.usage
    assert 40 * MIB < used.peak_memory < 90 * MIB
    assert 0 < used.cpu_seconds < 10


@pytest.mark.skipif(sys.prefix.startswith("/tmp/"), reason="mount points below /tmp are listed as files of the program")
async def test_files_of_a_warm_run_come_back(warm):
    png = r"b'\x89PNG\r\n\x1a\n' + b'x' * 8"
    code = f"import os; open('plot.png', 'wb').write({png}); open('{{}}/note', 'w').write(os.environ['MPLBACKEND'])"
    done = await warm.run_code("python", code.replace("{}", "' + os.environ['HOME'] + '"))
    assert [(file.name, file.size, file.mime) for file in done.files] == [
        ("note", 3, None),
        ("plot.png", 16, "image/png"),
    ]
    assert (await warm.run_code("python", "pass")).files == ()


# One run and the next


@pytest.mark.parametrize(
    ("act", "look"),
    [
        ("open('left', 'w').close()", "import os; print(os.listdir())"),
        ("import os; os.mkdir('left')", "import os; print(os.listdir())"),
        ("open('/dev/shm/left', 'w').close()", "import os; print(os.path.exists('/dev/shm/left'))"),
        ("import os; os.environ['LEFT'] = 'x'", "import os; print('LEFT' in os.environ)"),
        ("import json; json.dumps = None", "import json; print(json.dumps({}))"),
        ("import builtins; builtins.print = None", "print('prints')"),
        ("import sys; sys.path.insert(0, '/left')", "import sys; print('/left' in sys.path)"),
        ("import os; os.umask(0o777)", "import os; print(os.umask(0))"),
        ("import os; os.chdir('/')", "import os; print(os.getcwd() == os.environ['HOME'])"),
        ("import signal; signal.signal(15, signal.SIG_IGN)", "import signal; print(signal.getsignal(15))"),
        ("import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (9, 9))", "import resource as r; print(r.getrlimit(r.RLIMIT_NOFILE))"),
        ("import random; random.seed(1)", "import random; random.random(); print(len(set(map(random.random().__eq__, [.1344]))))"),
        ("import os; os.fork() or (os.setsid(), os.fork() or __import__('time').sleep(60))", "print('runs')"),
    ],
)  # fmt: skip
async def test_nothing_of_one_run_reaches_the_next(warm, act, look):
    launcher = launcher_of(warm.waiting[0])
    clean = await said(warm, look)
    await warm.warmed()
    await warm.run_code("python", act)
    assert await said(warm, look) == clean
    await warm.warmed()
    assert gone(below(launcher) - {pid for keeper in warm.waiting for pid in {keeper, *below(keeper)}})


async def test_a_waiting_program_cannot_be_found_or_touched_by_one_that_runs(warm):
    pids = sorted(pid for keeper in warm.waiting[1:] for pid in {keeper, *below(keeper)})
    code = """
        import os, resource, signal
        touched = []
        for pid in PIDS:
            for act in (
                lambda: os.kill(pid, signal.SIGKILL),
                lambda: open(f"/proc/{pid}/mem", "rb"),
                lambda: os.listdir(f"/proc/{pid}/fd"),
                lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3)),
                lambda: os.sched_setaffinity(pid, {0}),
            ):
                try:
                    act()
                except OSError:
                    continue
                touched.append(pid)
        print(touched)
    """
    assert await said(warm, code.replace("PIDS", repr(pids))) == "[]\n"
    assert not any(tree.look(pid) is None for pid in pids)


# Death


@pytest.mark.parametrize("victim", ["program", "keeper", "launcher"])
async def test_a_run_does_not_notice_that_what_waited_was_killed(warm, victim):
    keepers = warm.waiting
    launcher = launcher_of(keepers[0])
    victims = {
        "program": [max(below(keeper)) for keeper in keepers],
        "keeper": keepers,
        "launcher": [launcher],
    }[victim]
    everything = {pid for keeper in keepers for pid in {keeper, *below(keeper)}}
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    assert gone(everything)
    assert await said(warm, "print('alive')") == "alive\n"
    await warm.warmed()
    assert len(warm.waiting) == 2
    assert not everything & {pid for keeper in warm.waiting for pid in {keeper, *below(keeper)}}


async def test_a_cancelled_run_is_killed_and_the_next_one_works(warm):
    taken = warm.waiting[0]
    programs = {taken, *below(taken)}
    running = asyncio.create_task(warm.run_code("python", "while True: pass"))
    await asyncio.sleep(0)
    assert taken not in warm.waiting
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert gone(programs, 1)
    assert await said(warm, "print('next')") == "next\n"


async def test_a_sandbox_that_cannot_start_programs_says_so(warm, monkeypatch):
    launcher = launcher_of(warm.waiting[0])
    everything = below(launcher)
    os.kill(launcher, signal.SIGKILL)
    assert gone(everything)
    with anyio.fail_after(5):
        await warm.zygote._program.ended
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(ToolError) as refused:
        await warm.run_code("python", "pass")
    assert refused.value.code is Code.SANDBOX_UNAVAILABLE


SERVER = """
import asyncio, json, os, sys
from pathlib import Path
from toolbox_mcp.sandbox.backends import native; from toolbox_mcp.sandbox.process import tree
from toolbox_mcp.sandbox.service import Sandbox, SandboxSettings

async def main(runtime, path, state, temp):
    env = {"PATH": path, "LANG": "C.UTF-8"}
    sandbox = Sandbox(SandboxSettings(Path(state), Path(temp), "/nonexistent", env, runtime))
    await sandbox.run_code("python", "pass")
    await sandbox.warmed()
    assert len(sandbox.waiting) == 2
    running = asyncio.create_task(sandbox.run_code("python", "while True: pass"))
    await asyncio.sleep(0)
    assert len(sandbox.waiting) == 1
    print(json.dumps([process.pid for process in tree.descendants(os.getpid())]), flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_what_waits_and_what_runs_dies_with_the_server(settings):
    given = [settings.runtime, settings.env["PATH"], str(settings.state), str(settings.temp)]
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", "-c", SERVER, *given, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    pids = [int(pid) for pid in (await server.stdout.readline()).strip(b"[]\n").split(b",")]
    assert len(pids) > 4
    server.kill()
    await server.wait()
    assert gone(pids)
    for left in settings.temp.iterdir():
        left.rmdir()


async def test_what_runs_dies_with_its_keeper_and_itszygote(warm):
    keeper = warm.waiting[0]
    pids = {keeper, *below(keeper)}
    running = asyncio.create_task(warm.run_code("python", "while True: pass"))
    await asyncio.sleep(0)
    for pid in (launcher_of(keeper), keeper):
        os.kill(pid, signal.SIGKILL)
    assert gone(pids)
    assert (await running).finished.killed_by == "external"
