import pytest

FILES = ["a.py", "src/b.py", "src/x/c.ts", "src/x/c.tsx", ".env", "src/.hidden/d.py", "node_modules/e.py", "out/f.py"]


@pytest.fixture
def folder(project):
    for path in FILES:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).touch()
    (project / ".gitignore").write_text("out/\n")
    (project.parent / "secret.py").touch()
    (project / "inside.py").symlink_to("a.py")
    (project / "outside.py").symlink_to("../secret.py")
    (project / "dangling.py").symlink_to("nowhere")
    (project / "linked").symlink_to("src")
    return project


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"pattern": "*.py"}, ["a.py", "inside.py"]),
        ({"pattern": "**/*.py"}, ["a.py", "inside.py", "src/b.py"]),
        ({"pattern": "**/*.{ts,tsx}"}, ["src/x/c.ts", "src/x/c.tsx"]),
        ({"pattern": "./src/*.py"}, ["src/b.py"]),
        ({"pattern": "**/c.ts?"}, ["src/x/c.tsx"]),
        ({"pattern": "**/[!a].py"}, ["src/b.py"]),
        ({"pattern": ".*"}, [".env", ".gitignore"]),
        ({"pattern": "src/.hidden/*"}, ["src/.hidden/d.py"]),
        ({"pattern": "*.py", "base": "src"}, ["src/b.py"]),
        ({"pattern": "*.py", "base": "node_modules"}, ["node_modules/e.py"]),
        ({"pattern": "*/?.py", "include_ignored": True}, ["node_modules/e.py", "out/f.py", "src/b.py"]),
        ({"pattern": "**"}, ["a.py", "inside.py", "src/b.py", "src/x/c.ts", "src/x/c.tsx"]),
        ({"pattern": "*.rs"}, ["no matches for *.rs"]),
        ({"pattern": "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"}, ["no matches for *a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"]),
    ],
)
async def test_finds_files_by_path(call, folder, arguments, paths):
    assert (await call("glob", **arguments)).split("\n") == paths


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"pattern": "../*"}, "path_denied"),
        ({"pattern": "/etc/*"}, "path_denied"),
        ({"pattern": "a/../b"}, "path_denied"),
        ({"pattern": "{a,..}/b"}, "path_denied"),
        ({"pattern": "{a,/etc}/*"}, "path_denied"),
        ({"pattern": "../{a"}, "path_denied"),
        ({"pattern": ""}, "bad_pattern"),
        ({"pattern": "[a"}, "bad_pattern"),
        ({"pattern": "{a"}, "bad_pattern"),
        ({"pattern": "{a,b}" * 20}, "bad_pattern"),
        ({"pattern": "*", "base": "a.py"}, "not_a_directory"),
        ({"pattern": "*", "base": "missing"}, "not_a_directory"),
        ({"pattern": "*", "base": ".."}, "path_denied"),
    ],
)
async def test_refuses_what_leaves_the_root_or_is_no_glob(call, folder, arguments, code):
    assert await call.code("glob", **arguments) == code


async def test_stops_at_a_thousand_hits(call, project):
    call.tokens = 10**6
    for n in range(1001):
        (project / f"{n:04}").touch()
    rows = (await call("glob", pattern="*")).split("\n")
    assert rows[-2:] == ["0999", "... (truncated at 1000 matches)"]
