"""Where values come from, which one wins, and what stops the start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolbox_mcp.server.config.checks import without_effect
from toolbox_mcp.server.config.errors import ConfigError
from toolbox_mcp.server.config.flags import read_flags
from toolbox_mcp.server.config.load import Config, load_flags

TOKEN = "0123456789abcdef0123456789abcdef"


def refusal(user, *argv, env=None, **more) -> str:
    with pytest.raises(ConfigError) as refused:
        user.load(list(argv), env, **more)
    message = str(refused.value)
    assert message
    assert message.isprintable()
    return message


# --- which one wins


def test_a_later_source_wins(user):
    env = {"TOOLBOX_MAX_PROCESSES": "3"}
    flag = ["--set", "max_processes=4"]
    assert user.load().max_processes == 8
    user.write_settings("max_processes: 2\n")
    assert user.load().max_processes == 2
    assert user.load(env=env).max_processes == 3
    assert user.load(flag, env).max_processes == 4
    assert user.load(flag, env, overrides={"max_processes": 5}).max_processes == 5


def test_a_list_replaces_the_one_before_it(user):
    user.write_settings("allowed_commands: [git, make]\n")
    assert user.load(["--allow-command", "pytest", "--allow-command", "ruff"]).allowed_commands == ("pytest", "ruff")


def test_each_value_says_where_it_came_from(user):
    user.write_settings("max_redirects: 1\n")
    sources = user.load(["--enable-exec", "--set", "records=no"], {"TOOLBOX_PORT": "1", "TAVILY_API_KEY": "k"}).sources
    assert sources["max_redirects"] == "file"
    assert sources["port"] == "env TOOLBOX_PORT"
    assert sources["enable_exec_tools"] == "flag --enable-exec"
    assert sources["records"] == "flag --set records"
    assert sources["tavily_api_key"] == "env TAVILY_API_KEY"
    assert sources["host"] == "default"


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        (["--profile", "toolbox"], "profile", "toolbox"),
        (["--toolsets", "read,edit"], "toolsets", ("read", "edit")),
        (["--enable-exec"], "enable_exec_tools", True),
        (["--exec-tools=bash"], "exec_tools", ("bash",)),
        (["--enable-shell"], "enable_shell", True),
        (["--allow-command", "a", "--allow-command=b"], "allowed_commands", ("a", "b")),
        (["--transport", "sse"], "transport", "sse"),
        (["--host", "localhost"], "host", "localhost"),
        (["--port", "1", "--port", "2"], "port", 2),
        (["--log-level", "info"], "log_level", "info"),
        (["--set", "port=1", "--set", "port=3"], "port", 3),
        (["--set", 'shell_base_env={"A": "b=c"}'], "shell_base_env", {"A": "b=c"}),
    ],
)
def test_a_flag_sets_its_setting(user, flags, name, value):
    config = user.load(flags)
    assert getattr(config, name) == value
    assert config.sources[name].startswith("flag --")


def test_keys_of_others_give_a_default_that_anything_overrides(user):
    env = {"TAVILY_API_KEY": "theirs", "SEARXNG_URL": "http://s.example", "BRAVE_API_KEY": ""}
    config = user.load(env=env)
    assert (config.tavily_api_key, config.searxng_url, config.brave_api_key) == ("theirs", "http://s.example", None)
    user.write_settings("tavily_api_key: ours\nsearxng_url: null\n")
    config = user.load(env=env)
    assert (config.tavily_api_key, config.searxng_url) == ("ours", None)


# --- names


@pytest.mark.parametrize(
    ("argv", "env", "settings", "parts"),
    [
        (["--set", "max_proceses=3"], {}, "", ["max_proceses", "did you mean max_processes?"]),
        (["--set", "max-processes=3"], {}, "", ["did you mean max_processes?"]),
        (["--rot", "x"], {}, "", ["--rot", "did you mean --root?"]),
        (["--max-processes", "3"], {}, "", ["--set max_processes=VALUE"]),
        (["--enable-exec-tools"], {}, "", ["--enable-exec"]),
        ([], {"TOOLBOX_MAX_PROCESS": "3"}, "", ["TOOLBOX_MAX_PROCESS;", "did you mean TOOLBOX_MAX_PROCESSES?"]),
        ([], {"TOOLBOX_TOKENS": "3"}, "", ["did you mean TOOLBOX_TOKEN?"]),
        ([], {}, "records: no\n\nalow_unsafe: true\n", ["config.yaml:3", "alow_unsafe", "did you mean allow_unsafe?"]),
        ([], {}, "exec_tools: [bahs]\n", ["config.yaml:1", "'bahs'", "did you mean bash?"]),
        ([], {}, "approvals: {write_fil: once}\n", ["did you mean write_file?"]),
        ([], {}, "tool_timeouts: {grep: 5}\n", ["'grep'"]),
        (["--toolsets", "edti"], {}, "", ["did you mean edit?"]),
        (["--toolsets", "read_fil"], {}, "", ["did you mean read_file?"]),
        (["--profile", "orbit"], {}, "", ["profile", "toolbox"]),
        (["tools"], {}, "", ["unexpected argument tools"]),
        (["--root"], {}, "", ["--root: expected one argument"]),
        (["--set", "port"], {}, "", ["expected NAME=VALUE"]),
    ],
)
def test_an_unknown_name_stops_the_start_with_a_suggestion(user, argv, env, settings, parts):
    if settings:
        user.write_settings(settings)
    message = refusal(user, *argv, env=env)
    for part in parts:
        assert part in message


def test_tool_names_come_from_the_caller(user):
    known = {"my_tool": "mine"}
    assert user.load(["--exec-tools", "my_tool", "--toolsets", "mine"], known_tools=known).toolsets == ("mine",)
    assert "bash" in refusal(user, "--exec-tools", "bash", known_tools=known)


def test_a_variable_of_another_program_is_left_alone(user):
    user.load(env={"TOOLBOX_PATH": "/usr/bin/toolbox"})


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "x" * 5000])
def test_a_message_stays_one_printable_line(user, name):
    assert "unknown setting" in refusal(user, "--set", f"{name}=1")


# --- roots


def test_the_root_is_the_working_directory_unless_named(user):
    config = user.load()
    assert (config.roots, config.root, config.fs_root) == ((user.project,), user.project, user.project)
    assert config.sources["roots"] == config.sources["root"] == "default"


def test_roots_are_named_in_four_ways(user):
    a, b = user.project / "a", user.project / "b"
    a.mkdir()
    b.mkdir()
    assert user.load(["--root", "a", "--root", str(b)]).roots == (a, b)
    assert user.load(env={"TOOLBOX_ROOTS": "a,b"}).roots == (a, b)
    assert user.load(env={"TOOLBOX_FS_ROOT": "b"}).roots == (b,)
    assert user.load(["--set", "root=b", "--root", "a"]).roots == (b, a)
    config = user.load(["--set", "root=b", "--root", "b"])
    assert (config.roots, config.sources["roots"], config.sources["root"]) == (
        (b,),
        "flag --set root",
        "flag --set root",
    )


def test_a_later_source_of_roots_opens_nothing_that_an_earlier_one_named(user):
    user.write_settings(f"root: {user.outside}\n")
    assert user.load().roots == (user.outside,)
    assert user.load(["--root", "."]).roots == (user.project,)
    assert user.load(env={"TOOLBOX_ROOT": "."}).roots == (user.project,)


def test_root_and_its_alias_in_one_place_are_refused(user):
    user.write_settings(f"root: {user.project}\nfs_root: {user.outside}\n")
    assert "one setting" in refusal(user)


def test_relative_paths_belong_to_the_folder_that_names_them(user):
    (user.outside / "sub").mkdir()
    file = user.file("c.yaml", "root: sub\nrecords_file: r.db\n")
    config = user.load(["--config", str(file)])
    assert (config.root, config.records_file) == (user.outside / "sub", user.outside / "r.db")
    assert user.load(env={"TOOLBOX_RECORDS_FILE": "../r.db"}).records_file.resolve() == user.project.parent / "r.db"


def test_a_leading_tilde_is_the_home(user):
    (user.home / "work").mkdir()
    assert user.load(["--root=~/work"]).root == user.home / "work"
    (user.project / "~").mkdir()
    assert user.load(["--root=./~"]).root == user.project / "~"


def test_a_root_is_kept_with_its_links_resolved(user):
    (user.project / "link").symlink_to(user.outside)
    assert user.load(["--root", "link"]).root == user.outside


@pytest.mark.parametrize(
    ("name", "part"), [("nope", "No such file"), ("file", "not a folder"), ("loop", "symbolic links")]
)
def test_a_root_that_is_no_folder_stops_the_start(user, name, part):
    (user.project / "file").touch()
    (user.project / "loop").symlink_to("loop")
    message = refusal(user, "--root", name)
    assert name in message
    assert part in message


def test_an_empty_list_of_roots_stops_the_start(user):
    assert "at least one folder" in refusal(user, env={"TOOLBOX_ROOTS": ""})


def test_the_home_is_served_only_when_named(user):
    assert "home folder" in refusal(user, cwd=user.home)
    assert user.load(["--root", ".", "--set", "records=no"], cwd=user.home).root == user.home


def test_the_whole_filesystem_is_served_only_when_named(user):
    assert "whole filesystem" in refusal(user, cwd=Path("/"))
    assert user.load(["--root", "/", "--set", "records=no"]).root == Path("/")


def test_the_home_is_recognised_through_a_link(user):
    link = user.outside / "me"
    link.symlink_to(user.home)
    assert "home folder" in refusal(user, cwd=link)


# --- files that the tools must not reach


def test_without_a_settings_file_there_is_none(user):
    assert user.load().config_file is None


def test_a_named_settings_file_stands_in_for_the_users_own(user):
    user.write_settings("max_processes: 2\n")
    file = user.file("c.yaml", "port: 1\n")
    config = user.load(["--config", "../outside/c.yaml"])
    assert (config.max_processes, config.port, config.config_file) == (8, 1, file)


def test_a_settings_file_that_is_missing_stops_the_start_only_when_named(user):
    assert "cannot be read: No such file" in refusal(user, "--config", "nope.yaml")
    assert "expected a file" in refusal(user, "--config", "")


OPEN_GATES = "enable_exec_tools: true\nallow_unsafe: true\n"


@pytest.mark.parametrize(
    "spelled", ["toolbox.yaml", "sub/../toolbox.yaml", "../project/toolbox.yaml", "/proc/self/cwd/x"]
)
def test_a_settings_file_inside_the_root_stops_the_start(user, spelled, monkeypatch):
    (user.project / "sub").mkdir()
    monkeypatch.chdir(user.project)
    for name in ("toolbox.yaml", "x"):
        (user.project / name).write_text(OPEN_GATES)
    message = refusal(user, "--config", spelled)
    assert "inside the root" in message
    assert str(user.project) in message


def test_a_settings_file_inside_the_root_is_refused_before_its_content_counts(user):
    file = user.project / "c.yaml"
    file.write_text("nonsense: 1\nmax_processes: x\n")
    assert "inside the root" in refusal(user, "--config", str(file))


def test_a_settings_file_inside_the_second_root_stops_the_start(user):
    file = user.file("c.yaml", OPEN_GATES)
    assert "inside the root" in refusal(user, "--config", str(file), "--root", ".", "--root", str(user.outside))


def test_a_settings_file_that_names_its_own_folder_stops_the_start(user):
    file = user.file("c.yaml", "roots: [.]\n")
    assert "inside the root" in refusal(user, "--config", str(file))


def test_a_link_from_outside_into_the_root_stops_the_start(user):
    (user.project / "c.yaml").write_text(OPEN_GATES)
    (user.outside / "c.yaml").symlink_to(user.project / "c.yaml")
    assert "inside the root" in refusal(user, "--config", str(user.outside / "c.yaml"))


def test_a_link_inside_the_root_to_the_outside_stops_the_start(user):
    # The tools could turn the link to a file of their own before the next start.
    user.file("c.yaml", OPEN_GATES)
    (user.project / "c.yaml").symlink_to(user.outside / "c.yaml")
    assert "inside the root" in refusal(user, "--config", str(user.project / "c.yaml"))


def test_a_chain_of_links_with_one_step_inside_the_root_stops_the_start(user):
    real = user.outside / "real"
    real.mkdir()
    (real / "c.yaml").write_text(OPEN_GATES)
    (user.project / "step").symlink_to(real)
    (user.outside / "start").symlink_to(user.project / "step")
    assert os.path.realpath(user.outside / "start/c.yaml") == str(real / "c.yaml")
    assert "inside the root" in refusal(user, "--config", str(user.outside / "start/c.yaml"))


def test_the_users_own_settings_file_inside_the_root_stops_the_start(user):
    user.write_settings("records: no\n")
    assert "inside the root" in refusal(user, "--root", str(user.home))


def test_the_users_own_settings_file_as_a_link_into_the_root_stops_the_start(user):
    (user.project / "c.yaml").write_text(OPEN_GATES)
    user.settings.parent.mkdir(parents=True)
    user.settings.symlink_to(user.project / "c.yaml")
    assert "inside the root" in refusal(user)


def test_a_folder_beside_the_root_with_the_same_beginning_is_outside(user):
    beside = user.project.parent / "project-settings"
    beside.mkdir()
    (beside / "c.yaml").write_text("port: 1\n")
    assert user.load(["--config", "../project-settings/c.yaml"]).port == 1


@pytest.mark.parametrize(
    ("argv", "env", "settings"),
    [
        (["--set", "foo=1"], {}, ""),
        (["--set", "fs=1"], {}, ""),
        (["--set", "path=1"], {}, ""),
        ([], {"TOOLBOX_FOO": "1"}, ""),
        ([], {}, "foo: 1\n"),
        (["--foo", "1"], {}, ""),
    ],
)
def test_a_name_that_is_like_none_gets_no_suggestion(user, argv, env, settings):
    if settings:
        user.write_settings(settings)
    message = refusal(user, *argv, env=env)
    assert "unknown" in message and "did you mean" not in message


@pytest.mark.parametrize(
    ("argv", "settings", "advice"),
    [
        ([], "", "; set records to false"),
        (["--set", "records=no"], "port: 1\n", "; no settings file can be used then, and flags and TOOLBOX_ variables"),
        (["--set", "records=no", "--token-file", "TOKENS"], "", "; the variable TOOLBOX_TOKEN holds one token"),
        (["--set", "records=no", "--set", "tls_key=TOKENS"], "", "; serve without TLS, or a smaller root"),
    ],
)
def test_where_all_is_served_no_file_outside_is_asked_for(user, argv, settings, advice):
    tokens = user.file("tokens", "a" * 40)
    if settings:
        user.write_settings(settings)
    message = refusal(user, "--root", "/", *(word.replace("TOKENS", str(tokens)) for word in argv))
    assert advice in message and "elsewhere" not in message


def test_all_is_served_without_files_of_its_own(user):
    assert str(user.load(["--root", "/", "--set", "records=no"]).root) == "/"


def test_records_inside_a_root_stop_the_start(user):
    message = refusal(user, "--set", "records_file=calls.db")
    assert "records_file" in message
    assert "inside the root" in message
    assert user.load(["--set", "records_file=calls.db", "--set", "records=no"]).records is False


def test_the_default_records_stop_the_start_when_the_state_folder_is_served(user):
    message = refusal(user, "--root", str(user.home))
    assert "records to false" in message
    config = user.load(["--root", str(user.home), "--set", f"records_file={user.outside / 'r.db'}"])
    assert config.records_file == user.outside / "r.db"


@pytest.mark.parametrize(
    ("platform", "env", "config", "state"),
    [
        ("linux", {}, "home/.config/toolbox-mcp", "home/.local/state/toolbox-mcp"),
        ("linux", {"XDG_CONFIG_HOME": "{}/c", "XDG_STATE_HOME": "{}/s"}, "c/toolbox-mcp", "s/toolbox-mcp"),
        ("linux", {"XDG_CONFIG_HOME": "c"}, "home/.config/toolbox-mcp", "home/.local/state/toolbox-mcp"),
        ("darwin", {"XDG_CONFIG_HOME": "{}/c"}, *["home/Library/Application Support/toolbox-mcp"] * 2),
        (
            "win32",
            {"USERPROFILE": "{}/home", "APPDATA": "{}/r", "LOCALAPPDATA": "{}/l"},
            "r/toolbox-mcp",
            "l/toolbox-mcp",
        ),
    ],
)
def test_the_users_folders_follow_the_custom_of_the_platform(user, platform, env, config, state):
    base = user.home.parent
    made = user.load(env={name: value.format(base) for name, value in env.items()}, platform=platform)
    assert (made.places.config, made.places.state) == (base / config, base / state)
    assert made.records_file == base / state / "records.sqlite3"
    assert made.places.config_file == base / config / "config.yaml"


def test_python_is_called_python_on_windows(user):
    assert user.load(env={"USERPROFILE": str(user.home)}, platform="win32").script_interpreters[".py"] == "python"
    assert user.load().script_interpreters[".py"] == "python3"


def test_the_servers_own_files_are_known_whether_they_exist_or_not(user):
    tokens = user.file("tokens", TOKEN)
    own = user.load(["--token-file", str(tokens), "--set", "unsafe_logger=audit.log"]).own_files
    for file in (
        user.settings.parent,
        user.home / ".local/state/toolbox-mcp",
        user.home / ".local/state/toolbox-mcp/records.sqlite3-wal",
        tokens,
        user.project / "audit.log",
    ):
        assert file in own


def test_a_trash_folder_belongs_to_the_base_and_lies_inside_a_root(user):
    assert user.load(["--set", "trash_dir=.bin"]).trash_dir == user.project / ".bin"
    user.write_settings("trash_dir: .bin\n")
    assert user.load().trash_dir == user.project / ".bin"
    assert "not inside a root" in refusal(user, "--set", f"trash_dir={user.outside}")
    assert "not inside a root" in refusal(user, "--set", "trash_dir=.")
    (user.project / "away").symlink_to(user.outside)
    assert "not inside a root" in refusal(user, "--set", "trash_dir=away/bin")


# --- secrets


@pytest.mark.parametrize(
    "argv",
    [
        ["--set", "tavily_api_key=hunter2hunter2"],
        ["--set", "brave_api_key=hunter2hunter2"],
        ["--set", "token=hunter2hunter2"],
        ["--token", "hunter2hunter2"],
        ["--token=hunter2hunter2"],
        ["--tavily-api-key", "hunter2hunter2"],
        ["--brave_api_key=hunter2hunter2"],
    ],
)
def test_a_secret_never_comes_by_flag(user, argv):
    message = refusal(user, *argv)
    assert "secrets never come by flag" in message
    assert "TOOLBOX_" in message
    assert "hunter2" not in message


def test_a_secret_is_in_no_message_and_no_repr(user):
    bad = "hunter2 with spaces"
    assert "hunter2" not in refusal(user, env={"TOOLBOX_BRAVE_API_KEY": bad})
    assert "hunter2" not in refusal(user, env={"TAVILY_API_KEY": bad})
    user.write_settings(f"tavily_api_key: {bad}\n")
    assert "hunter2" not in refusal(user)
    user.write_settings("tavily_api_key: hunter2\n")
    config = user.load(env={"TOOLBOX_TOKEN": TOKEN})
    assert config.tavily_api_key == "hunter2"
    assert "hunter2" not in repr(config)
    assert TOKEN not in repr(config)


def test_a_token_in_the_settings_file_is_refused_with_a_way_on(user):
    user.write_settings(f"token: {TOKEN}\n")
    message = refusal(user)
    assert "TOOLBOX_TOKEN" in message
    assert TOKEN not in message


def test_tokens_come_from_their_file_and_the_environment(user):
    other = TOKEN[::-1]
    tokens = user.file("tokens", f"# ours\nada:{TOKEN}\n\n")
    config = user.load(["--token-file", str(tokens)], {"TOOLBOX_TOKEN": other})
    assert dict(config.tokens) == {"environment": other, "ada": TOKEN}


@pytest.mark.parametrize(
    ("text", "mode", "part"),
    [
        ("short", 0o600, "32 bytes"),
        ("", 0o600, "no token"),
        (TOKEN, 0o644, "chmod 600"),
        (f"ada:{TOKEN}\nada:{TOKEN[::-1]}", 0o600, "is taken"),
        (f"{TOKEN} {TOKEN}", 0o600, "a token has"),
        (f"a b:{TOKEN}", 0o600, "a name has"),
        (f"ada:{TOKEN}\nbob:{TOKEN}", 0o600, "same token"),
    ],
)
def test_a_token_file_that_cannot_be_used_stops_the_start(user, text, mode, part):
    message = refusal(user, "--token-file", str(user.file("tokens", text, mode)))
    assert "token_file" in message
    assert part in message
    assert TOKEN not in message


def test_a_token_file_that_is_missing_or_inside_a_root_stops_the_start(user):
    assert "cannot be read" in refusal(user, "--token-file", str(user.outside / "nope"))
    inside = user.project / "tokens"
    inside.write_text(TOKEN)
    inside.chmod(0o600)
    assert "inside the root" in refusal(user, "--token-file", "tokens")


def test_a_tls_key_inside_a_root_stops_the_start(user):
    (user.project / "key.pem").touch()
    assert "tls_key" in refusal(user, "--set", "tls_key=key.pem", "--set", "tls_cert=key.pem")


# --- settings that belong together


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "box.example"])
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_a_bind_beyond_loopback_needs_a_token_and_tls(user, host, transport):
    flags = ["--transport", transport, "--host", host]
    assert "token" in refusal(user, *flags)
    env = {"TOOLBOX_TOKEN": TOKEN}
    assert "tls_cert" in refusal(user, *flags, env=env)
    assert user.load([*flags, "--set", "allow_plain_http=true"], env).host == host
    pem = str(user.file("key.pem", ""))
    assert user.load([*flags, "--set", f"tls_cert={pem}", "--set", f"tls_key={pem}"], env).tls_key == Path(pem)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_a_loopback_bind_needs_neither(user, host):
    assert user.load(["--transport", "http", "--host", host]).host == host


def test_half_a_tls_pair_stops_the_start(user):
    pem = user.file("cert.pem", "")
    assert "belong together" in refusal(user, "--transport", "http", "--set", f"tls_cert={pem}")


def test_the_http_transport_gets_its_settings_under_its_own_names(user):
    config = user.load(["--transport", "sse", "--port", "0", "--set", "http_max_sessions=2"], {"TOOLBOX_TOKEN": TOKEN})
    http = config.http_settings()
    assert (http.transport, http.port, http.max_sessions, len(http.tokens)) == ("sse", 0, 2, 1)


# --- copies for programs that embed the server


def test_a_copy_with_other_values_leaves_the_first_as_it_was(user):
    config = user.load()
    other = config.with_(max_processes="3", fs_root=user.outside, trash_dir=".bin")
    assert isinstance(other, Config)
    assert (other.max_processes, other.roots, other.trash_dir) == (3, (user.outside,), user.outside / ".bin")
    assert other.sources["max_processes"] == other.sources["roots"] == "override"
    assert (config.max_processes, config.roots) == (8, (user.project,))


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"max_proceses": 3}, "did you mean max_processes?"),
        ({"max_processes": 0}, "expected a whole number"),
        ({"records_file": "r.db"}, "inside the root"),
        ({"root": "/", "records": False}, "inside the root"),
        ({"transport": "http", "host": "0.0.0.0"}, "token"),
    ],
)
def test_a_copy_is_checked_like_the_first(user, overrides, part):
    config = user.load(["--config", str(user.file("c.yaml", ""))])
    with pytest.raises(ConfigError, match=part.replace("?", r"\?")):
        config.with_(**overrides)


def test_two_configurations_share_nothing(user):
    one = user.load(["--set", 'approvals={"bash": "once"}'])
    two = user.load()
    assert (dict(one.approvals), dict(two.approvals)) == ({"bash": "once"}, {})


def test_the_environment_of_the_process_is_not_read(user, monkeypatch):
    monkeypatch.setenv("TOOLBOX_MAX_PROCESSES", "3")
    monkeypatch.setenv("TAVILY_API_KEY", "k")
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    config = user.load()
    assert (config.max_processes, config.tavily_api_key) == (8, None)
    assert config.records_file.is_relative_to(user.home)


def test_a_single_tool_may_stand_among_the_groups(user):
    assert user.load(["--toolsets", "read_file,edit"]).toolsets == ("read_file", "edit")


def test_only_what_serves_a_folder_refuses_the_home_folder(user):
    flags = read_flags([])
    with pytest.raises(ConfigError, match="home folder"):
        load_flags(flags, {"HOME": str(user.home)}, cwd=user.home)
    user.write_settings("port: 1\n")
    assert load_flags(flags, {"HOME": str(user.home)}, cwd=user.home, serves=False).port == 1
    with pytest.raises(ConfigError, match="lies inside the root"):
        load_flags(read_flags(["--root", "."]), {"HOME": str(user.home)}, cwd=user.home, serves=False)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], []),
        (["--enable-shell"], ["enable_shell"]),
        (["--exec-tools", "bash", "--allow-command", "git"], ["exec_tools", "allowed_commands"]),
        (["--enable-exec", "--enable-shell", "--allow-command", "git"], []),
        (["--preset", "coder"], []),
    ],
)
def test_a_switch_that_waits_for_another_is_named(user, argv, named):
    config = user.load(argv)
    assert [warning.partition(" ")[0] for warning in without_effect(config, config.sources)] == named


def test_loading_imports_neither_the_sdk_nor_pydantic_nor_yaml(user):
    code = (
        "import sys; from pathlib import Path; from toolbox_mcp.server.config.load import load;"
        f"load([], {{'HOME': {str(user.home)!r}}}, cwd=Path({str(user.project)!r}));"
        "print(sorted({'mcp', 'mcp_types', 'pydantic', 'yaml', 'anyio', 'httpx', 'difflib'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
