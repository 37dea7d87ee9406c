import asyncio
import threading
import weakref
from contextlib import suppress

import anyio
import pytest

from toolbox_mcp.tools.blocking import check_cancelled, run_read, run_write


class Gate:
    """Work that says it has begun, and goes on when it is told to."""

    def __init__(self):
        self.begun = threading.Event()
        self.go = threading.Event()
        self.over = threading.Event()
        self.thread = None

    def __call__(self, *_):
        self.thread = threading.current_thread()
        self.begun.set()
        assert self.go.wait(10)
        self.over.set()
        return "done"

    async def started(self):
        with anyio.fail_after(10):
            assert await anyio.to_thread.run_sync(self.begun.wait, 10)


def fails(error):
    raise error


@pytest.mark.parametrize("way", [run_read, run_write])
async def test_what_work_returns_or_raises_comes_back(way):
    assert await way(lambda _: threading.current_thread()) is not threading.current_thread()
    error = KeyError("why")
    with pytest.raises(KeyError) as caught:
        await way(lambda _: fails(error))
    assert caught.value is error
    with pytest.raises(RuntimeError, match="StopIteration"):
        await way(lambda _: fails(StopIteration()))
    with pytest.raises(SystemExit):
        await way(lambda _: fails(SystemExit()))
    assert await way(lambda _: 2) == 2


async def test_a_cancelled_reading_is_left_behind_and_told():
    gate, told = Gate(), threading.Event()

    def work(stopped):
        assert not stopped()
        gate()
        assert stopped()
        told.set()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(run_read, work)
            await gate.started()
            scope.cancel()
    assert scope.cancelled_caught
    assert not gate.over.is_set()
    gate.go.set()
    assert await anyio.to_thread.run_sync(told.wait, 10)


async def test_writing_that_has_started_ends_before_its_cancelled_call_which_has_its_result():
    gate, results = Gate(), []

    async def call():
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            results.append(await run_write(gate))
            results.append(gate.over.is_set())
        results.append(scope.cancelled_caught)
        ended.set()

    scopes, ended = [], anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await gate.started()
        scopes[0].cancel()
        await anyio.wait_all_tasks_blocked()
        assert not ended.is_set()
        gate.go.set()
    assert results == ["done", True, False]


async def test_writing_of_a_task_that_is_cancelled_from_outside_ends_before_the_task():
    gate = Gate()
    task = asyncio.create_task(run_write(gate))
    await gate.started()
    task.cancel()
    await anyio.wait_all_tasks_blocked()
    assert not task.done()
    gate.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.over.is_set()


async def test_work_that_gives_up_ends_its_call_as_cancelled():
    begun, cancelled = anyio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(cancelled_yet):
        check_cancelled(cancelled_yet)
        loop.call_soon_threadsafe(begun.set)
        assert cancelled.wait(10)
        while True:
            check_cancelled(cancelled_yet)

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(run_write, work)
            await begun.wait()
            scope.cancel()
            cancelled.set()
    assert scope.cancelled_caught


async def test_a_call_that_is_cancelled_already_begins_nothing():
    done = []
    for way in (lambda: run_write(lambda _: done.append(1)), lambda: run_read(lambda _: done.append(1))):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await way()
        assert scope.cancelled_caught
    assert done == []


def test_the_threads_end_with_their_loop_also_one_that_was_left_behind():
    gate, idle = Gate(), []

    async def main():
        idle.append(await run_read(lambda _: threading.current_thread()))
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(run_read, gate)
                group.start_soon(run_read, lambda _: idle.append(threading.current_thread()))
                await gate.started()
                scope.cancel()

    anyio.run(main)
    for thread in idle:
        if thread is not gate.thread:
            thread.join(10)
            assert not thread.is_alive()
    assert gate.thread.is_alive()
    gate.go.set()
    gate.thread.join(10)
    assert not gate.thread.is_alive()


@pytest.mark.parametrize("ending", ["returns", "raises"])
async def test_an_idle_thread_holds_nothing(ending):
    class Large(Exception):
        def __init__(self):
            weakref.finalize(self, gone.set)

    gone = threading.Event()

    def work(_):
        if ending == "raises":
            raise Large
        return Large()

    with suppress(Large):
        await run_read(work)
    assert await anyio.to_thread.run_sync(gone.wait, 10)
