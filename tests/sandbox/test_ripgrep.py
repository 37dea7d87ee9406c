import os
import sys
import time

import pytest

from bench import race
from toolbox_mcp.sandbox.ripgrep import find_ripgrep, unconfined

SECRET = "what lies outside"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux exchanges two names in one step")


@pytest.fixture
def scene(tmp_path):
    """A root with enough folders that the walk takes a moment, and what it must not read beside it."""
    root = race.scene(tmp_path)
    (tmp_path / "outside" / "file").write_text(SECRET)
    for n in range(50):
        (root / f"x{n:02}").mkdir()
        (root / f"x{n:02}" / "file").write_text("inside")
    return root


async def search(ripgrep, root, case, until):
    """Search while a folder or file is swapped for a link to its like outside; return (searches, escapes)."""
    _, one, other = race.READS[case]
    fd = os.open(root, os.O_RDONLY)
    searches = escapes = 0
    try:
        with race.swapping(root / one, root / other):
            while not until(escapes):
                arguments = ["--no-ignore", "--hidden", "--fixed-strings", SECRET, "./"]
                async with ripgrep.start(arguments, cwd=fd, timeout=20) as run:
                    found = b"".join([piece async for piece in run.chunks()])
                searches += 1
                escapes += SECRET.encode() in found
    finally:
        os.close(fd)
        await ripgrep.aclose()
    return searches, escapes


@pytest.mark.parametrize("case", ["folder", "leaf"])
async def test_unconfined_a_swap_leads_the_search_outside(scene, case):
    end = time.monotonic() + 60
    _, escapes = await search(find_ripgrep(), scene, case, lambda count: count or time.monotonic() > end)
    assert escapes


@pytest.mark.skipif(unconfined() is not None, reason="nothing here to confine with")
@pytest.mark.parametrize("seconds", [0.4, pytest.param(5, marks=pytest.mark.attack)])
@pytest.mark.parametrize("case", ["folder", "leaf"])
async def test_no_swap_leads_a_confined_search_outside(scene, case, seconds):
    folder = os.open(scene, os.O_RDONLY)
    ripgrep = find_ripgrep([folder])
    end = time.monotonic() + seconds
    searches, escapes = await search(ripgrep, scene, case, lambda count: time.monotonic() > end)
    os.close(folder)
    assert searches > seconds
    assert escapes == 0


@pytest.mark.skipif(unconfined() is not None, reason="nothing here to confine with")
async def test_a_confined_search_finds_what_lies_in_any_of_its_folders(tmp_path):
    folders = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"{name} needle\n")
        folders.append(os.open(tmp_path / name, os.O_RDONLY))
    ripgrep = find_ripgrep(folders)
    for name, fd in zip(("one", "two"), folders, strict=True):
        async with ripgrep.start(["needle", "./"], cwd=fd, timeout=20) as run:
            assert b"".join([piece async for piece in run.chunks()]) == f"./file:{name} needle\n".encode()
            ended = await run.wait()
        assert ended.status == 0
        os.close(fd)
    await ripgrep.aclose()


async def test_where_landlock_fails_it_searches_unconfined_and_the_log_says_so(tmp_path, monkeypatch, caplog):
    from toolbox_mcp.sandbox.linux import landlock

    def refuse(*args, **kwargs):
        raise OSError(7, "Argument list too long")

    monkeypatch.setattr(landlock, "restrict", refuse)
    monkeypatch.setattr(landlock, "abi", lambda: 7)
    (tmp_path / "a").write_text("needle\n")
    fd = os.open(tmp_path, os.O_RDONLY)
    ripgrep = find_ripgrep([fd])
    async with ripgrep.start(["needle", "./"], cwd=fd, timeout=20) as run:
        assert [piece async for piece in run.chunks()] == [b"./a:needle\n"]
    await ripgrep.aclose()
    os.close(fd)
    assert "ripgrep is not confined: Argument list too long" in caplog.text
