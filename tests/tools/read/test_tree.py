import pytest


@pytest.fixture
def folder(project):
    for path in ("src/a/b/c/deep.py", "src/main.py", "zeta/x", "Readme", ".hidden/x", "build/out"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).touch()
    (project / "link").symlink_to("src")
    (project / ".gitignore").write_text("zeta/\n")
    return project


ALL = """project/
  src/
    a/
      b/
    main.py
  Readme
  link@"""


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({}, ALL),
        ({"max_depth": 0}, ALL),
        ({"max_depth": 1}, "project/\n  src/\n  Readme\n  link@"),
        ({"path": "src/a", "max_depth": 9}, "a/\n  b/\n    c/\n      deep.py"),
        ({"path": "link", "max_depth": 1}, "src/\n  a/\n  main.py"),
        ({"path": "build"}, "build/\n  out"),
        (
            {"max_depth": 1, "include_hidden": True},
            "project/\n  .hidden/\n  src/\n  .gitignore\n  Readme\n  link@",
        ),
        ({"max_depth": 1, "include_ignored": True}, "project/\n  build/\n  src/\n  zeta/\n  Readme\n  link@"),
    ],
)
async def test_draws_folders_before_files(call, folder, arguments, answer):
    assert await call("tree", **arguments) == answer


async def test_stops_at_five_hundred_entries(call, project):
    call.tokens = 10**6
    for n in range(501):
        (project / f"{n:03}").touch()
    rows = (await call("tree")).split("\n")
    assert len(rows) == 502
    assert rows[-1] == "... (truncated at 500 entries)"


@pytest.mark.parametrize("path", ["Readme", "missing"])
async def test_what_is_no_folder_is_refused(call, folder, path):
    assert await call.code("tree", path=path) == "not_a_directory"


@pytest.mark.parametrize(
    ("path", "error", "hint"),
    [
        ("sr", "there is no folder sr", "similar: src"),
        ("other/place", "there is no folder other", "tree shows the folders there are"),
        ("Readme", "not a folder: Readme", "name a folder"),
    ],
)
async def test_the_refusal_leads_on(call, folder, path, error, hint):
    assert await call("tree", path=path) == {"error": error, "code": "not_a_directory", "hint": hint}
