import asyncio
import errno
import os
import threading
import weakref
from contextlib import suppress
from contextvars import ContextVar
from functools import partial

import anyio
import pytest

from toolbox_mcp.tools import blocking as threads
from toolbox_mcp.tools.blocking import MOST, changing, reading, writing


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


@pytest.mark.parametrize("way", [reading, changing, lambda work: writing(partial(work, None))])
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
            group.start_soon(reading, work)
            await gate.started()
            scope.cancel()
    assert scope.cancelled_caught
    assert not gate.over.is_set()
    gate.go.set()
    assert await anyio.to_thread.run_sync(told.wait, 10)


@pytest.mark.parametrize("way", [writing, changing])
async def test_writing_that_has_begun_ends_before_its_cancelled_call_which_has_its_result(way):
    gate, results = Gate(), []

    async def call():
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            results.append(await way(gate))
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
    task = asyncio.create_task(writing(gate))
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

    def work(turn):
        turn.check()
        loop.call_soon_threadsafe(begun.set)
        assert cancelled.wait(10)
        while True:
            turn.check()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(changing, work)
            await begun.wait()
            scope.cancel()
            cancelled.set()
    assert scope.cancelled_caught


async def test_a_call_that_is_cancelled_already_begins_nothing():
    done = []
    for way in (lambda: writing(lambda: done.append(1)), lambda: reading(lambda _: done.append(1))):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await way()
        assert scope.cancelled_caught
    assert done == []


async def test_so_many_work_at_a_time_and_the_others_wait_or_are_called_off():
    gates = [Gate() for _ in range(MOST + 3)]
    results = []

    async def call(gate, scope):
        with scope:
            results.append(await writing(gate))

    scopes = [anyio.CancelScope() for _ in gates]
    async with anyio.create_task_group() as group:
        for gate, scope in zip(gates, scopes, strict=True):
            group.start_soon(call, gate, scope)
        for gate in gates[:MOST]:
            await gate.started()
        assert not any(gate.begun.is_set() for gate in gates[MOST:])
        scopes[MOST].cancel()
        await anyio.wait_all_tasks_blocked()
        for gate in gates:
            gate.go.set()
    assert results == ["done"] * (MOST + 2)
    assert scopes[MOST].cancelled_caught
    assert not gates[MOST].begun.is_set()


async def test_no_work_sees_the_context_of_a_call():
    held = ContextVar("held", default="nothing")
    held.set("the first call's")
    assert await writing(held.get) == "nothing"
    held.set("the second call's")
    assert await reading(lambda _: held.get()) == "nothing"


def test_the_threads_end_with_their_loop_also_one_that_was_left_behind():
    gate, idle = Gate(), []

    async def main():
        idle.append(await reading(lambda _: threading.current_thread()))
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(reading, gate)
                group.start_soon(reading, lambda _: idle.append(threading.current_thread()))
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


def test_threads_that_nobody_needs_end(monkeypatch):
    async def main():
        gates = [Gate() for _ in range(3)]
        async with anyio.create_task_group() as group:
            for gate in gates:
                group.start_soon(writing, gate)
            for gate in gates:
                await gate.started()
            for gate in gates:
                gate.go.set()
        working = {gate.thread for gate in gates}
        assert len(working) == 3
        monkeypatch.setattr(threads, "IDLE", -1.0)
        with anyio.fail_after(10):
            while sum(thread.is_alive() for thread in working) > 1:
                working.add(await reading(lambda _: threading.current_thread()))
        assert await reading(lambda _: "done") == "done"

    anyio.run(main)


def test_work_waits_where_the_system_has_no_more_threads(monkeypatch):
    def none(worker):
        raise RuntimeError("can't start new thread")

    async def main():
        gate = Gate()
        async with anyio.create_task_group() as group:
            group.start_soon(writing, gate)
            await gate.started()
            monkeypatch.setattr(threads._Worker, "start", none)
            results = []

            async def call():
                results.append(await writing(threading.current_thread))

            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            assert results == []
            gate.go.set()
        assert results == [gate.thread]

    async def alone():
        with pytest.raises(RuntimeError, match="can't start"):
            await writing(lambda: None)

    anyio.run(main)
    anyio.run(alone)


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
        await reading(work)
    assert await anyio.to_thread.run_sync(gone.wait, 10)


@pytest.mark.parametrize("ending", ["returns", "raises", "is given up"])
async def test_what_work_let_go_of_is_closed_when_its_end_is_told(monkeypatch, ending):
    told, cancelled = threading.Event(), threading.Event()
    read, write = os.pipe()
    close, closed = os.close, []

    def later(fd):
        if fd == write:
            assert told.wait(10)
            closed.append(fd)
        close(fd)

    def work(turn):
        turn.let_go(write)
        if ending == "raises":
            raise ValueError
        if ending == "is given up":
            loop.call_soon_threadsafe(call.cancel)
            assert cancelled.wait(10)
            turn.check()

    async def tell():
        with suppress(asyncio.CancelledError, ValueError):
            await call

    monkeypatch.setattr(threads.os, "close", later)
    loop = asyncio.get_running_loop()
    call = asyncio.create_task(changing(work))
    async with anyio.create_task_group() as group:
        group.start_soon(tell)
        await anyio.wait_all_tasks_blocked()
        cancelled.set()
    assert call.cancelled() == (ending == "is given up")
    assert closed == []
    told.set()
    assert await reading(lambda _: os.read(read, 1)) == b""
    close(read)


@pytest.mark.parametrize("why", [None, errno.EIO])
async def test_what_is_left_to_be_synced_is_synced_when_the_end_is_told_and_closed(monkeypatch, why):
    told, done = threading.Event(), []
    read, write = os.pipe()
    close = os.close

    def sync(fd):
        assert told.wait(10)
        done.append(("synced", fd))
        if why:
            raise OSError(why, os.strerror(why))

    def closed(fd):
        if fd == write:
            done.append(("closed", fd))
        close(fd)

    monkeypatch.setattr(threads.os, "fsync", sync)
    monkeypatch.setattr(threads.os, "close", closed)
    await changing(lambda turn: turn.sync(write))
    assert done == []
    told.set()
    assert await reading(lambda _: os.read(read, 1)) == b""
    assert done == [("synced", write), ("closed", write)]
    close(read)


async def test_a_thread_that_closes_what_was_let_go_of_keeps_nobody_waiting(monkeypatch):
    read, write = os.pipe()
    close, go = os.close, threading.Event()
    monkeypatch.setattr(threads.os, "close", lambda fd: (fd != write or go.wait(10), close(fd)))
    await changing(lambda turn: turn.let_go(write))
    assert await writing(lambda: "done") == "done"
    go.set()
    assert await reading(lambda _: os.read(read, 1)) == b""
    close(read)
