"""The runner: what a program wrote, how it ended, and that nothing of it is left."""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.linux.zygote_client import Zygote
from toolbox_mcp.sandbox.process import tree
from toolbox_mcp.sandbox.process.capture import Capture
from toolbox_mcp.sandbox.process.runner import Limits
from toolbox_mcp.sandbox.process.runner import run as supervised
from toolbox_mcp.sandbox.process.spawn import Rlimits

ENV = {"PATH": os.environ["PATH"]}

# Every process holds the pipe open at descriptor 9, and says on it when it is there.
SHAPES = {
    "child": "echo . >&9; sleep 300",
    "background grandchild": "(echo . >&9; exec sleep 300) & echo . >&9; $1",
    "setsid grandchild": 'setsid sh -c "echo . >&9; exec sleep 300" & echo . >&9; $1',
    "daemon by double fork": '(setsid sh -c "(echo . >&9; exec sleep 300) &" &) ; echo . >&9; $1',
    "daemon without its environment": '(setsid env -i sh -c "(echo . >&9; exec sleep 300) &" &) ; echo . >&9; $1',
    "ignores SIGTERM": "trap '' TERM HUP INT; echo . >&9; sleep 300; sleep 300",
}
COUNT = {"child": 1, "ignores SIGTERM": 1}


@pytest.fixture
def pipe():
    r, w = os.pipe()
    yield r, w
    for fd in (r, w):
        with contextlib.suppress(OSError):
            os.close(fd)


def shape(name: str, w: int, then: str = "sleep 300") -> list[str]:
    return ["sh", "-c", f"exec 9>/proc/{os.getpid()}/fd/{w}; " + SHAPES[name], "sh", then]


async def run(*argv, **options):
    async with contextlib.aclosing(Zygote()) as zygote:
        return await supervised(zygote, *argv, **options)


async def arrived(r: int, name: str) -> None:
    """Wait until each process of the shape has said that it is there."""
    seen = 0
    with anyio.fail_after(10):
        while seen < 2 * COUNT.get(name, 2):
            await anyio.wait_readable(r)
            seen += len(os.read(r, 100))


async def nobody_holds(r: int, w: int) -> None:
    """Wait for the end of the pipe, which comes when no process holds it any more."""
    os.close(w)
    with anyio.fail_after(1):
        while True:
            await anyio.wait_readable(r)
            if not os.read(r, 100):
                return


@pytest.mark.parametrize("name", SHAPES)
async def test_no_process_survives_a_timeout(name, pipe):
    r, w = pipe
    done = await run(shape(name, w), cwd="/", env=ENV, timeout=0.4)
    await nobody_holds(r, w)
    assert (done.exit_code, done.timed_out, done.killed_by) == (124, True, "wall")


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("how", ["anyio", "asyncio"])
async def test_no_process_survives_a_cancellation(name, how, pipe):
    r, w = pipe

    async def call():
        await run(shape(name, w), cwd="/", env=ENV, timeout=60)

    if how == "anyio":
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await arrived(r, name)
            group.cancel_scope.cancel()
    else:
        task = asyncio.create_task(call())
        await arrived(r, name)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await nobody_holds(r, w)


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in COUNT])
async def test_no_process_survives_the_normal_end(name, pipe):
    r, w = pipe
    done = await run(shape(name, w, "exit 7"), cwd="/", env=ENV, timeout=60)
    await nobody_holds(r, w)
    assert (done.exit_code, done.killed_by) == (7, None)


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in COUNT])
async def test_the_shapes_do_survive_where_only_the_leader_is_killed(name, pipe):
    r, w = pipe
    plain = subprocess.Popen(shape(name, w), start_new_session=True)  # noqa: ASYNC220
    await arrived(r, name)
    plain.kill()
    plain.wait()
    os.set_blocking(r, False)
    os.close(w)
    with pytest.raises(BlockingIOError):
        os.read(r, 1)
    for fd in Path("/proc").glob("[0-9]*/fd/9"):
        with contextlib.suppress(OSError):
            if os.path.samestat(fd.stat(), os.fstat(r)):
                os.kill(int(fd.parts[2]), signal.SIGKILL)
    with anyio.fail_after(2):
        await anyio.wait_readable(r)
    assert os.read(r, 1) == b""


async def test_an_orphan_that_holds_the_pipe_does_not_hold_the_call():
    with anyio.fail_after(5):
        done = await run(["sh", "-c", "sleep 300 & echo done"], cwd="/", env=ENV, timeout=60)
    assert done.stdout.text == "done\n"


async def test_the_last_words_of_a_background_writer_are_kept():
    line = "exec 3>&1; (sleep 0.02; echo late >&3) & echo early"
    done = await run(["sh", "-c", line], cwd="/", env=ENV, timeout=60)
    assert done.stdout.text == "early\nlate\n"


