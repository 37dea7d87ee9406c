import os

import pytest


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("new", "Created new/"),
        ("a/b/c", "Created a/b/c/"),
        ("1/2/3/4/5/6/7/8", "Created 1/2/3/4/5/6/7/8/"),
        ("new/", "Created new/"),
        ("there", "there/ already exists"),
        (".", "./ already exists"),
        ("link", "link/ already exists"),
        ("link/below", "Created link/below/"),
        ("~", "Created ~/"),
    ],
)
async def test_makes_a_folder_and_its_parents(call, project, path, text):
    (project / "there").mkdir()
    (project / "link").symlink_to("there")
    assert await call("create_directory", path=path) == text
    assert (project / path).is_dir()
    assert await call("create_directory", path=path) == f"{path.rstrip('/')}/ already exists"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("f", "exists"),
        ("pipe", "exists"),
        ("f/below", "not_a_directory"),
        ("1/2/3/4/5/6/7/8/9", "refused"),
        ("../x", "path_denied"),
        ("../project2/x", "path_denied"),
        ("/tmp/x", "path_denied"),
        ("dangling", "path_denied"),
        ("dangling/x", "path_denied"),
        ("loop", "path_denied"),
        ("loop/x", "path_denied"),
        (".git", "protected_path"),
        (".GIT/hooks", "protected_path"),
        ("a\x00b", "path_denied"),
        ("", "path_denied"),
        ("x" * 300, "path_denied"),
    ],
)
async def test_a_refused_call_makes_nothing(call, project, path, code):
    (project / "f").write_text("x")
    os.mkfifo(project / "pipe")
    (project.parent / "project2").mkdir()
    (project / "dangling").symlink_to("../nowhere")
    (project / "loop").symlink_to("loop")
    before = sorted(project.parent.rglob("*"))
    assert await call.code("create_directory", path=path) == code
    assert sorted(project.parent.rglob("*")) == before
