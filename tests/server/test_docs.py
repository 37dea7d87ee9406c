"""The generated files are fresh, and the examples are usable as they stand."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from docs import GENERATED, main
from toolbox_mcp.server.commands.install import CLIENTS
from toolbox_mcp.server.config.flags import flag_names, read_flags
from toolbox_mcp.server.config.presets import PRESETS
from toolbox_mcp.server.config.settings import table
from toolbox_mcp.tools.catalogue import load_tools

TOOLS = load_tools()

REPOSITORY = Path(__file__).parents[2]
OPTIONS = {"--print", "--remove", "--yes", "--check", "--example"}
"""Of install and config."""
REGENERATE = "run `python scripts/docs.py` in the repository"


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_file_is_fresh(name):
    assert (REPOSITORY / name).read_text(encoding="utf-8") == GENERATED[name](), REGENERATE


def test_check_names_what_is_not_fresh_and_changes_nothing(tmp_path, capsys):
    assert main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [f"{name} is not fresh" for name in GENERATED]
    assert list(tmp_path.iterdir()) == []
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0


def example() -> str:
    return (REPOSITORY / "toolbox.example.yaml").read_text(encoding="utf-8")


def test_the_example_loads_as_it_stands(user):
    user.write_settings(example())
    config = user.load()
    assert set(config.sources.values()) == {"default"}


def test_the_example_without_comment_signs_gives_the_defaults(user):
    plain = user.load()
    taken = re.sub(r"(?m)^#(?=[a-z0-9_]+:)", "", example())
    (user.home / "project").mkdir()
    user.write_settings(taken)
    config = user.load(["--root", "."])
    for name in table():
        if name != "allowed_hosts":
            assert getattr(config, name) == getattr(plain, name), name
        assert config.sources[name] == ("flag --root" if name in ("root", "roots") else "file")


def test_the_example_and_the_page_have_every_setting():
    page = (REPOSITORY / "docs/configuration.md").read_text(encoding="utf-8")
    for name, setting in table().items():
        assert f"\n#{name}: " in example()
        assert f"| `{name}`" in page
        assert f"`{setting.variable}`" in page
        if setting.flag:
            assert f"`{setting.flag}`" in page
        if setting.secret:
            row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
            assert "--set" not in row


def test_the_page_of_tools_has_every_tool_and_argument():
    page = (REPOSITORY / "docs/tools.md").read_text(encoding="utf-8")
    for tool in TOOLS:
        section = page.split(f"\n### {tool.name}\n")[1].split("\n### ")[0]
        for argument in tool.params.model_fields:
            assert f"| `{argument}` |" in section


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("grep_files", "| `context` | integer from 0 to 50 |"),
        ("read_file", "| `start_line` | integer from 1 |"),
        ("date_time", "| `format` | string of 1 to 200 characters |"),
        ("file_info", "Fields: `path` (string or null), `exists` (boolean)"),
        ("file_info", "`size` (integer or null)"),
        ("bash", "Fields: the exec fields.\n"),
        ("run_python", "Fields: the exec fields, `runtime` (string)"),
        ("process_list", "`processes` (list of object with `id`, `name`"),
    ],
)
def test_the_page_of_tools_tells_bounds_and_the_fields_of_records(tool, told):
    page = (REPOSITORY / "docs/tools.md").read_text(encoding="utf-8")
    assert told in page.split(f"\n### {tool}\n")[1].split("\n##")[0]
    assert "*exec fields* of a program that was run are `exit_code` (integer), `signal` (string or null)" in page


def entries() -> list[dict[str, Any]]:
    """Return every entry for a client that the documentation shows."""
    found = [json.loads((REPOSITORY / "mcp.json.example").read_text(encoding="utf-8"))]
    for page in ("README.md", "docs/clients.md"):
        text = (REPOSITORY / page).read_text(encoding="utf-8")
        found += [json.loads(block) for block in re.findall(r"(?ms)^```json\n(.*?)^```", text)]
        found += [tomllib.loads(block) for block in re.findall(r"(?ms)^```toml\n(.*?)^```", text)]
    parts = ("mcpServers", "servers", "mcp_servers", "context_servers")
    return [entry for one in found for part in parts for entry in one.get(part, {}).values()]


def test_an_entry_for_a_client_starts_this_program():
    started = [entry for entry in entries() if "command" in entry]
    assert len(started) == 6
    for entry in started:
        assert entry["command"] == "/path/to/clone/.venv/bin/toolbox-mcp"
        flags = read_flags(entry["args"])
        assert flags.given.keys() == {"roots", "preset"}
        assert flags.given["preset"].raw in PRESETS
        assert flags.rest == []


def test_an_entry_for_a_client_names_the_default_address_and_no_token():
    reached = [entry for entry in entries() if "command" not in entry]
    assert len(reached) == 3
    assert {entry["url"] for entry in reached} == {f"http://127.0.0.1:{table()['port'].default}/mcp"}
    for entry in reached:
        assert entry.get("headers", {}).get("Authorization", "Bearer $").startswith("Bearer $")


@pytest.mark.parametrize(
    "name", ["README.md", "docs/guide.md", "docs/clients.md", "docs/troubleshooting.md", "docs/configuration.md"]
)
def test_a_flag_in_the_documentation_exists(name):
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    named = set(re.findall(r"(?<=toolbox-mcp )[^\n`|]*", text))
    flags = {flag for line in named for flag in re.findall(r"--[a-z][a-z-]+", line)}
    assert flags <= {
        *flag_names(),
        "--show",
        "--help",
        "--version",
        "--json",
        "--follow",
        "--tool",
        "--status",
        *OPTIONS,
    }


@pytest.mark.parametrize("block", re.findall(r"(?ms)^```yaml\n(.*?)^```", (REPOSITORY / "docs/guide.md").read_text()))
def test_a_settings_file_of_the_guide_loads(user, block):
    user.write_settings(block.replace("~/project", str(user.project)))
    assert user.load().preset == "coder"


def test_every_client_of_install_has_its_steps():
    page = (REPOSITORY / "docs/clients.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?m)^\| [A-Z][^|]+\| `([a-z-]+)` \|", page)) == set(CLIENTS)


def test_every_promise_has_an_id_of_its_own_and_is_shown_by_functions_that_exist():
    page = (REPOSITORY / "docs/security.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (S-[^ ]*) \| .* \| ([^|]*) \|$", page)
    names = [name for name, _ in rows]
    assert len(names) == len({*names}) == page.count("\n| S-") > 30
    failed = []
    for name, shown in rows:
        found = re.findall(r"`([\w/]+\.py)::(test_\w+)`", shown)
        if not found or len(found) != shown.count("`") // 2:
            failed.append((name, shown))
        for file, function in found:
            place = REPOSITORY / "tests" / file
            if not place.is_file() or not re.search(
                rf"(?m)^(?:async )?def {function}\(", place.read_text(encoding="utf-8")
            ):
                failed.append((name, f"{file}::{function}"))
    assert failed == []