async def test_returns_what_the_program_wrote_and_how_it_ended():
    line = 'cat; echo oops >&2; echo "$A"; pwd; exit 3'
    done = await run(["sh", "-c", line], cwd="/usr", env=ENV | {"A": "b"}, timeout=60, stdin=b"fed\n")
    assert (done.exit_code, done.signal, done.timed_out, done.killed_by) == (3, None, False, None)
    assert (done.stdout.text, done.stdout.bytes, done.stdout.truncated) == ("fed\nb\n/usr\n", 11, False)
    assert done.stderr.text == "oops\n"


@pytest.mark.parametrize(
    ("line", "code", "name", "cause"),
    [
        ("kill -TERM $$", 143, "SIGTERM", None),
        ("kill -KILL $$", 137, "SIGKILL", "external"),
        ("kill -XCPU $$", 152, "SIGXCPU", "cpu"),
        ("kill -SYS $$", 159, "SIGSYS", "syscall"),
        ("kill -XFSZ $$", 153, "SIGXFSZ", "disk"),
        ("exit 255", 255, None, None),
        ("exit 137", 137, None, None),
    ],
)
async def test_the_cause_of_death_is_named(line, code, name, cause):
    done = await run(["sh", "-c", line], cwd="/", env=ENV, timeout=60)
    assert (done.exit_code, done.signal, done.killed_by) == (code, name, cause)


async def test_the_kernel_limits_hold_for_the_first_child_too():
    python = [sys.executable, "-c", "print('A', flush=True); bytearray(400 << 20); print('B')"]
    limits = Limits(rlimits=Rlimits(data=200 << 20))
    free = await run(python, cwd="/", env=ENV, timeout=60)
    held = await run(python, cwd="/", env=ENV, timeout=60, limits=limits)
    assert free.stdout.text == "A\nB\n"
    assert held.stdout.text == "A\n"
    assert "MemoryError" in held.stderr.text


async def test_cpu_time_is_limited():
    done = await run(
        ["sh", "-c", "while :; do :; done"], cwd="/", env=ENV, timeout=60, limits=Limits(rlimits=Rlimits(cpu=1))
    )
    assert done.killed_by == "cpu"


async def test_memory_spread_over_a_tree_is_limited():
    one = "a = bytearray(120 << 20); print(len(a), flush=True); import time; time.sleep(300)"
    line = f'for i in 1 2 3; do "{sys.executable}" -c "{one}" & done; wait'
    done = await run(["sh", "-c", line], cwd="/", env=ENV, timeout=60, limits=Limits(memory=250 << 20))
    assert (done.killed_by, done.signal) == ("memory", "SIGKILL")


async def test_the_number_of_processes_is_limited():
    line = "for i in 1 2 3 4 5 6 7 8 9; do sleep 300 & done; wait"
    done = await run(["sh", "-c", line], cwd="/", env=ENV, timeout=60, limits=Limits(processes=5))
    assert done.killed_by == "pids"


async def test_a_writer_without_end_is_stopped_at_the_output_limit():
    done = await run(["yes"], cwd="/", env=ENV, timeout=60, limits=Limits(output=1 << 20))
    assert done.killed_by == "output"
    assert done.stdout.bytes >= 1 << 20


async def test_head_and_tail_of_a_long_output_are_kept():
    done = await run(["seq", "200000"], cwd="/", env=ENV, timeout=60, capture=Capture(head=4, tail=7))
    assert done.stdout.text == "1\n2\n... [1288884 bytes dropped] ...\n200000\n"
    assert (done.stdout.bytes, done.stdout.truncated, done.stdout.raw) == (1288895, True, b"1\n2\n200000\n")


async def test_terminal_sequences_and_control_bytes_are_removed():
    done = await run(["printf", r"\033[31mred\033[0m\000\007 \342\200\256x\377"], cwd="/", env=ENV, timeout=60)
    assert done.stdout.text == "red x\ufffd"


async def test_input_that_nobody_reads_is_no_error():
    done = await run(["true"], cwd="/", env=ENV, timeout=60, stdin=b"x" * (4 << 20))
    assert done.exit_code == 0


async def test_much_input_and_much_output_pass_each_other():
    data = bytes(range(256)) * 20_000
    done = await run(["cat"], cwd="/", env=ENV, timeout=60, stdin=data, capture=Capture(head=len(data), tail=0))
    assert done.stdout.raw == data


async def test_without_input_a_reader_sees_the_end():
    done = await run(["cat"], cwd="/", env=ENV, timeout=60)
    assert (done.exit_code, done.stdout.text) == (0, "")


async def test_a_program_that_closes_its_output_runs_on_to_its_end():
    done = await run(["sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 4"], cwd="/", env=ENV, timeout=60)
    assert done.exit_code == 4


async def test_the_folder_may_be_a_descriptor(tmp_path: Path):
    (tmp_path / "here").touch()
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    os.rename(tmp_path, tmp_path.with_name("elsewhere"))
    done = await run(["ls"], cwd=fd, env=ENV, timeout=60)
    os.close(fd)
    assert done.stdout.text == "here\n"


