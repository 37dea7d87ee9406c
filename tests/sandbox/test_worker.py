import asyncio
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.sandbox.isolate.worker import Worker, WorkerCrashed, WorkerError, WorkerMemory, WorkerTimeout
from toolbox_mcp.sandbox.process import tree

linux = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and /proc are Linux")


@pytest.fixture
def victims(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import worker_victims

    return worker_victims


@pytest.fixture
async def worker(victims):
    before = set(tree.children(os.getpid()))
    async with asyncio.timeout(60), Worker(memory_mb=256) as worker:
        yield worker
    assert set(tree.children(os.getpid())) <= before


async def gone(pid):
    """Wait until a process is dead."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    dead = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, dead.set)
    try:
        async with asyncio.timeout(10):
            await dead.wait()
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)
    return True


async def test_returns_what_the_function_returns(worker, victims):
    assert await worker.call(victims.echo, 1, b"\0\xff", "é", {"a": (1, None)}, deadline=10) == (
        1,
        b"\0\xff",
        "é",
        {"a": (1, None)},
    )


async def test_megabytes_travel_both_ways(worker, victims):
    data = os.urandom(5 << 20)
    assert (await worker.call(victims.echo, data, deadline=10))[0] == data


async def test_a_tool_error_comes_back_as_it_was(worker, victims):
    with pytest.raises(ToolError) as caught:
        await worker.call(victims.fails_clearly, deadline=10)
    assert (caught.value.code, caught.value.error, caught.value.hint) == (
        Code.BAD_YAML,
        "no alias is defined",
        "define it",
    )


async def test_another_exception_is_described(worker, victims):
    with pytest.raises(WorkerError) as caught:
        await worker.call(victims.fails, deadline=10)
    assert (caught.value.original_class, caught.value.original_message) == ("LookupError", "nothing there")
    assert "in fails" in caught.value.original_backtrace


async def test_an_exception_that_cannot_say_what_it_is_keeps_its_class(worker, victims):
    with pytest.raises(WorkerError) as caught:
        await worker.call(victims.fails_without_words, deadline=10)
    assert caught.value.original_class == "Speechless"


@linux
@pytest.mark.parametrize("name", ["forks", "starts_a_program"])
async def test_the_function_starts_no_process(worker, victims, name):
    with pytest.raises(WorkerError) as caught:
        await worker.call(getattr(victims, name), deadline=10)
    assert caught.value.original_class == "PermissionError"


async def test_the_function_starts_threads(worker, victims):
    assert await worker.call(victims.runs_a_thread, deadline=10) == [1]


@linux
async def test_no_handler_of_core_dumps_hears_of_the_function(worker, victims):
    # At 0, Linux would still start a core_pattern that is a program.
    assert await worker.call(victims.core_limit, deadline=10) == (1, 1)


async def test_a_result_that_cannot_travel_is_a_type_error_of_the_function(worker, victims):
    with pytest.raises(WorkerError, match="TypeError: a value of type object"):
        await worker.call(victims.unsendable, deadline=10)


@pytest.mark.parametrize("name", ["hangs", "spins"])
async def test_a_function_that_does_not_end_is_killed_at_the_deadline(worker, victims, name):
    pid = await worker.call(victims.pid, deadline=10)
    with pytest.raises(WorkerTimeout):
        await worker.call(getattr(victims, name), deadline=0.2)
    assert await gone(pid)
    assert await worker.call(victims.pid, deadline=10) != pid


async def test_memory_beyond_the_limit_is_its_own_failure(worker, victims):
    with pytest.raises(WorkerMemory):
        await worker.call(victims.takes, 300, deadline=10)
    assert await worker.call(victims.takes, 10, deadline=10) == 10 << 20


def script(body):
    """Return the argv of a small interpreter that runs body in a coroutine, w being a worker."""
    program = textwrap.dedent("""
        import asyncio, os, sys
        sys.path.insert(0, sys.argv[1])
        import worker_victims
        from toolbox_mcp.sandbox.process.tree import look
        from toolbox_mcp.sandbox.isolate.worker import Worker, WorkerMemory

        async def main():
            w = Worker(memory_mb=150)
        BODY
        asyncio.run(main())
    """).replace("BODY", textwrap.indent(textwrap.dedent(body), "    "))
    return [sys.executable, "-c", program, str(Path(__file__).parent)]


async def test_an_abort_with_full_memory_is_a_memory_failure():
    # In a small process: what a started program used at most counts from its parent's peak.
    done = await asyncio.create_subprocess_exec(
        *script("""
            try:
                await w.call(worker_victims.crashes_full, deadline=30)
            except WorkerMemory as e:
                print(e)
            await w.aclose()
        """),
        stdout=subprocess.PIPE,
    )
    out, _ = await done.communicate()
    assert out.startswith(b"SIGABRT at 1")


async def test_a_crash_names_the_signal_and_the_next_call_works(worker, victims):
    with pytest.raises(WorkerCrashed, match="SIGSEGV"):
        await worker.call(victims.crashes, deadline=10)
    assert await worker.call(victims.echo, deadline=10) == ()


async def test_an_exit_names_the_status(worker, victims):
    with pytest.raises(WorkerCrashed, match="status 3"):
        await worker.call(victims.exits, 3, deadline=10)


@pytest.mark.parametrize("name", ["lies", "lies_about_size"])
async def test_a_function_that_forges_its_answer_is_a_crash(worker, victims, name):
    with pytest.raises(WorkerCrashed):
        await worker.call(getattr(victims, name), deadline=10)


async def test_an_answer_above_the_limit_is_a_crash(victims):
    async with Worker(max_result=1 << 20) as worker:
        with pytest.raises(WorkerCrashed, match="more than 1048576"):
            await worker.call(victims.answers_with, 2, deadline=10)


async def test_cancelling_kills_the_process(worker, victims):
    pid = await worker.call(victims.pid, deadline=10)
    call = asyncio.create_task(worker.call(victims.hangs, deadline=60))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await gone(pid)


async def test_calls_one_after_the_other_share_a_process(worker, victims):
    assert len({await worker.call(victims.pid, deadline=10) for _ in range(5)}) == 1


async def test_calls_at_once_use_no_more_processes_than_allowed(worker, victims):
    pids = await asyncio.gather(*[worker.call(victims.pid, deadline=10) for _ in range(12)])
    assert len(pids) == 12
    assert len(set(pids)) <= 2


async def test_waiting_for_a_process_does_not_count(victims):
    async with Worker(processes=1) as worker:
        first = asyncio.create_task(worker.call(victims.hangs, deadline=0.5))
        await asyncio.sleep(0)
        assert await worker.call(victims.echo, 1, deadline=0.4) == (1,)
        with pytest.raises(WorkerTimeout):
            await first


async def test_a_process_killed_while_idle_is_replaced(worker, victims):
    pid = await worker.call(victims.pid, deadline=10)
    os.kill(pid, 9)
    assert await gone(pid)
    assert await worker.call(victims.pid, deadline=10) != pid


async def test_closing_ends_running_calls_and_leaves_nothing(victims):
    before = set(os.listdir("/proc/self/fd"))
    worker = Worker()
    pid = await worker.call(victims.pid, deadline=10)
    call = asyncio.create_task(worker.call(victims.hangs, deadline=60))
    await asyncio.sleep(0)
    await worker.aclose()
    with pytest.raises(WorkerCrashed):
        await call
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert set(os.listdir("/proc/self/fd")) == before
    with pytest.raises(WorkerCrashed, match="closed"):
        await worker.call(victims.echo, deadline=10)


def local(): ...


@pytest.mark.parametrize("fn", [lambda: 1, local, "".join], ids=["lambda", "module of a test", "bound method"])
async def test_a_function_that_has_no_importable_name_is_refused(worker, fn, monkeypatch):
    monkeypatch.setattr(local, "__module__", "__main__")
    with pytest.raises(ValueError, match="cannot be imported"):
        await worker.call(fn, deadline=10)


async def test_an_argument_that_cannot_travel_is_refused(worker, victims):
    with pytest.raises(TypeError):
        await worker.call(victims.echo, object(), deadline=10)


@linux
async def test_the_function_writes_no_file(worker, victims, tmp_path):
    with pytest.raises(WorkerError, match="PermissionError"):
        await worker.call(victims.writes, str(tmp_path / "x"), deadline=10)
    assert not (tmp_path / "x").exists()


@linux
async def test_the_function_reads_no_file_outside_python(worker, victims, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("s")
    for path in (secret, "/etc/passwd", f"/proc/{os.getpid()}/environ"):
        with pytest.raises(WorkerError, match="PermissionError"):
            await worker.call(victims.reads, str(path), deadline=10)


@linux
async def test_the_function_connects_to_nothing(worker, victims):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(WorkerError, match="OSError"):
            await worker.call(victims.connects, listener.getsockname()[1], deadline=10)
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        with pytest.raises(WorkerError, match="OSError"):
            await worker.call(victims.sends_a_datagram, listener.getsockname()[1], deadline=10)
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.recv(1)


@linux
async def test_the_function_signals_nobody(worker, victims):
    with pytest.raises(WorkerError, match="PermissionError"):
        await worker.call(victims.signals, os.getpid(), deadline=10)


async def test_the_process_has_none_of_our_environment(worker, victims, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "s")
    environment, folder = await worker.call(victims.environment, deadline=10)
    assert set(environment) <= {"LANG", "LC_CTYPE"}
    assert folder == "/"


@linux
async def test_the_process_has_none_of_our_streams(worker, victims):
    pid = await worker.call(victims.pid, deadline=10)
    assert [os.readlink(f"/proc/{pid}/fd/{n}") for n in range(3)] == ["/dev/null"] * 3
    assert os.getsid(pid) == pid


async def test_the_process_imports_nothing_of_the_server(worker, victims):
    loaded = await worker.call(victims.modules, deadline=10)
    assert not {"mcp", "pydantic", "asyncio", "toolbox_mcp.server", "httpx"} & set(loaded)


@linux
async def test_the_process_dies_with_the_server():
    done = await asyncio.create_subprocess_exec(
        *script("""
            pid = await w.call(worker_victims.pid, deadline=10)
            print(pid, flush=True)
            call = asyncio.create_task(w.call(worker_victims.spins, deadline=60))
            used = look(pid).cpu_seconds
            while look(pid).cpu_seconds < used + 0.1:
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), 9)
        """),
        stdout=subprocess.PIPE,
    )
    out, _ = await done.communicate()
    assert await gone(int(out))
