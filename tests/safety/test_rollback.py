import os

import pytest

from toolbox_mcp.safety.writes import rollback as putting_back
from toolbox_mcp.safety.writes.file_version import FileVersion
from toolbox_mcp.safety.writes.rollback import Outcome, put_back, remove_again


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def dir_fd(folder):
    fd = os.open(folder, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def put(folder):
    """Return the state of what has come to the name, whose former file has the spare one."""
    (folder / "name").write_text("new")
    # As long as it is open no other file gets its number.
    with (folder / "name").open() as file:
        yield FileVersion.of(os.fstat(file.fileno())).holding(b"new")


@pytest.fixture
def before_renames(monkeypatch):
    """Return what has one thing done before each of the next renames of two names."""

    def prepare(*acts):
        left = list(acts)
        for function in (putting_back.exchange, putting_back.rename_no_replace):

            def renamed(*names, real=function):
                if left:
                    left.pop(0)()
                return real(*names)

            monkeypatch.setattr(putting_back, function.__name__, renamed)

    return prepare


def saves(folder, text):
    def act():
        (folder / "beside").write_text(text)
        os.replace(folder / "beside", folder / "name")

    return act


def holds(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def nothing():
    pass


def test_the_former_file_is_put_back(folder, dir_fd, put):
    (folder / "spare").write_text("old")
    assert put_back(dir_fd, "spare", "name", put) is Outcome.BACK
    assert holds(folder) == {"name": "old"}


def test_the_former_file_is_put_back_where_the_system_cannot_exchange_names(folder, dir_fd, put, monkeypatch):
    (folder / "spare").write_text("old")
    monkeypatch.setattr(putting_back, "exchange", lambda *_: False)
    assert put_back(dir_fd, "spare", "name", put) is Outcome.BACK
    assert holds(folder) == {"name": "old"}


@pytest.mark.parametrize("renames", range(4))
def test_the_latest_of_many_saves_keeps_the_name(folder, dir_fd, put, before_renames, renames):
    (folder / "spare").write_text("old")
    before_renames(*[saves(folder, f"save {number}") for number in range(renames + 1)])
    assert put_back(dir_fd, "spare", "name", put) is Outcome.THEIRS
    assert holds(folder) == {"name": f"save {renames}"}


def test_a_save_before_the_first_look_keeps_the_name(folder, dir_fd, put):
    (folder / "spare").write_text("old")
    saves(folder, "saved")()
    assert put_back(dir_fd, "spare", "name", put) is Outcome.THEIRS
    assert holds(folder) == {"name": "saved"}


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("text", ["new, and more", "wen"])
def test_what_is_written_into_the_new_file_stays(folder, dir_fd, put, before_renames, late, text):
    (folder / "spare").write_text("old")

    def writes():
        status = (folder / "name").stat()
        (folder / "name").write_text(text)
        # As a file system does that counts time in ticks.
        os.utime(folder / "name", ns=(status.st_atime_ns, status.st_mtime_ns))

    if late:
        before_renames(writes)
    else:
        writes()
    assert put_back(dir_fd, "spare", "name", put) is Outcome.MIXED
    assert holds(folder) == {"name": text}


@pytest.mark.parametrize("late", [True, False])
def test_the_former_file_gets_a_name_that_is_free(folder, dir_fd, put, before_renames, late):
    (folder / "spare").write_text("old")
    if late:
        before_renames((folder / "name").unlink)
    else:
        (folder / "name").unlink()
    # The new file may have been renamed, so the former one may be the only one that holds what it holds.
    assert put_back(dir_fd, "spare", "name", put) is Outcome.BACK
    assert holds(folder) == {"name": "old"}


def test_a_name_that_is_free_and_is_taken_again_stays_taken(folder, dir_fd, put, before_renames):
    (folder / "spare").write_text("old")
    (folder / "name").unlink()
    before_renames(saves(folder, "saved"))
    assert put_back(dir_fd, "spare", "name", put) is Outcome.THEIRS
    assert holds(folder) == {"name": "saved"}


def test_a_new_file_that_cannot_be_read_leaves_the_former_one(folder, dir_fd, put, monkeypatch):
    (folder / "spare").write_text("old")

    def no_descriptors(*_, **__):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", no_descriptors)
    with pytest.raises(OSError, match="open files"):
        put_back(dir_fd, "spare", "name", put)
    assert holds(folder) == {"name": "new", "spare": "old"}


def test_a_spare_that_is_elsewhere_is_no_success(folder, dir_fd, put):
    (folder / "name").unlink()
    with pytest.raises(FileNotFoundError):
        put_back(dir_fd, "spare", "name", put)
    saves(folder, "saved")()
    with pytest.raises(FileNotFoundError):
        put_back(dir_fd, "spare", "name", put)
    assert holds(folder) == {"name": "saved"}


def test_somebody_who_never_ends_saving_loses_nothing(folder, dir_fd, put, before_renames):
    (folder / "spare").write_text("old")
    before_renames(*[saves(folder, f"save {number}") for number in range(200)])
    with pytest.raises(OSError, match="busy"):
        put_back(dir_fd, "spare", "name", put)
    assert "save 99" in holds(folder).values()


def test_a_created_file_is_removed_again(folder, dir_fd, put):
    assert remove_again(dir_fd, "spare", "name", put) is Outcome.BACK
    assert holds(folder) == {}


@pytest.mark.parametrize("renames", range(2))
def test_a_save_of_a_created_file_stays(folder, dir_fd, put, before_renames, renames):
    before_renames(*[nothing] * renames, saves(folder, "saved"))
    outcome = remove_again(dir_fd, "spare", "name", put)
    if renames:
        # There was no second rename: what was saved by then would have come after all of it.
        assert (outcome, holds(folder)) == (Outcome.BACK, {})
    else:
        assert (outcome, holds(folder)) == (Outcome.THEIRS, {"name": "saved"})


def test_the_latest_of_two_saves_of_a_created_file_stays(folder, dir_fd, put, before_renames):
    before_renames(saves(folder, "save 1"), saves(folder, "save 2"))
    assert remove_again(dir_fd, "spare", "name", put) is Outcome.THEIRS
    assert holds(folder) == {"name": "save 2"}


def test_what_is_written_into_a_created_file_stays(folder, dir_fd, put):
    (folder / "name").write_text("new, and more")
    assert remove_again(dir_fd, "spare", "name", put) is Outcome.MIXED
    assert holds(folder) == {"name": "new, and more"}


def test_a_created_file_that_is_gone_is_gone(folder, dir_fd, put):
    (folder / "name").unlink()
    assert remove_again(dir_fd, "spare", "name", put) is Outcome.THEIRS


def test_links_are_put_back_too(folder, dir_fd):
    (folder / "spare").symlink_to("old")
    (folder / "name").symlink_to("new")
    assert put_back(dir_fd, "spare", "name", FileVersion.at(dir_fd, "name")) is Outcome.BACK
    assert os.readlink(folder / "name") == "old"
    assert os.listdir(folder) == ["name"]