@pytest.mark.parametrize("limits", [None, Limits(rlimits=Rlimits(cpu=60))])
async def test_a_missing_program_is_unavailable(limits):
    with pytest.raises(ToolError) as caught:
        await run(["no-such-program"], cwd="/", env=ENV, timeout=60, limits=limits)
    assert (caught.value.code, caught.value.error) == (Code.UNAVAILABLE, "no-such-program is not installed")


@pytest.mark.parametrize(
    ("argv", "cwd", "code"),
    [
        (["true"], "/no-such-folder", Code.NOT_A_DIRECTORY),
        (["/etc/passwd"], "/", Code.UNAVAILABLE),
        (["echo", "x" * (4 << 20)], "/", Code.TOO_LARGE),
        (["echo", "a\0b"], "/", Code.INVALID_ARGS),
    ],
)
async def test_what_cannot_start_is_an_error_with_a_code(argv, cwd, code):
    with pytest.raises(ToolError) as caught:
        await run(argv, cwd=cwd, env=ENV, timeout=60)
    assert caught.value.code == code


async def test_other_tasks_run_while_a_program_floods_its_output():
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    done = await run(["head", "-c", "67108864", "/dev/zero"], cwd="/", env=ENV, timeout=60)
    counting.cancel()
    assert done.stdout.bytes == 64 << 20
    assert turns > 500


async def test_runs_leave_no_descriptor_and_no_child():
    await run(["true"], cwd="/", env=ENV, timeout=60)
    before = len(os.listdir("/proc/self/fd")), tree.children(os.getpid())
    for _ in range(20):
        await run(["sh", "-c", "cat; echo x >&2"], cwd="/", env=ENV, timeout=60, stdin=b"y")
        with contextlib.suppress(ToolError):
            await run(["no-such-program"], cwd="/", env=ENV, timeout=60)
    assert (len(os.listdir("/proc/self/fd")), tree.children(os.getpid())) == before


# Its first thread is gone, so /proc shows a dead process without memory, environment and command line.
HEADLESS = """
import ctypes, os, sys, threading, time
def stay():
    while ") Z " not in open(f"/proc/{os.getpid()}/stat").read():
        time.sleep(0.01)
    held = b"x" * (int(sys.argv[1]) << 20)
    os.write(out, b".")
    time.sleep(60)
out = os.open(sys.argv[2], os.O_WRONLY)
def behead():
    threading.Thread(target=stay).start()
    ctypes.CDLL(None).syscall(93 if os.uname().machine == "aarch64" else 60, 0)
"""


def headless(then, size, w):
    return [sys.executable, "-I", "-S", "-c", HEADLESS + then, str(size), f"/proc/{os.getpid()}/fd/{w}"]


@pytest.mark.skipif(sys.platform != "linux", reason="a process without its first thread is of Linux")
async def test_a_program_without_its_first_thread_is_collected(pipe):
    r, w = pipe
    before = tree.children(os.getpid())
    # The kernel takes longer to free so much than the runner to look whether it has.
    running = asyncio.create_task(run(headless("behead()", 512, w), cwd="/", env=ENV, timeout=60))
    with anyio.fail_after(20):
        await anyio.wait_readable(r)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert tree.children(os.getpid()) == before


@pytest.mark.skipif(sys.platform != "linux", reason="a process without its first thread is of Linux")
async def test_memory_behind_an_ended_first_thread_counts():
    limits = Limits(memory=64 << 20)
    null = os.open(os.devnull, os.O_WRONLY)
    done = await run(headless("behead()", 128, null), cwd="/", env=ENV, timeout=20, limits=limits)
    assert done.killed_by == "memory"
    several = "[os.fork() or behead() for _ in range(4)]; time.sleep(60)"
    done = await run(headless(several, 24, null), cwd="/", env=ENV, timeout=20, limits=limits)
    os.close(null)
    assert done.killed_by == "memory"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a process without its first thread is of Linux")
@pytest.mark.parametrize(
    "then",
    [
        "os.fork() or behead()\ntime.sleep(60)",
        "os.fork() or (os.setsid(), os.fork() or behead(), os._exit(0))\ntime.sleep(60)",
    ],
)
async def test_no_process_survives_without_its_first_thread(then, pipe):
    r, w = pipe
    done = await run(headless(then, 1, w), cwd="/", env=ENV, timeout=2)
    assert os.read(r, 10) == b"."
    await nobody_holds(r, w)
    assert done.killed_by == "wall"


async def test_inherited_descriptors_do_not_reach_the_program(pipe):
    r, _ = pipe
    os.set_inheritable(r, True)
    done = await run(["ls", "/proc/self/fd"], cwd="/", env=ENV, timeout=60)
    assert done.stdout.text == "0\n1\n2\n3\n"  # 3 is the listed folder


async def test_a_program_is_watched_to_its_end_where_no_descriptor_is_left_for_that(monkeypatch, tmp_path):
    def refuse(pid):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    done = await run(["sh", "-c", "echo out; exit 3"], cwd=tmp_path, env=ENV, timeout=20)
    assert (done.stdout.text, done.exit_code) == ("out\n", 3)
