import os
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux")

SHELL = "/bin/sh"


@pytest.fixture
def places(tmp_path):
    for name in ("root", "other", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"{name}\n")
        program = tmp_path / name / "program"
        program.write_text("#!/bin/sh\necho ran\n")
        program.chmod(0o755)
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    return tmp_path


@pytest.fixture
def reader(places):
    from toolbox_mcp.sandbox.linux.rg_landlock import Reader

    folders = [os.open(places / name, os.O_RDONLY) for name in ("root", "other")]
    reader = Reader(folders, SHELL)
    for fd in folders:
        os.close(fd)
    yield reader
    reader.close()


def outcome(start, script, cwd):
    process = start(
        [SHELL, "-c", script], cwd=cwd, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, _ = process.communicate(timeout=20)
    return out.decode().split()


READ = "read x < {}; echo $x"
ATTEMPTS = {
    "read": READ.format("../outside/file"),
    "read through a link": READ.format("link/file"),
    "list": "set -- ../outside/*; [ -e \"$1\" ] && echo $# || :",
    "run": "../outside/program",
    "run inside": "./program",
    "write inside": "echo x > new && read x < new && echo $x",
    "change inside": "echo x >> file && echo done",
    "write outside": "echo x > ../outside/new && echo done",
    "read accounts": READ.format("/etc/passwd"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTEMPTS)
def test_only_reading_below_the_folders_is_possible(places, reader, name):
    script = ATTEMPTS[name]
    assert outcome(subprocess.Popen, script, places / "root"), "the attempt works without the thread"
    before = sorted(path.name for path in places.rglob("*"))
    assert outcome(reader.start, script, places / "root") == []
    assert sorted(path.name for path in places.rglob("*")) == before


def test_both_folders_are_read_and_nothing_has_to_be_written_to_say_so(places, reader):
    script = f"{READ.format('file')}; {READ.format('../other/file')}; echo x > /dev/null; echo end"
    assert outcome(reader.start, script, places / "root") == ["root", "other", "end"]


def test_the_network_is_not_reached(places):
    from toolbox_mcp.sandbox.linux import landlock
    from toolbox_mcp.sandbox.linux.rg_landlock import Reader

    if landlock.abi() < 4:
        pytest.skip("this Landlock knows no network")
    script = "import socket; socket.create_connection(('127.0.0.1', int({})), 5); print('reached')"
    root = os.open("/", os.O_RDONLY)
    reader = Reader([root], os.path.realpath(sys.executable))
    os.close(root)
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            for start, want in ((subprocess.Popen, b"reached\n"), (reader.start, b"")):
                argv = [sys.executable, "-I", "-c", script.format(port)]
                process = start(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                assert process.communicate(timeout=20)[0] == want
    finally:
        reader.close()


def test_the_process_that_asked_stays_as_it_is(places, reader):
    assert (places / "outside" / "file").read_text() == "outside\n"
    (places / "outside" / "new").write_text("x")
    assert outcome(subprocess.Popen, "read x < ../outside/file; echo $x", places / "root") == ["outside"]


def test_a_program_that_is_not_there_is_told_as_popen_does(places, reader):
    with pytest.raises(FileNotFoundError):
        reader.start([str(places / "nowhere")])


def test_a_file_that_may_be_read_cannot_be_emptied(places):
    from toolbox_mcp.sandbox.linux.rg_landlock import Reader

    script = "import os; os.truncate('file', 1); print('done')"
    root, system = os.open(places / "root", os.O_RDONLY), os.open("/", os.O_RDONLY)
    reader = Reader([root, system], os.path.realpath(sys.executable))
    os.close(root)
    os.close(system)
    try:
        for start, want in ((reader.start, b""), (subprocess.Popen, b"done\n")):
            argv = [os.path.realpath(sys.executable), "-I", "-c", script]
            process = start(argv, cwd=places / "root", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert process.communicate(timeout=20)[0] == want
    finally:
        reader.close()


@pytest.mark.parametrize(("data", "static"), [(b"", False), (b"\x7fELF", False), (b"#!/bin/sh\n" * 9, False)])
def test_what_is_no_elf_file_is_not_static(tmp_path, data, static):
    from toolbox_mcp.sandbox.linux.rg_landlock import is_static

    (tmp_path / "a").write_bytes(data)
    assert is_static(tmp_path / "a") is static
    assert is_static(tmp_path / "missing") is False


def test_programs_with_a_loader_are_told_from_those_without():
    from toolbox_mcp.sandbox.linux.rg_landlock import is_static
    from toolbox_mcp.sandbox.ripgrep import find_ripgrep

    binary = find_ripgrep().binary
    loader = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
    assert is_static(binary) is ("not a dynamic" in loader.stdout + loader.stderr)
    assert is_static(os.path.realpath("/bin/sh")) is False
