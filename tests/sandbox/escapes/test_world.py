"""The world that attempts run in has no way out, and says so where it has one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.escapes import world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the world is made of Linux namespaces")


@pytest.fixture(params=world.IDENTITIES)
def identity(request):
    if not any(os.access(f"{folder}/bwrap", os.X_OK) for folder in ("/usr/bin", "/usr/local/bin", "/bin")):
        pytest.skip("bubblewrap is not installed")
    return request.param


def test_every_mount_of_the_host_is_read_only_and_stays_so(identity):
    report = world.run(identity)
    assert report["problems"] == []
    shown = {mount["place"]: mount["flags"].split(",")[0] for mount in report["mounts"]}
    assert shown["/usr"] == shown["/etc"] == shown["/"] == "ro"
    assert not {"/work", "/var", "/sys", "/mnt", "/opt", "/boot"} & set(shown)


def test_nothing_is_tried_where_a_folder_of_the_host_is_writable(identity, monkeypatch):
    outer = world.outer
    monkeypatch.setattr(world, "outer", lambda *args: ["--bind" if a == "--ro-bind" else a for a in outer(*args)])
    report = world.run(identity, "none")
    assert any("writable" in problem for problem in report["problems"])
    assert report["rounds"] == {}


def test_nothing_is_tried_where_the_whole_of_the_hosts_root_is_shown(identity, monkeypatch):
    outer = world.outer

    def loose(*args):
        argv = outer(*args)
        place = argv.index("--proc")
        return [*argv[:place], "--ro-bind", "/", "/srv", *argv[place:]]

    monkeypatch.setattr(world, "outer", loose)
    report = world.run(identity, "none")
    assert any("root of a file system of the host" in problem for problem in report["problems"])
    assert report["rounds"] == {}


def test_the_world_of_a_user_is_no_world_for_a_root(identity, monkeypatch):
    monkeypatch.setattr(world, "inner", lambda bwrap: [])
    report = world.run(identity)
    assert bool(report["problems"]) == (identity == "mapped root")


def test_nobody_goes_in_with_a_privilege():
    argv = [sys.executable, "-I", "-S", str(Path(world.__file__).with_name("drop.py")), "0", "/bin/true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if os.geteuid() == 0:
        assert (done.returncode, done.stderr) == (1, "privileges are left\n")
    else:
        assert done.returncode == 0
