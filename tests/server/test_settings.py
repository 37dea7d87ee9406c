"""Every setting comes through the settings file, the environment and --set with the same value."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import yaml

from toolbox_mcp.sandbox.environment import own
from toolbox_mcp.server.config.errors import ConfigError
from toolbox_mcp.server.config.settings import ALIASES, OBEYED_BY_OTHERS, SECTIONS, Settings, table
from toolbox_mcp.tools.catalogue import load_tools
from toolbox_mcp.tools.settings import ToolSettings

TOOLS = load_tools()

# A value other than the default for each setting: as it is written in one line, and as it is read. Lists and maps
# are given as data and written as the source wants them.
SAMPLES: dict[str, tuple[Any, Any]] = {
    "preset": ("editor", "editor"),
    "gem_url": ("http://gems.internal:9292", "http://gems.internal:9292"),
    "project_bin": ("env/bin,bin", ("env/bin", "bin")),
    "project_tools": ("python,mine", ("python", "mine")),
    "profile": ("llmtools", "llmtools"),
    "http_drain": ("30", 30.0),
    "oauth_issuer": ("https://login.example/t", "https://login.example/t"),
    "oauth_resource": ("https://tools.example/mcp", "https://tools.example/mcp"),
    "oauth_audience": ("api://tools", "api://tools"),
    "oauth_scopes": ({"tools:read": "reader"}, {"tools:read": "reader"}),
    "principals": ({"bob": {"preset": "editor"}}, {"bob": {"preset": "editor"}}),
    "toolsets": (["read", "edit"], ("read", "edit")),
    "enable_exec_tools": ("yes", True),
    "exec_tools": (["bash", "write_file"], ("bash", "write_file")),
    "enable_shell": ("on", True),
    "list_disabled": ("1", True),
    "allowed_commands": (["git", "pytest"], ("git", "pytest")),
    "allow_unsafe": ("ask", "ask"),
    "unsafe_logger": ("audit.log:note", "audit.log:note"),
    "approvals": ({"bash": "always", "shell": "once"}, {"bash": "always", "shell": "once"}),
    "protected_paths": (["*.lock", "infra/**"], ("*.lock", "infra/**")),
    "block_symlinks": ("true", True),
    "jail_no_xdev": ("true", True),
    "confine": ("write", "write"),
    "delete_mode": ("permanent", "permanent"),
    "undo_max_bytes": ("0", 0),
    "ignored_dirs": (["no", "off"], ("no", "off")),
    "respect_gitignore": ("off", False),
    "max_output_tokens": ("0", 0),
    "structured_output": ("yes", True),
    "tokenizer_model": ("1.10", "1.10"),
    "regex_timeout": ("500ms", 0.5),
    "max_grep_matches": ("7", 7),
    "command_timeout": ("1.5", 1.5),
    "toolchain_timeout": ("10m", 600.0),
    "shell_timeout": ("600", 600.0),
    "default_tool_timeout": ("45s", 45.0),
    "tool_timeouts": ({"bash": 0, "read_file": "2m"}, {"bash": 0.0, "read_file": 120.0}),
    "max_tool_timeout": ("1h", 3600.0),
    "max_in_flight": ("1", 1),
    "max_processes": ("3", 3),
    "process_memory": ("1g", 2**30),
    "env_passthrough": (["PATH"], ("PATH",)),
    "shell_default": ("zsh", "zsh"),
    "shell_env": ("inherit", "inherit"),
    "shell_base_env": ({"CI": "no", "EMPTY": ""}, {"CI": "no", "EMPTY": ""}),
    "shell_blocklist_extra": (["Docker"], ("docker",)),
    "shell_heuristics": ("no", False),
    "shell_max_commands": ("1", 1),
    "shell_max_command_bytes": ("100", 100),
    "shell_output_bytes": ("1024", 1024),
    "shell_sandbox": ("yes", True),
    "script_interpreters": ({".PY": "python3", ".rb": "ruby"}, {".py": "python3", ".rb": "ruby"}),
    "sandbox_runtime": ("sandbox_exec", "seatbelt"),
    "sandbox_packages": (["/opt/a", "/opt/b"], (Path("/opt/a"), Path("/opt/b"))),
    "sandbox_bwrap_extra": (["--ro-bind", "/opt", "/opt"], ("--ro-bind", "/opt", "/opt")),
    "sandbox_seatbelt_profile": ("(version 1)", "(version 1)"),
    "sandbox_network": ("host", "host"),
    "sandbox_memory": ("64m", 64 * 2**20),
    "sandbox_cpus": ("0.5", 0.5),
    "sandbox_pids": ("16", 16),
    "docker_image": ("ruby:3.4", "ruby:3.4"),
    "python_image": ("registry.example:5000/python", "registry.example:5000/python"),
    "rust_image": ("rust:1.80", "rust:1.80"),
    "node_image": ("node:24", "node:24"),
    "oci_runtime": ("runsc", "runsc"),
    "git_hooks": ("true", True),
    "git_author": ("Ada L <ada@example.com>", "Ada L <ada@example.com>"),
    "http_timeout": ("3", 3.0),
    "max_fetch_bytes": ("1", 1),
    "max_download_bytes": ("1", 1),
    "max_redirects": ("0", 0),
    "web_allowlist": (["Example.com"], ("example.com",)),
    "web_denylist": (["192.0.2.1"], ("192.0.2.1",)),
    "web_ports": ([443, 8443], (443, 8443)),
    "web_private_allow": (["localhost:3000", "[::1]:80"], ("localhost:3000", "[::1]:80")),
    "web_nat64": ("true", True),
    "web_robots": ("true", True),
    "web_proxy": ("proxy.example:3128", "proxy.example:3128"),
    "search_adapter": ("searxng", "searxng"),
    "tavily_api_key": ("tvly-secret", "tvly-secret"),
    "brave_api_key": ("brave-secret", "brave-secret"),
    "searxng_url": ("http://search.internal:8080", "http://search.internal:8080"),
    "records_url": ("postgresql://u:p@db/records", "postgresql://u:p@db/records"),
    "otel_endpoint": ("http://localhost:4318", "http://localhost:4318"),
    "records": ("false", False),
    "records_max_rows": ("10", 10),
    "records_max_days": ("1", 1),
    "tool_result_max_length": ("0", 0),
    "transport": ("http", "http"),
    "host": ("::1", "::1"),
    "port": ("0", 0),
    "allowed_hosts": (["Box.example:8765", "box:*"], ("box.example:8765", "box:*")),
    "allowed_origins": (["https://App.example"], ("https://app.example",)),
    "allow_plain_http": ("true", True),
    "http_max_sessions": ("2", 2),
    "http_idle_timeout": ("30m", 1800.0),
    "terminal_blocklist": (["rm", "DD"], ("rm", "dd")),
    "terminal_timeout": ("5", 5.0),
    "orbiter_allow_all_paths": ("yes", True),
    "log_level": ("DEBUG", "debug"),
}
PATHS = {"roots", "root", "trash_dir", "records_file", "token_file", "tls_cert", "tls_key"}
"""Settings whose values depend on folders; test_config.py has them."""


def on_one_line(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)


def test_every_setting_has_a_sample():
    assert set(SAMPLES) | PATHS == set(table())
    assert not set(SAMPLES) & PATHS


def read(user, name, raw, value):
    """Return a setting with its source, as each way to give it has it read."""
    setting = table()[name]
    plain = {"web_ports": [443, 8443]}.get(name, raw)
    configs = [user.load(env={setting.variable: on_one_line(raw)})]
    if not setting.secret:
        configs.append(user.load(["--set", f"{name}={on_one_line(raw)}"]))
    written = f"{name}: {plain}\n" if isinstance(raw, str) and ": " not in raw else yaml.safe_dump({name: plain})
    file = user.write_settings(written)
    configs.append(user.load())
    file.unlink()
    found = [(getattr(config, name), config.sources[name]) for config in configs]
    return [*found, getattr(user.load(overrides={name: value}), name)]


def test_a_value_is_the_same_from_file_environment_and_flag(user):
    failed = {}
    for name, (raw, value) in SAMPLES.items():
        sources = [f"env {table()[name].variable}", f"flag --set {name}", "file"]
        if table()[name].secret:
            del sources[1]
        found = read(user, name, raw, value)
        if found != [*((value, source) for source in sources), value]:
            failed[name] = found
    assert failed == {}


def test_no_sample_is_the_default():
    defaults = {name for name in SAMPLES if SAMPLES[name][1] == table()[name].default}
    assert defaults <= {"toolchain_timeout", "http_idle_timeout"}


def test_what_is_shown_is_read_back_as_the_same_value(user):
    config = user.load()
    failed = {}
    for name in SAMPLES:
        for value in (SAMPLES[name][1], getattr(config, name)):
            written = json.loads(json.dumps(table()[name].kind.show(value)))
            again = getattr(user.load(overrides={name: written}), name)
            if again != value:
                failed[name] = (value, written, again)
    assert failed == {}


def test_every_setting_is_documented():
    for name, setting in table().items():
        assert setting.meaning.endswith("."), name
        assert setting.kind.expected, name
        assert setting.variable == "TOOLBOX_" + name.upper()


def test_the_defaults_are_those_of_the_contract(user):
    config = user.load()
    assert (config.max_output_tokens, config.tokenizer_model) == (10_000, "gpt-4o")
    assert (config.command_timeout, config.shell_timeout, config.toolchain_timeout) == (120, 60, 600)
    assert (config.sandbox_memory, config.sandbox_cpus, config.sandbox_pids) == (256 * 2**20, 1.0, 128)
    assert config.env_passthrough == ("PATH", "LANG", "LC_ALL", "HOME")
    assert config.web_ports == (80, 443, 8080, 8443)
    assert config.protected_paths == OBEYED_BY_OTHERS
    assert (config.enable_exec_tools, config.enable_shell, config.allow_unsafe) == (False, False, False)
    assert (config.transport, config.host, config.port) == ("stdio", "127.0.0.1", 8765)


def test_the_words_of_a_setting_are_those_of_its_type():
    choices = {name: get_args(hint) for name, hint in get_type_hints(Settings).items() if get_origin(hint) is Literal}
    expected = {name: table()[name].kind.expected.removeprefix("one of ").split(", ") for name in choices}
    assert choices
    assert {name: set(words) for name, words in choices.items()} == {
        name: set(words) - {"sandbox_exec"} for name, words in expected.items()
    }


def test_values_cannot_be_changed(user):
    config = user.load()
    values = {name: getattr(config, name) for name in table()}
    assert [name for name, value in values.items() if isinstance(value, (list, dict, set))] == []
    maps = [value for value in values.values() if isinstance(value, Mapping)]
    assert maps
    for value in maps:
        with pytest.raises(TypeError):
            value["x"] = "y"  # type: ignore[index]


def test_the_tools_have_the_defaults_of_the_operator():
    own = {each.name: each.default for each in fields(ToolSettings) if each.name in table()}
    del own["script_interpreters"]  # which depend on the platform
    assert own == {name: table()[name].default for name in own}


def test_headings_and_aliases_name_settings():
    assert set(SECTIONS) <= set(table())
    assert set(ALIASES.values()) <= set(table())


def test_what_the_server_reads_of_the_environment_reaches_no_program():
    elsewhere = [about.elsewhere for about in table().values() if about.elsewhere]
    assert elsewhere
    assert [name for name in ["TOOLBOX_TOKEN", "toolbox_x", *elsewhere] if not own(name)] == []
    assert not own("PATH")


BAD: list[tuple[str, Any]] = [
    ("enable_exec_tools", "maybe"),
    ("enable_exec_tools", ""),
    ("allow_unsafe", "always"),
    ("max_processes", "0"),
    ("max_processes", "-1"),
    ("max_processes", "3.5"),
    ("max_processes", "١٢"),
    ("max_processes", "1" * 5000),
    ("max_in_flight", True),
    ("shell_output_bytes", "1023"),
    ("shell_output_bytes", "4194305"),
    ("port", "65536"),
    ("web_ports", "80,0"),
    ("shell_timeout", "601"),
    ("shell_timeout", "0"),
    ("shell_timeout", "-1"),
    ("shell_timeout", "inf"),
    ("shell_timeout", "nan"),
    ("shell_timeout", float("nan")),
    ("shell_timeout", "1:30"),
    ("shell_timeout", "1e2"),
    ("sandbox_memory", "lots"),
    ("sandbox_memory", "1.5g"),
    ("sandbox_memory", "-1m"),
    ("sandbox_memory", "9999999g"),
    ("sandbox_cpus", "0"),
    ("profile", "orbit"),
    ("transport", "htttp"),
    ("confine", "false"),
    ("sandbox_runtime", "gvisor"),
    ("toolsets", "reed"),
    ("exec_tools", "none"),
    ("exec_tools", "bash,bsh"),
    ("approvals", "{"),
    ("approvals", '{"bash": "sometimes"}'),
    ("approvals", '{"bahs": "once"}'),
    ("approvals", '{"bash": "once", "bash": "never"}'),
    ("approvals", "[" * 100_000),
    ("tool_timeouts", '{"bash": -1}'),
    ("allowed_commands", "/bin/ls"),
    ("allowed_commands", "ls -l"),
    ("allowed_commands", "a,,b"),
    ("allowed_commands", ["a,b"]),
    ("allowed_commands", "rm;"),
    ("protected_paths", "/etc/**"),
    ("ignored_dirs", "a/b"),
    ("git_author", "Ada"),
    ("git_author", "Ada <a@b>\nX: y"),
    ("web_allowlist", "https://example.com"),
    ("web_allowlist", "*.example.com"),
    ("web_private_allow", "localhost"),
    ("searxng_url", "ftp://search.example"),
    ("otel_endpoint", "localhost:4318"),
    ("records_url", "mysql://db/records"),
    ("searxng_url", "http://user:pass@search.example"),
    ("search_adapter", "google"),
    ("allowed_origins", "example.com"),
    ("host", "http://localhost"),
    ("env_passthrough", "A=B"),
    ("env_passthrough", "TOOLBOX_TOKEN"),
    ("env_passthrough", "BRAVE_API_KEY"),
    ("env_passthrough", "SEARXNG_URL"),
    ("script_interpreters", '{"py": "python3"}'),
    ("shell_base_env", '{"A": ["x"]}'),
    ("log_level", "loud"),
    ("tokenizer_model", "a\0b"),
    ("records_file", "a\0b"),
]


def refusal(user, name, raw):
    try:
        if isinstance(raw, str) and "\0" not in raw:
            user.load(env={table()[name].variable: raw})
        else:
            user.load(overrides={name: raw})
    except ConfigError as refused:
        return str(refused)
    return ""


def test_a_value_that_does_not_fit_is_one_line_with_setting_and_source(user):
    failed = []
    for name, raw in BAD:
        message = refusal(user, name, raw)
        told = message.startswith(name) and "\n" not in message and len(message) < 400
        if name != "env_passthrough":
            told = told and "expected" in message
            told = told and (f"env {table()[name].variable}" in message or "override" in message)
        if not told:
            failed.append((name, str(raw)[:80], message))
    assert failed == []


def test_a_program_may_hand_over_objects(user):
    class Adapter:
        def search(self, query: str, max_results: int) -> list[str]:
            return []

    heard = []
    adapter = Adapter()
    config = user.load(overrides={"search_adapter": adapter, "unsafe_logger": heard.append})
    assert config.search_adapter is adapter
    assert config.unsafe_logger == heard.append


def test_an_unsafe_logger_is_a_word_a_function_or_a_file(user):
    assert user.load(["--set", "unsafe_logger=stderr"]).unsafe_logger == "stderr"
    assert user.load(["--set", "unsafe_logger=mine.audit:note"]).unsafe_logger == "mine.audit:note"
    assert user.load(["--set", "unsafe_logger=log/audit.jsonl"]).unsafe_logger == user.project / "log/audit.jsonl"
    assert user.load(["--set", "unsafe_logger=null"]).unsafe_logger is None


def test_a_word_or_list_setting_reads_the_word_in_any_form(user):
    for raw in ("all", "ALL", ["all"]):
        assert user.load(overrides={"toolsets": raw}).toolsets == "all"
    assert user.load(overrides={"toolsets": "none"}).toolsets == "none"
    assert user.load(overrides={"exec_tools": []}).exec_tools == ()


def test_paths_stay_paths(user):
    assert isinstance(user.load().records_file, Path)
