"""What describes the package to registries and clients agrees with pyproject.toml, and is as their schemas say."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from toolbox_mcp.server.config.presets import PRESETS

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def manifest(name: str) -> Any:
    return json.loads((PACKAGING / name).read_text())


def test_every_manifest_has_the_version_of_the_package() -> None:
    server = manifest("server.json")
    versions = {
        "server.json": server["version"],
        "server.json, package": server["packages"][0]["version"],
        "plugin.json": manifest("claude-code/.claude-plugin/plugin.json")["version"],
        "gemini-extension.json": manifest("gemini/gemini-extension.json")["version"],
    }
    assert {name: each for name, each in versions.items() if each != PROJECT["version"]} == {}


def test_the_name_in_the_registry_is_the_one_in_the_readme() -> None:
    server = manifest("server.json")
    assert f"<!-- mcp-name: {server['name']} -->" in (ROOT / PROJECT["readme"]).read_text()
    assert server["packages"][0]["identifier"] == PROJECT["name"]
    assert server["packages"][0]["packageArguments"][1]["choices"] == list(PRESETS)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Judge a folder by the registry's published schema and rules, as the linter holds them."""
    argv = [sys.executable, "-m", "skillsaw", "lint", str(folder)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_the_registry_takes_server_json_and_would_not_take_another(tmp_path: Path) -> None:
    server = manifest("server.json")
    breakages: dict[str, Any] = {
        "": {},
        "a long description": {"description": "x" * 101},
        "a name without a namespace": {"name": "toolbox-mcp"},
        "a range of versions": {"version": "^0.1.0"},
        "a package without transport": {"packages": [{"registryType": "pypi", "identifier": "x", "version": "1"}]},
    }
    judged = {}
    for what, change in breakages.items():
        folder = tmp_path / (what or "as it is")
        folder.mkdir()
        (folder / "server.json").write_text(json.dumps(server | change))
        judged[what] = lint(folder).returncode == 0
    assert judged == {what: not what for what in breakages}
