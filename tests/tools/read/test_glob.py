import pytest

from tests.tables import each_row

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
        ({"pattern": "*.py"}, ["a.py", "inside.py", "src/b.py"]),
        ({"pattern": "./*.py"}, ["a.py", "inside.py"]),
        ({"pattern": "{a,b}.py"}, ["a.py", "src/b.py"]),
        ({"pattern": "c.*", "base": "src"}, ["src/x/c.ts", "src/x/c.tsx"]),
        ({"pattern": ".e*"}, [".env"]),
        (
            {"pattern": "*", "include_hidden": True, "base": "src"},
            ["src/.hidden/d.py", "src/b.py", "src/x/c.ts", "src/x/c.tsx"],
        ),
        ({"pattern": "?env", "include_hidden": True}, [".env"]),
        ({"pattern": "src/*/*.py", "include_hidden": True}, ["src/.hidden/d.py"]),
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


@pytest.fixture
def workflows(project):
    for path in [
        *(f"charts/{n}.yaml" for n in range(10)),
        ".github/lock.yaml",
        ".readthedocs.yaml",
        "src/click/core.py",
        "src/click/Types.PY",
        "node_modules/x/index.js",
        "web/app.mjs",
        "out/made.css",
        "docs/.plan.md",
    ]:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).touch()
    (project / ".gitignore").write_text("out/\n")
    return project


@each_row(
    ("arguments", "near"),
    [
        ({"pattern": "**/*.yml"}, "; **/*.yaml has 12, 2 hidden"),
        ({"pattern": "*.yml"}, "; **/*.yaml has 12, 2 hidden"),
        ({"pattern": "*.yml", "base": ".github"}, "; **/*.yaml has 1"),
        ({"pattern": ".github/*.{yml,json}"}, "; .github/*.yaml has 1, 1 hidden; **/*.yaml has 12, 2 hidden"),
        ({"pattern": "lib/*.py"}, "; **/*.py has 1; **/*.PY has 1"),
        ({"pattern": "*.md"}, "; 1 hidden: include_hidden=true"),
        ({"pattern": "**/*.css"}, "; 1 ignored: include_ignored=true"),
        ({"pattern": "index.js"}, "; 1 ignored: include_ignored=true"),
        ({"pattern": "web/*.js"}, "; web/*.mjs has 1; **/*.mjs has 1"),
        ({"pattern": "croe.py"}, "; similar: src/click/core.py"),
        ({"pattern": "croe.py", "base": "src/click"}, "; similar: src/click/core.py"),
        ({"pattern": "core.py", "base": "web"}, ""),
        ({"pattern": "*.zig"}, ""),
        ({"pattern": "zig"}, ""),
    ],
)
async def test_a_pattern_without_matches_leads_to_what_is_near(call, workflows, arguments, near):
    assert await call("glob", **arguments) == f"no matches for {arguments['pattern']}{near}"


@each_row(
    "near",
    ["**/*.yaml", ".github/*.yaml", "**/*.PY", "web/*.mjs"],
)
async def test_what_is_near_is_found_by_the_next_call(call, workflows, near):
    assert not (await call("glob", pattern=near, include_hidden=True)).startswith("no matches")


async def test_a_look_around_reads_a_bounded_part_of_the_tree(call, project, monkeypatch):
    from toolbox_mcp.tools.read import _nearby

    for n in range(30):
        (project / f"{n:02}.yaml").touch()
    monkeypatch.setattr(_nearby, "MAX_ENTRIES", 20)
    assert await call("glob", pattern="*.yml") == "no matches for *.yml; **/*.yaml has 20+"
