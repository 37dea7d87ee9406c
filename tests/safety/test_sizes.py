import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolbox_mcp.safety import sizes
from toolbox_mcp.safety.sizes import MOST, Sizes

ODD = ["a b", "é", "名前", "a\nb", "\udcff", "x" * 255]


def refused(*given: object) -> int:
    """Answer as a seccomp filter does that does not know the call."""
    return -1


@pytest.fixture(params=["statx", "refused", "missing"])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    engine: dict[str, Callable[..., int] | None] = {"statx": sizes._statx(), "refused": refused, "missing": None}
    monkeypatch.setattr(sizes, "_statx", lambda: engine[request.param])
    return str(request.param)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def test_tells_the_bytes_of_each_file_in_the_order_of_the_names(calls: str, tmp_path: Path, fd: int) -> None:
    names = [*ODD, *(f"{n}" for n in range(MOST - len(ODD)))]
    for n, name in enumerate(names):
        (tmp_path / name).write_bytes(b"x" * n)
    look = Sizes(MOST)
    assert look(fd, names) == [*range(MOST)]
    assert look(fd, names[::-1]) == [*range(MOST)][::-1]
    assert look(fd, names[3:9]) == [3, 4, 5, 6, 7, 8]
    assert look(fd, []) == []


def test_a_size_may_be_above_four_gigabytes(calls: str, tmp_path: Path, fd: int) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 5 << 30)
    assert Sizes(MOST)(fd, ["large"]) == [5 << 30]


@pytest.mark.parametrize("count", [1, MOST])
def test_what_is_no_file_has_no_size(calls: str, tmp_path: Path, fd: int, count: int) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "link", "pipe", "gone"):
        assert Sizes(count)(fd, ["file", name, "file"]) == [5, None, 5]


def test_names_are_looked_up_in_that_folder_only(calls: str, tmp_path: Path, fd: int, monkeypatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_bytes(b"12345")
    monkeypatch.chdir(other)
    assert Sizes(MOST)(fd, ["file"]) == [None]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the call")
def test_many_are_looked_up_without_a_result_for_each(tmp_path: Path, fd: int, monkeypatch) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    monkeypatch.setattr(os, "lstat", None)
    assert Sizes(MOST)(fd, ["file"] * MOST) == [5] * MOST
