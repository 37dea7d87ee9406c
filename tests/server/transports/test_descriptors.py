"""Bytes of files, which the kernel does not poll, pass through a thread each."""

import asyncio
import os
from contextvars import ContextVar

from toolbox_mcp.server.transports.stdio.pipes import open_sink, open_source

MARK = ContextVar("mark", default="of nobody")


async def test_what_a_thread_has_read_is_handed_over_with_the_variables_of_who_opened(tmp_path):
    (tmp_path / "in").write_bytes(b"x")
    heard = asyncio.Queue()
    MARK.set("of the server")
    fd = os.open(tmp_path / "in", os.O_RDONLY)
    source = open_source(fd, lambda chunk: heard.put_nowait((chunk, MARK.get())))
    async with asyncio.timeout(10):
        assert [await heard.get() for _ in range(2)] == [(b"x", "of the server"), (b"", "of the server")]
    source.close()
    os.close(fd)


async def test_what_a_thread_has_written_is_told_with_the_variables_of_who_opened(tmp_path):
    told = asyncio.Queue()
    MARK.set("of the server")
    fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    sink = open_sink(fd, lambda: told.put_nowait(MARK.get()))
    sink.write(b"x")
    async with asyncio.timeout(10):
        assert await told.get() == "of the server"
    assert (tmp_path / "out").read_bytes() == b"x"
    sink.close()
    os.close(fd)
