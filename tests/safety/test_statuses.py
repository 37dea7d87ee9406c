import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from toolbox_mcp.safety.path_jail import statuses
from toolbox_mcp.safety.path_jail.statuses import MOST, Lookup

ODD = ["a b", "é", "名前", "a\nb", "\udcff", "x" * 255]


def refused(*given: object) -> int:
    """Answer as a seccomp filter does that does not know the call."""
    return -1


@pytest.fixture(params=["statx", "refused", "missing"])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    engine: dict[str, Callable[..., int] | None] = {"statx": statuses._statx(), "refused": refused, "missing": None}
    monkeypatch.setattr(statuses, "_statx", lambda: engine[request.param])
    return str(request.param)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def sizes(fd: int) -> Callable[[Sequence[str]], Sequence[int]]:
    """Return what looks up the sizes of files, which have to be files."""

    def look(names: Sequence[str]) -> Sequence[int]:
        modes, sizes = Lookup(MOST)(fd, names)
        assert all(map(stat.S_ISREG, modes)) and len(modes) == len(names)
        return sizes

    return look


def test_tells_the_bytes_of_each_file_in_the_order_of_the_names(calls: str, tmp_path: Path, fd: int, sizes) -> None:
    names = [*ODD, *(f"{n}" for n in range(MOST - len(ODD)))]
    for n, name in enumerate(names):
        (tmp_path / name).write_bytes(b"x" * n)
    assert sizes(names) == [*range(MOST)]
    assert sizes(names[::-1]) == [*range(MOST)][::-1]
    assert sizes([]) == []
    look = Lookup(MOST)
    assert [look(fd, names[at : at + 6])[1] for at in (3, 0)] == [[3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 4, 5]]


def test_a_size_may_be_above_four_gigabytes(calls: str, tmp_path: Path, sizes) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 5 << 30)
    assert sizes(["large"]) == [5 << 30]


@pytest.mark.parametrize("count", [1, MOST])
def test_tells_what_an_entry_is_and_follows_no_link(calls: str, tmp_path: Path, fd: int, count: int) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    modes, _ = Lookup(count)(fd, ["file", "folder", "link", "pipe"])
    assert [*map(stat.S_IFMT, modes)] == [stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO]
    modes, sizes = Lookup(count)(fd, ["file", "gone", "folder", "file"])
    assert [*map(stat.S_IFMT, modes)] == [stat.S_IFREG, 0, stat.S_IFDIR, stat.S_IFREG]
    assert (sizes[0], sizes[3]) == (5, 5)


def test_names_are_looked_up_in_that_folder_only(calls: str, tmp_path: Path, fd: int, monkeypatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_bytes(b"12345")
    monkeypatch.chdir(other)
    assert Lookup(MOST)(fd, ["file"]) == ([0], [0])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the call")
def test_many_are_looked_up_without_a_result_for_each(tmp_path: Path, sizes, monkeypatch) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    monkeypatch.setattr(os, "lstat", None)
    assert sizes(["file"] * MOST) == [5] * MOST
