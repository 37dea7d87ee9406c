import re
from pathlib import Path

import pytest

from toolbox_mcp.server.build import exposure
from toolbox_mcp.server.config.presets import DEV_COMMANDS, PRESETS, preset_file
from toolbox_mcp.tools.catalogue import load_tools

TOOLS = load_tools()

GROUPS = {tool.name: tool.group for tool in TOOLS}
SAFE = {tool.name for tool in TOOLS if not tool.needs_exec} - {"web_search"}  # which needs a key
OF_PROCESSES = {"process_list", "process_output", "process_kill"}
"""State tools, which have no state to show where no program can be started."""
EDIT = {name for name, group in GROUPS.items() if group == "edit"} | {"apply_patch", "csv_write"} & GROUPS.keys()


def listed(user, *argv):
    return set(exposure(user.load(argv)).listed)


def test_the_default_is_what_only_reads(user):
    assert user.load().preset == "reader"
    assert listed(user) == listed(user, "--preset", "reader") == SAFE - OF_PROCESSES


def test_an_editor_also_edits(user):
    assert listed(user, "--preset", "editor") == (SAFE | EDIT) - OF_PROCESSES


def test_a_coder_also_runs_programs_and_commits(user):
    groups = ("command", "process", "verify", "sandbox", "git")
    runs = {name for name, group in GROUPS.items() if group in groups}
    assert listed(user, "--preset", "coder") == SAFE | EDIT | runs
    config = user.load(["--preset", "coder"])
    assert config.commands == DEV_COMMANDS and config.shell_sandbox == "auto"
    assert {"localhost:*", "127.0.0.1:*", "[::1]:*"} == set(config.web_private_allow)


def test_beside_another_client_is_what_that_lacks(user):
    names = listed(user, "--preset", "beside")
    assert "grep_files" in names and "run_python" in names and "run_tests" in names and "process_start" in names
    assert not names & {"read_file", "write_file", "edit_file", "glob", "tree", "bash", "shell", "todo_write"}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_a_settings_file(user, preset):
    text = preset_file(preset).read_text()
    user.write_settings(text)
    as_file = user.load()
    user.settings.unlink()
    as_preset = user.load(["--preset", preset])
    names = [name for name, source in as_file.sources.items() if source == "file"]
    assert len(names) == len(re.findall(r"(?m)^\w+:", text))
    for name in names:
        assert getattr(as_preset, name) == getattr(as_file, name)
        assert as_preset.sources[name] == f"preset {preset}"


def test_file_environment_and_flags_win_over_a_preset(user):
    user.write_settings("preset: coder\nallowed_commands: [make]\n")
    config = user.load(["--exec-tools", "bash"], {"TOOLBOX_ENABLE_SHELL": "no"})
    assert config.commands == ("make",) and config.exec_tools == ("bash",) and config.enable_shell is False
    assert config.sources["enable_exec_tools"] == "preset coder"
    assert user.load(["--preset", "editor"]).sources["enable_exec_tools"] == "preset editor"


def test_dev_stands_beside_other_names(user):
    config = user.load(
        ["--enable-exec", "--allow-command", "mine", "--allow-command", "@dev", "--allow-command", "git"]
    )
    assert config.commands == ("mine", *DEV_COMMANDS)
    assert config.allowed_commands == ("mine", "@dev", "git")


def test_the_presets_are_all_that_lie_there():
    folder = Path(preset_file("reader")).parent
    assert {file.stem for file in folder.glob("*.yaml")} == set(PRESETS)


def test_a_list_of_protected_paths_may_hold_the_default(user):
    config = user.load(["--set", "protected_paths=@default,deploy/**"])
    assert config.protected[-1] == "deploy/**"
    assert {".mcp.json", ".vscode/**", ".envrc"} < {*config.protected}
    assert user.load(["--set", "protected_paths=deploy/**"]).protected == ("deploy/**",)
