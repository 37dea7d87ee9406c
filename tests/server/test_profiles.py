import pytest

from toolbox_mcp.server.build import build_server, exposure
from toolbox_mcp.server.config.errors import ConfigError
from toolbox_mcp.tools.catalogue import PROFILES
from toolbox_mcp.tools.context import CallContext

ALL = ("--enable-exec", "--enable-shell")


def test_a_profile_adds_its_tools_and_without_toolsets_leaves_them_alone(user):
    usual = set(exposure(user.load(ALL)).listed)
    assert not usual & {name for names in PROFILES.values() for name in names}
    for profile, names in PROFILES.items():
        assert set(exposure(user.load([*ALL, "--profile", profile])).listed) == usual | {*names}
        alone = user.load([*ALL, "--profile", profile, "--toolsets", "none"])
        assert set(exposure(alone).listed) == {*names}


def test_without_the_switches_what_changes_or_runs_is_not_listed(user):
    orbiter = user.load(["--profile", "orbiter", "--toolsets", "none"])
    assert exposure(orbiter).listed == ("filesystem",)
    some = user.load(
        ["--profile", "llmtools", "--toolsets", "none", "--enable-exec", "--exec-tools", "writefile,shellcommand"]
    )
    assert {"writefile"} == {*exposure(some).listed} & {"writefile", "deletefile", "shellcommand", "runscript"}


def test_a_profile_that_does_not_exist_stops_the_start(user):
    with pytest.raises(ConfigError, match="profile"):
        user.load(["--profile", "llmtool"])


async def test_the_operator_lifts_the_confinement_of_the_orbiter_filesystem_alone(user, tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("there\n")
    failed = {}
    for free in ("false", "true"):
        config = user.load(
            ["--profile", "orbiter", "--set", f"orbiter_allow_all_paths={free}", "--set", "records=false"]
        )
        async with build_server(config, {}) as toolbox:
            for name, arguments in (("filesystem", {"action": "read"}), ("read_file", {})):
                answer = await toolbox.pipeline.call(name, {**arguments, "path": str(outside)}, CallContext("1"))
                failed[free, name] = answer["isError"]
    assert failed == {
        ("false", "filesystem"): True,
        ("false", "read_file"): True,
        ("true", "filesystem"): False,
        ("true", "read_file"): True,
    }


async def test_shell_takes_the_name_that_clients_of_llmtools_know(user):
    switches = [*ALL, "--set", "records=false"]
    table = [([], "invalid_args"), (["--profile", "llmtools"], None)]
    for argv, code in table:
        async with build_server(user.load([*switches, *argv]), {"PATH": "/usr/bin:/bin"}) as toolbox:
            arguments = {"commands": ["exit 1", "echo on"], "executeParallel": True, "shell": "sh"}
            answer = await toolbox.pipeline.call("shell", arguments, CallContext("1"))
            text = answer["content"][0]["text"]
            assert code in text if code else "$ echo on" in text


async def test_without_confinement_protected_places_of_orbiter_stay_so(user, tmp_path):
    place = tmp_path / "elsewhere"
    (place / ".git").mkdir(parents=True)
    argv = ["--profile", "orbiter", "--enable-exec", "--set", "orbiter_allow_all_paths=true", "--set", "records=false"]
    async with build_server(user.load(argv), {}) as toolbox:
        table = [("x", None), ("made/x", None), (".git/config", "protected_path"), (".GIT/hooks/x", "protected_path")]
        failed = []
        for path, want in table:
            arguments = {"action": "write", "path": str(place / path), "content": "x"}
            answer = await toolbox.pipeline.call("filesystem", arguments, CallContext("1"))
            if (answer.get("structuredContent") or {}).get("code") != want:
                failed.append((path, answer))
    assert failed == []
    assert (place / "made" / "x").read_text() == "x" and not [*(place / ".git").iterdir()]
