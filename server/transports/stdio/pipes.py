"""Bytes in and out of file descriptors of any kind, without a thread where the kernel allows."""

import asyncio
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Final, Protocol

_CHUNK: Final = 256 * 1024


class PipeReader(Protocol):
    """Bytes from a descriptor, pushed to a callback; an empty chunk is the end."""

    def pause(self) -> None:
        """Take no more for the moment; one chunk may still come."""

    def resume(self) -> None:
        """Go on."""

    def close(self) -> None:
        """Stop for good. The descriptor stays open."""


class PipeWriter(Protocol):
    """Bytes to a descriptor. write never blocks and never fails: what is not taken yet counts as backlog."""

    @property
    def backlog(self) -> int:
        """How many bytes still wait."""
        ...

    @property
    def broken(self) -> bool:
        """Whether the reader is gone; what is written from then on is dropped."""
        ...

    def write(self, data: bytes) -> None:
        """Put all of data behind what waits."""

    def close(self) -> None:
        """Stop for good and drop what waits. The descriptor stays open."""


@contextmanager
def take_over_stdio() -> Iterator[tuple[int | None, int | None]]:
    """Take fd 0 and 1 for the wire: yield private duplicates, None for one that was closed from the start.

    From then on fd 0 is the null device and fd 1 is stderr, so that neither print() nor a child can touch the
    wire. They stay so afterwards: what is printed while the process ends must not reach the client either.
    Where stderr is the same pipe or socket as stdout, both become the null device. A number that was closed
    when Python started may belong to anything by this time, the event loop included, and is left alone.
    """
    null = os.open(os.devnull, os.O_RDWR)
    fd_in = _duplicate(0) if sys.__stdin__ is not None else None
    fd_out = _duplicate(1) if sys.__stdout__ is not None else None
    try:
        if fd_in is not None:
            os.dup2(null, 0)
        if fd_out is not None:
            if sys.__stderr__ is not None and _same_wire(fd_out, 2):
                os.dup2(null, 2)
            os.dup2(2 if sys.__stderr__ is not None else null, 1)
        yield fd_in, fd_out
    finally:
        for private in (fd_in, fd_out, null):
            if private is not None:
                os.close(private)


def open_source(fd: int, on_data: Callable[[bytes], None]) -> PipeReader:
    """Return a running source on fd: polled for a pipe or socket, else (file, terminal, device) a thread."""
    return _PolledSource(fd, on_data) if _pollable(fd) else _ThreadSource(fd, on_data)


def open_sink(fd: int, on_change: Callable[[], None]) -> PipeWriter:
    """Return a sink on fd. on_change is called in the loop when backlog left or the reader is gone."""
    return _PolledSink(fd, on_change) if _pollable(fd) else _ThreadSink(fd, on_change)


def _duplicate(fd: int) -> int | None:
    """Duplicate above the standard three, also where one of them is closed; None for a closed fd."""
    low: list[int] = []
    try:
        while (copy := os.dup(fd)) < 3:
            low.append(copy)
        return copy
    except OSError:
        return None
    finally:
        for spare in low:
            os.close(spare)


def _same_wire(one: int, other: int) -> bool:
    try:
        first, second = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    wire = stat.S_ISFIFO(first.st_mode) or stat.S_ISSOCK(first.st_mode)
    return wire and (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _pollable(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))


class _PolledSource:
    def __init__(self, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._on_data = on_data
        self._loop = asyncio.get_running_loop()
        self._was_blocking = os.get_blocking(fd)
        self._reading = False
        self._closed = False
        os.set_blocking(fd, False)
        self.resume()

    def pause(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._fd)
            self._reading = False

    def resume(self) -> None:
        if not self._reading and not self._closed:
            self._loop.add_reader(self._fd, self._read)
            self._reading = True

    def close(self) -> None:
        if not self._closed:
            self.pause()
            self._closed = True
            # The description may be shared with processes that expect it to block.
            os.set_blocking(self._fd, self._was_blocking)

    def _read(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
        self._on_data(chunk)


class _ThreadSource:
    """One chunk at a time: the thread reads the next only after the loop has taken the last."""

    def __init__(self, fd: int, on_data: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._on_data = on_data
        self._loop = asyncio.get_running_loop()
        # The thread has no variables of its own; some of those that are here tell libraries in which loop they run.
        self._context = copy_context()
        self._go = threading.Event()
        self._go.set()
        self._paused = False
        self._closed = False
        threading.Thread(target=self._run, name="stdin", daemon=True).start()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._go.set()

    def close(self) -> None:
        self._closed = True
        self._go.set()

    def _run(self) -> None:
        chunk = b"?"
        while chunk:
            self._go.wait()
            if self._closed:
                return
            try:
                chunk = os.read(self._fd, _CHUNK)
            except OSError:
                chunk = b""
            self._go.clear()
            try:
                self._loop.call_soon_threadsafe(self._take, chunk, context=self._context)
            except RuntimeError:
                return

    def _take(self, chunk: bytes) -> None:
        if self._closed:
            return
        self._on_data(chunk)
        if not self._paused:
            self._go.set()


class _PolledSink:
    def __init__(self, fd: int, on_change: Callable[[], None]) -> None:
        self._fd = fd
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._was_blocking = os.get_blocking(fd)
        self._waiting = bytearray()
        self._writing = False
        self.broken = False
        os.set_blocking(fd, False)

    @property
    def backlog(self) -> int:
        return len(self._waiting)

    def write(self, data: bytes) -> None:
        if self.broken:
            return
        if not self._waiting:
            data = data[self._push(data) :]
            if not data or self.broken:
                return
        self._waiting += data
        if not self._writing:
            self._loop.add_writer(self._fd, self._flush)
            self._writing = True

    def close(self) -> None:
        self._stop_writing()
        self._waiting.clear()
        self.broken = True
        with suppress(OSError):
            os.set_blocking(self._fd, self._was_blocking)

    def _flush(self) -> None:
        del self._waiting[: self._push(self._waiting)]
        if self.broken:
            self._waiting.clear()
        if not self._waiting:
            self._stop_writing()
        self._on_change()

    def _push(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._fd, data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.broken = True
            self._loop.call_soon(self._on_change)
            return 0

    def _stop_writing(self) -> None:
        if self._writing:
            self._loop.remove_writer(self._fd)
            self._writing = False


class _ThreadSink:
    def __init__(self, fd: int, on_change: Callable[[], None]) -> None:
        self._fd = fd
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.backlog = 0
        self.broken = False
        threading.Thread(target=self._run, name="stdout", daemon=True).start()

    def write(self, data: bytes) -> None:
        if not self.broken:
            self.backlog += len(data)
            self._queue.put(data)

    def close(self) -> None:
        self.broken = True
        self._queue.put(None)

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            failed = False
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError:
                failed = True
            try:
                self._loop.call_soon_threadsafe(self._written, len(data), failed, context=self._context)
            except RuntimeError:
                return

    def _written(self, count: int, failed: bool) -> None:
        self.backlog -= count
        self.broken = self.broken or failed
        self._on_change()
