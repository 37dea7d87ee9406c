import asyncio
import hashlib
import os
import resource
import sys
from pathlib import Path

import pytest

from toolbox_mcp.server.call.exposure import ExposurePolicy
from toolbox_mcp.tools.settings import ToolSettings


async def test_a_download_is_placed_whole_named_by_its_hash_and_undoable(call, site, here, project):
    data = bytes(range(256)) * 100
    site.page("/a.bin", data, "application/octet-stream")
    answer = await call("download_file", url=f"{here}/a.bin", path="sub/a.bin")
    digest = hashlib.sha256(data).hexdigest()
    assert f"Downloaded {len(data)} bytes from {here}/a.bin to sub/a.bin (sha256 {digest})" in answer
    assert (project / "sub/a.bin").read_bytes() == data
    await call("undo")
    assert not (project / "sub/a.bin").exists()


async def test_a_download_that_fails_leaves_nothing(call, site, here, project):
    (project / "there.txt").write_text("kept")
    (project / "folder").mkdir()
    site.page("/big", b"x" * 3_000_000, "text/plain")
    table = [
        ("/none", "a", {}, "http_error"),
        ("/big", "a", {}, "too_large"),
        ("/big", "folder", {}, "is_a_directory"),
        ("/big", "there.txt", {"overwrite": False}, "exists"),
        ("/big", "../a", {}, "path_denied"),
        ("/big", ".git/config", {}, "protected_path"),
    ]
    wrong = [
        (path, code) for target, path, more, code in table
        if await call.code("download_file", url=here + target, path=path, **more) != code
    ]  # fmt: skip
    assert wrong == []
    assert sorted(each.name for each in project.iterdir()) == ["folder", "there.txt"]
    assert (project / "there.txt").read_text() == "kept"


async def test_downloads_are_for_the_operator_to_enable(call, here):
    call.gate = ExposurePolicy()
    assert await call.code("download_file", url=f"{here}/", path="a") == "exec_disabled"


def drip(pieces, length):
    """Answer with the pieces, and say that there are so many bytes."""

    async def answer(writer):
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n".encode())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return answer


async def test_a_file_above_the_bound_of_pages_is_downloaded_where_the_operator_says_so(call, site, here, project):
    data = bytes(range(256)) * 40_000
    site.page("/large", data, "application/octet-stream")
    call.settings = ToolSettings(max_download_bytes=len(data))
    assert hashlib.sha256(data).hexdigest() in await call("download_file", url=f"{here}/large", path="a")
    assert (project / "a").read_bytes() == data
    site.page("/larger", data + b"x", "application/octet-stream")
    failure = await call("download_file", url=f"{here}/larger", path="b")
    assert failure["code"] == "too_large" and "max_download_bytes" in failure["hint"]
    assert not (project / "b").exists()


async def test_an_empty_file_is_downloaded(call, site, here, project):
    site.page("/empty", b"", "application/octet-stream")
    assert "Downloaded 0 bytes" in await call("download_file", url=f"{here}/empty", path="a")
    assert (project / "a").read_bytes() == b""


async def test_a_body_that_ends_early_replaces_nothing(call, site, here, project):
    (project / "a").write_text("kept")
    site.answers["/short"] = drip([b"x" * 1000], 2000)
    assert await call.code("download_file", url=f"{here}/short", path="a") == "fetch_failed"
    assert [each.name for each in project.iterdir()] == ["a"] and (project / "a").read_text() == "kept"


async def test_where_the_disk_takes_no_more_the_file_is_as_it_was(call, site, here, project):
    (project / "a").write_text("kept")
    site.page("/a", b"x" * 1_500_000, "application/octet-stream")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        code = await call.code("download_file", url=f"{here}/a", path="a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == "refused"
    assert [each.name for each in project.iterdir()] == ["a"] and (project / "a").read_text() == "kept"


async def test_a_cancelled_download_leaves_nothing(call, site, here, project):
    stalled = asyncio.Event()

    async def answer(writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2000\r\nconnection: close\r\n\r\n" + b"x" * 1000)
        await writer.drain()
        stalled.set()
        await asyncio.sleep(60)

    site.answers["/slow"] = answer
    running = asyncio.ensure_future(call("download_file", url=f"{here}/slow", path="a"))
    await stalled.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list(project.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")
async def test_a_large_download_is_not_held_in_memory(call, site, here, project):
    piece = os.urandom(1 << 20)
    count = 200
    site.answers["/huge"] = drip([piece] * count, len(piece) * count)
    call.settings = ToolSettings(max_download_bytes=1 << 30)

    def anonymous():
        status = Path("/proc/self/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) << 10

    before, most = anonymous(), 0

    async def watch():
        nonlocal most
        while True:
            most = max(most, anonymous())
            await asyncio.sleep(0.01)

    watching = asyncio.ensure_future(watch())
    answer = await call("download_file", url=f"{here}/huge", path="a")
    watching.cancel()
    assert f"Downloaded {len(piece) * count} bytes" in answer
    assert (project / "a").stat().st_size == len(piece) * count
    assert most - before < 64 << 20
