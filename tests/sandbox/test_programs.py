import os

import pytest

from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.sandbox.linux.zygote_client import Zygote
from toolbox_mcp.sandbox.programs import Programs, outside_roots


def executable(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_a_path_keeps_no_folder_of_a_root(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "bin").mkdir(parents=True)
    outside.mkdir()
    (tmp_path / "link").symlink_to(root / "bin")
    path = os.pathsep.join(map(str, (root / "bin", "relative", "", outside, tmp_path / "link", "/usr/bin")))
    made = outside_roots({"PATH": path, "A": "b"}, lambda folder: folder.startswith(str(root)))
    assert made == {"PATH": f"{outside}{os.pathsep}/usr/bin", "A": "b"}
    assert outside_roots({"A": "b"}, lambda folder: True) == {"A": "b"}


def test_only_project_tools_get_the_folders_of_a_project(tmp_path):
    pytest_, git = executable(tmp_path / "node_modules/.bin/jest"), executable(tmp_path / "bin/git")
    programs = Programs(str(tmp_path), {"PATH": str(tmp_path / "bin")}, zygote=Zygote())
    found, env = programs.find("jest")
    assert found == pytest_ and env["PATH"].split(os.pathsep) == [
        str(tmp_path / "node_modules/.bin"),
        str(tmp_path / "bin"),
    ]
    found, env = programs.find("git")
    assert found == git and env["PATH"] == str(tmp_path / "bin")


def test_project_folders_can_be_turned_off(tmp_path):
    executable(tmp_path / ".venv/bin/pytest")
    assert Programs(str(tmp_path), {"PATH": ""}, zygote=Zygote()).find("pytest")[0].endswith("pytest")
    for programs in (
        Programs(str(tmp_path), {"PATH": ""}, (), zygote=Zygote()),
        Programs(str(tmp_path), {"PATH": ""}, project_tools=(), zygote=Zygote()),
    ):
        with pytest.raises(ToolError, match="pytest is not installed"):
            programs.find("pytest")


def test_the_search_ends_at_the_base(tmp_path):
    executable(tmp_path / ".venv/bin/pytest")
    base = tmp_path / "base"
    (base / "sub").mkdir(parents=True)
    with pytest.raises(ToolError, match="not installed"):
        Programs(str(base), {"PATH": ""}, zygote=Zygote()).find("pytest", str(base / "sub"))
