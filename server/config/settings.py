"""Every setting: name, kind, default, flag and meaning, declared once.

The documentation, the example file, the flags and the loader are made from this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from ...sandbox.environment import PROJECT_BIN, PROJECT_TOOLS
from ...tools.settings import ToolSettings
from .kinds import (
    Kind,
    boolean,
    boolean_or,
    group_name,
    integer,
    keyword_or,
    list_of,
    lower,
    map_of,
    nullable,
    number,
    object_name_or,
    one_of,
    or_object,
    path,
    seconds,
    settings_map,
    size,
    text,
    tool_name,
)
from .presets import PRESETS

_OBEYED_BY = {
    "agents": ".mcp.json .claude/** .cursor/** .gemini/** .codex/** .windsurf/** .roo/** .continue/** .kiro/** .amazonq/** "
    ".junie/** .qwen/** .opencode/** opencode.json .trae/** .augment/** .aider*",
    "editors": ".vscode/** .idea/** .run/** .fleet/** .zed/** *.code-workspace .exrc .nvimrc .nvim.lua .vimrc .dir-locals.el",
    "what opens a folder": ".envrc .direnv/** mise.toml .mise.toml .mise/** .devcontainer/** .devcontainer.json .gitpod.yml",
    "git and its hooks": ".gitmodules .gitattributes .gitconfig .husky/** .githooks/** .pre-commit-config.yaml lefthook.yml "
    ".lefthook.yml",
    "continuous integration": ".github/workflows/** .github/actions/** .gitea/workflows/** .forgejo/workflows/** "
    ".gitlab-ci.yml .circleci/** .buildkite/** .woodpecker/**",
    "package managers": ".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .cargo/**",
    "shells and debuggers": ".bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile .zlogin "
    ".gdbinit .lldbinit .ripgreprc .ssh/**",
}

OBEYED_BY_OTHERS = tuple(name for names in _OBEYED_BY.values() for name in names.split())
"""What a program obeys when a folder is opened, entered, committed to or pushed, without anybody asking for it.

Files that say what runs when somebody asks (Makefile, package.json) are the project's code, and notes for agents
(AGENTS.md, CLAUDE.md) its documents: they are written like others."""


T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """One setting as it is documented and read.

    default_text stands for a default that is worked out at start. flag is its own flag beside --set, repeat
    lets that flag occur several times. A secret is never taken from the command line and never shown.
    elsewhere is a variable of another program that gives the default.
    """

    name: str
    kind: Kind[Any]
    default: Any
    meaning: str
    default_text: str | None
    flag: str | None
    repeat: bool
    secret: bool
    elsewhere: str | None

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"TOOLBOX_{self.name.upper()}"


def setting(
    kind: Kind[T],
    default: T,
    meaning: str,
    *,
    default_text: str | None = None,
    flag: str | None = None,
    repeat: bool = False,
    secret: bool = False,
    elsewhere: str | None = None,
) -> T:
    """Declare one field of Settings; the declaration travels in the field's metadata."""
    about = Setting("", kind, default, meaning, default_text, flag, repeat, secret, elsewhere)
    made: T = field(
        default_factory=lambda: default,
        repr=not secret,
        metadata={"setting": about},
    )
    return made


_HOST = r"[^\s/\\@?#,*:\[\]]+|\[?[0-9A-Fa-f:.]+\]?"
_COMMAND = r"[^\s,/\\;&|<>$(){}\[\]*?!#~`]+"
_VARIABLE = r"[^\s=]+"

INTERPRETERS: Mapping[str, str] = MappingProxyType(
    {
        ".sh": "sh",
        ".bash": "bash",
        ".zsh": "zsh",
        ".ksh": "ksh",
        ".dash": "dash",
        ".ps1": "pwsh",
        ".py": "python3",
    }
)
"""Interpreters of run_script by extension; on Windows `.py` is run by `python`."""

_globs = list_of(text("a glob relative to a root", r"[^/\n\0][^\n\0]*"), "globs, relative to a root")
_hosts = list_of(lower(text("a host name such as example.com", _HOST)), "host names")
_arguments = list_of(text(), "arguments")
_image = text("an image name such as python:3.12-slim", r"[A-Za-z0-9][^\s]*")


# Only Config is ever made; each method that dataclass writes for 90 fields takes a millisecond of every start.
@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class Settings:
    """The value of every setting. Sizes are bytes, durations seconds; lists are tuples; maps are read-only."""

    roots: tuple[Path, ...] = setting(
        list_of(path(), "folders"),
        (),
        "Folders the tools may use; relative paths belong to the first, the base.",
        default_text="root",
        flag="--root",
        repeat=True,
    )
    root: Path = setting(
        path(),
        Path(),
        "The same as roots with one element, and before those of roots when both are given; also called fs_root."
        " `/` or the home folder only when named.",
        default_text="the working directory",
    )
    preset: Literal["reader", "editor", "coder", "beside"] = setting(
        one_of(*PRESETS),
        "reader",
        "Settings for one kind of work, below all others: reader only reads, editor also edits files, coder also runs programs,"
        " beside is for clients with files and a shell of their own.",
        flag="--preset",
    )
    profile: Literal["toolbox", "orbiter", "llmtools"] = setting(
        one_of("toolbox", "orbiter", "llmtools"),
        "toolbox",
        "Adds the tools of a compat profile, whatever toolsets says.",
        flag="--profile",
    )
    toolsets: Literal["all", "none"] | tuple[str, ...] = setting(
        keyword_or(("all", "none"), list_of(group_name(), "groups or tools")),
        "all",
        "Tool groups, or single tools, that exist.",
        flag="--toolsets",
    )
    enable_exec_tools: bool = setting(
        boolean(), False, "Master switch of every tool that writes or runs something.", flag="--enable-exec"
    )
    exec_tools: Literal["all"] | tuple[str, ...] = setting(
        keyword_or(("all",), list_of(tool_name(), "tools")),
        "all",
        "Exec tools that are exposed when they are enabled.",
        flag="--exec-tools",
    )
    enable_shell: bool = setting(
        boolean(), False, "Second switch of shell, run_script and their profile forms.", flag="--enable-shell"
    )
    list_disabled: bool = setting(boolean(), False, "List exec tools that are not enabled.")
    allowed_commands: tuple[str, ...] = setting(
        list_of(text("the bare name of an executable, or @dev", f"@dev|{_COMMAND}"), "names of executables"),
        (),
        "Executables that bash and process_start may run, by exact name; `@dev` stands for the usual ones of development.",
        flag="--allow-command",
        repeat=True,
    )
    project_bin: tuple[str, ...] = setting(
        list_of(text("a folder relative to a project", r"[^/\n\0][^\n\0]*"), "folders relative to a project"),
        PROJECT_BIN,
        "Where project_tools are found first, in the nearest project at or above the folder of a call; an empty list: nowhere.",
    )
    project_tools: tuple[str, ...] = setting(
        list_of(text("the bare name of an executable", _COMMAND), "names of executables"),
        PROJECT_TOOLS,
        "Programs that load the project's code anyway. Every other one is found on the PATH alone, less its folders in a root.",
    )
    allow_unsafe: bool | Literal["ask"] = setting(
        boolean_or("ask"), False, "Whether a call may lift its own guard with `unsafe`; ask puts it to the person."
    )
    unsafe_logger: Any = setting(
        or_object(nullable(keyword_or(("stderr",), object_name_or(path())))),
        None,
        "Receives the tool and the detail of each override: stderr, a file (one JSON line each) or module:function.",
    )
    approvals: Mapping[str, Literal["never", "once", "always"]] = setting(
        map_of(tool_name(), one_of("never", "once", "always"), "a map of tool names to never, once or always"),
        MappingProxyType({}),
        "When the person is asked before a tool runs: once a session, or at each call.",
    )
    protected_paths: tuple[str, ...] = setting(
        _globs,
        OBEYED_BY_OTHERS,
        "Never written, like `.git` and the server's own files. `@default`, in a list of your own, stands for the default: "
        "what other programs obey unasked.",
    )
    block_symlinks: bool = setting(boolean(), False, "Refuse every path with a link in it.")
    jail_no_xdev: bool = setting(boolean(), False, "Refuse mount points inside a root.")
    confine: Literal["off", "write", "strict"] = setting(
        one_of("off", "write", "strict"),
        "off",
        "Landlock on the server itself: write allows writes only in roots, state and temp folders; strict confines"
        " reads to those and system folders too. Where it is not possible the server does not start.",
    )
    delete_mode: Literal["trash", "permanent"] = setting(
        one_of("trash", "permanent"), ToolSettings.delete_mode, "What delete_file does unless a call says otherwise."
    )
    trash_dir: Path | Literal["auto"] = setting(
        keyword_or(("auto",), path(in_root=True)),
        ToolSettings.trash_dir,
        "Where deleted files go, a folder inside a root; auto: the system trash if it is inside a root on the same"
        " filesystem, else `.trash` at the root.",
    )
    undo_max_bytes: int = setting(
        integer(0), ToolSettings.undo_max_bytes, "Bytes kept for each call so that it can be undone."
    )
    ignored_dirs: tuple[str, ...] = setting(
        list_of(text("the name of a folder", r"[^/\\\n]+"), "folder names"),
        ToolSettings.ignored_dirs,
        "Folders that listing and searching do not enter.",
    )
    respect_gitignore: bool = setting(
        boolean(), ToolSettings.respect_gitignore, "Trees and searches skip what `.gitignore` files exclude."
    )
    max_output_tokens: int = setting(integer(), 10_000, "Tokens of text in one answer; below 1 counts as 1.")
    structured_output: bool = setting(
        boolean(), False, "Answers with fields also send them as structuredContent, and the listing has their schemas."
    )
    tokenizer_model: str = setting(text("the name of a model"), "gpt-4o", "Model whose tokenizer counts.")
    regex_timeout: float = setting(
        seconds(), ToolSettings.regex_timeout, "Seconds for one match attempt of a backtracking pattern."
    )
    max_grep_matches: int = setting(
        integer(1), ToolSettings.max_grep_matches, "Matches in one answer of grep_files and git_grep."
    )
    command_timeout: float = setting(
        seconds(), ToolSettings.command_timeout, "Seconds for bash, git and sandbox runs; then they are killed."
    )
    toolchain_timeout: float = setting(
        seconds(), ToolSettings.toolchain_timeout, "Seconds for the tools of the verify group."
    )
    shell_timeout: float = setting(
        seconds(600), ToolSettings.shell_timeout, "Seconds for each command of shell, and for run_script."
    )
    default_tool_timeout: float | None = setting(
        nullable(seconds()), None, "Deadline of calls of tools without their own; null: max_tool_timeout."
    )
    tool_timeouts: Mapping[str, float] = setting(
        map_of(tool_name(), seconds(zero=True), "a map of tool names to seconds"),
        MappingProxyType({}),
        "Call deadline by tool; 0 is none.",
    )
    max_tool_timeout: float = setting(seconds(), ToolSettings.max_tool_timeout, "Cap of call deadlines, in seconds.")
    max_in_flight: int = setting(integer(1), 64, "Calls at a time; more wait.")
    max_processes: int = setting(integer(1), 8, "Live background processes in the server.")
    process_memory: int | None = setting(
        nullable(size(2**20)), None, "Data limit of each background process; null: none."
    )
    env_passthrough: tuple[str, ...] = setting(
        list_of(text("the name of a variable", _VARIABLE), "variables"),
        ("PATH", "LANG", "LC_ALL", "HOME"),
        "All that the environment of started programs contains.",
    )
    shell_default: str = setting(
        one_of("auto", "bash", "zsh", "sh", "dash", "ksh", "fish", "pwsh", "powershell", "cmd"),
        "auto",
        "Shell of shell and terminal; auto: $SHELL, the login shell, then the first that is installed.",
    )
    shell_env: Literal["scrub", "inherit"] = setting(
        one_of("scrub", "inherit"),
        "scrub",
        "Environment of shell commands: env_passthrough, or the server's without its secrets and `TOOLBOX_*`.",
    )
    shell_base_env: Mapping[str, str] | Literal["login"] = setting(
        keyword_or(("login",), map_of(text("a variable", _VARIABLE), text("a text", r"(?s).*"), "a map of variables")),
        MappingProxyType({}),
        "Variables below those of session and call; login: captured once from a login shell and filtered.",
    )
    shell_blocklist_extra: tuple[str, ...] = setting(
        list_of(lower(text("the name of a command", _COMMAND)), "names of commands"),
        ToolSettings.shell_blocklist_extra,
        "Command names that shell refuses besides its own list.",
    )
    shell_heuristics: bool = setting(boolean(), ToolSettings.shell_heuristics, "Refuse fork bombs and a trailing `&`.")
    shell_max_commands: int = setting(integer(1), ToolSettings.shell_max_commands, "Commands in one call of shell.")
    shell_max_command_bytes: int = setting(
        integer(1), ToolSettings.shell_max_command_bytes, "Bytes of one shell command."
    )
    shell_output_bytes: int = setting(
        integer(1024, 4_194_304),
        4_194_304,
        "Bytes kept of each stream: three quarters from its start, the rest from its end.",
    )
    shell_sandbox: bool | Literal["auto"] = setting(
        boolean_or("auto"),
        ToolSettings.shell_sandbox,
        "Run shell commands in the sandbox, with the base writable; auto: where a sandbox works and can write it.",
    )
    script_interpreters: Mapping[str, str] = setting(
        map_of(
            lower(text("an extension such as .py", r"\.[^\s/\\]+")),
            text("a command", r"[^\n]*\S[^\n]*"),
            "a map of extensions to commands",
        ),
        INTERPRETERS,
        "What run_script runs a file with, by extension; on Windows `.py` is run by python.",
    )
    sandbox_runtime: Literal[
        "auto", "bubblewrap", "native", "landlock", "container", "docker", "podman", "seatbelt", "none"
    ] = setting(
        one_of(
            "auto",
            "bubblewrap",
            "native",
            "landlock",
            "container",
            "docker",
            "podman",
            "seatbelt",
            "none",
            aliases=MappingProxyType({"sandbox_exec": "seatbelt"}),
        ),
        "auto",
        "What programs are sandboxed with; landlock is native without namespaces, sandbox_exec is seatbelt.",
    )
    sandbox_packages: tuple[Path, ...] = setting(
        list_of(path(), "folders"),
        (),
        "Folders of Python packages, such as .venv/lib/python3.12/site-packages, that run_python may read and import from.",
    )
    sandbox_bwrap_extra: tuple[str, ...] = setting(_arguments, (), "Appended to the arguments of bubblewrap.")
    sandbox_seatbelt_profile: str | None = setting(nullable(text()), None, "Replaces the seatbelt profile.")
    sandbox_network: Literal["none", "host"] = setting(one_of("none", "host"), "none", "Network of sandboxed programs.")
    sandbox_memory: int = setting(size(2**20), 256 * 2**20, "Memory of a sandboxed program and all it starts.")
    sandbox_cpus: float = setting(number(1024), 1.0, "Processors a sandboxed program may use.")
    sandbox_pids: int = setting(integer(1), 128, "Processes a sandboxed program may have.")
    docker_image: str = setting(_image, "ruby:3.3-slim", "Container image of run_ruby.")
    python_image: str = setting(_image, "python:3.12-slim", "Container image of run_python.")
    rust_image: str = setting(_image, "rust:1-slim", "Container image of run_rust.")
    node_image: str = setting(_image, "node:22-slim", "Container image of run_node.")
    oci_runtime: str | None = setting(
        nullable(text("a name or path such as runsc", r"[A-Za-z0-9/][^\s]*")),
        None,
        "What docker or podman runs containers of programs with; null for the engine's own choice.",
    )
    git_hooks: bool = setting(boolean(), False, "Let the hooks of a repository run in git_commit and git_checkout.")
    git_author: str | None = setting(
        nullable(text("Name <mail>", r"[^<>\n]*[^<>\s] <[^<>\s]+>")),
        None,
        "Identity of commits; null: the operator's global git identity, else `toolbox-mcp <toolbox-mcp@localhost>`.",
    )
    http_timeout: float = setting(
        seconds(),
        ToolSettings.http_timeout,
        "Seconds to connect, and for each read; a request may take three times as long.",
    )
    max_fetch_bytes: int = setting(integer(1), ToolSettings.max_fetch_bytes, "Bytes of a fetched body, decompressed.")
    max_download_bytes: int | None = setting(
        nullable(integer(1)),
        ToolSettings.max_download_bytes,
        "Bytes of a file of download_file; null: max_fetch_bytes.",
    )
    max_redirects: int = setting(integer(0, 50), ToolSettings.max_redirects, "Redirects that are followed.")
    web_allowlist: tuple[str, ...] = setting(
        _hosts, (), "Hosts the web tools may reach, with their subdomains; empty allows all public hosts."
    )
    web_denylist: tuple[str, ...] = setting(_hosts, (), "Hosts never reached, with their subdomains; wins.")
    web_ports: tuple[int, ...] = setting(
        list_of(integer(1, 65_535), "ports"), (80, 443, 8080, 8443), "Ports the web tools may use."
    )
    web_private_allow: tuple[str, ...] = setting(
        list_of(lower(text("host:port or host:*", rf"({_HOST}):([0-9]{{1,5}}|\*)")), "host:port pairs"),
        (),
        "host:port or host:* pairs freed from the rules on host names, ports and addresses.",
    )
    web_nat64: bool = setting(boolean(), False, "Judge addresses in 64:ff9b::/96 by the IPv4 address inside.")
    web_proxy: str | None = setting(
        nullable(lower(text("host:port", rf"({_HOST}|\[[0-9a-f:]+\]):[0-9]{{1,5}}"))),
        None,
        "HTTP proxy through which the web tools reach the addresses that they have judged, by CONNECT; it gets no names.",
    )
    web_robots: bool = setting(boolean(), False, "web_fetch obeys robots.txt; what cannot be asked for it is not read.")
    search_adapter: Any = setting(
        or_object(nullable(object_name_or(one_of("tavily", "brave", "searxng")))),
        None,
        "What web_search asks; null is tavily.",
    )
    tavily_api_key: str | None = setting(
        nullable(text("a key", r"[!-~]+")), None, "Key for Tavily.", secret=True, elsewhere="TAVILY_API_KEY"
    )
    brave_api_key: str | None = setting(
        nullable(text("a key", r"[!-~]+")), None, "Key for Brave Search.", secret=True, elsewhere="BRAVE_API_KEY"
    )
    searxng_url: str | None = setting(
        nullable(text("an http or https URL without credentials", r"https?://[^\s@?#]+")),
        None,
        "Address of a SearXNG server, which may be internal.",
        elsewhere="SEARXNG_URL",
    )
    gem_url: str = setting(
        text("an http or https URL without credentials", r"https?://[^\s@?#]+"),
        ToolSettings.gem_url,
        "Address of the gem server that gem asks; a mirror may be internal.",
    )
    records: bool = setting(boolean(), True, "Keep a record of every call.")
    records_file: Path = setting(
        path(), Path(), "SQLite file of the records, outside every root.", default_text="records.sqlite3, state folder"
    )
    records_url: str | None = setting(
        nullable(text("a URL such as postgresql://user:password@host/database", r"postgres(ql)?://\S+")),
        None,
        "PostgreSQL database of the records in place of the file, which several servers share; needs the extra postgres.",
        secret=True,
    )
    records_max_rows: int = setting(integer(1), 100_000, "Records kept; older ones go.")
    records_max_days: int = setting(integer(1), 30, "Days for which records are kept.")
    tool_result_max_length: int = setting(integer(0), 10_000, "Characters of output in a record.")
    otel_endpoint: str | None = setting(
        nullable(text("an http or https URL without credentials", r"https?://[^\s@?#]+")),
        None,
        "OTLP/HTTP endpoint such as http://localhost:4318 that spans and metrics of requests go to; needs the extra otel.",
    )
    transport: Literal["stdio", "http", "sse"] = setting(
        one_of("stdio", "http", "sse"), "stdio", "How clients connect.", flag="--transport"
    )
    host: str = setting(text("a host name or address", _HOST), "127.0.0.1", "Where http and sse listen.", flag="--host")
    port: int = setting(integer(0, 65_535), 8765, "Port of http and sse; 0 picks a free one.", flag="--port")
    token_file: Path | None = setting(
        nullable(path()),
        None,
        "Bearer tokens, one a line, `name:token` or `token`, 32 bytes at least, mode 0600, outside every root."
        " TOOLBOX_TOKEN holds a single one.",
        flag="--token-file",
    )
    allowed_hosts: tuple[str, ...] = setting(
        list_of(
            lower(text("host, host:port or host:*", rf"({_HOST})(:([0-9]{{1,5}}|\*))?")), "host, host:port or host:*"
        ),
        (),
        "Values of the HTTP Host header that are served.",
        default_text="localhost, 127.0.0.1, [::1] and host, with the port",
    )
    allowed_origins: tuple[str, ...] = setting(
        list_of(lower(text("an origin such as https://example.com", r"[A-Za-z][\w+.-]*://[^\s/?#@]+")), "origins"),
        (),
        "Values of the HTTP Origin header that are served.",
    )
    tls_cert: Path | None = setting(nullable(path()), None, "Certificate of http and sse, PEM.")
    tls_key: Path | None = setting(nullable(path()), None, "Key of the certificate, PEM, outside every root.")
    allow_plain_http: bool = setting(
        boolean(), False, "Serve beyond this machine without TLS, for instance behind a proxy that has it."
    )
    http_max_sessions: int = setting(
        integer(1),
        1000,
        "Sessions at a time. Where all are open, an idle one of the same principal ends for a new one.",
    )
    http_idle_timeout: float = setting(seconds(), 1800.0, "Seconds after which an idle session ends.")
    http_drain: float | None = setting(
        nullable(seconds()),
        None,
        "Seconds that requests under way may still take when http or sse is told to end; null: none. A second signal ends it at once.",
    )
    oauth_issuer: str | None = setting(
        nullable(text("a URL without credentials", r"https?://[^\s@?#]+")),
        None,
        "Authorization server whose access tokens are taken by http and sse.",
    )
    oauth_resource: str | None = setting(
        nullable(text("a URL without credentials", r"https?://[^\s@?#]+")),
        None,
        "URL at which clients reach this server; null: the bound address with /mcp or /sse.",
    )
    oauth_audience: str | None = setting(
        nullable(text()), None, "Audience that access tokens are for; null: oauth_resource."
    )
    oauth_scopes: Mapping[str, Literal["reader", "editor", "coder", "beside"]] = setting(
        map_of(text("a scope", r"[!#-\[\]-~]+"), one_of(*PRESETS), "a map of scopes to presets"),
        MappingProxyType({}),
        "Scopes that let somebody in, each with its preset; of several that a token has the last one here counts.",
    )
    principals: Mapping[str, Mapping[str, Any]] = setting(
        map_of(
            text("the name of a token", r"[A-Za-z0-9_.-]{1,64}"), settings_map(), "a map of names to maps of settings"
        ),
        MappingProxyType({}),
        "By the name of its token, the settings in which what a principal is served differs: roots, preset, tools, limits.",
    )
    terminal_blocklist: tuple[str, ...] | None = setting(
        nullable(list_of(lower(text("the name of a command", _COMMAND)), "names of commands")),
        None,
        "Commands that the orbiter terminal refuses; null: its 15 names, an empty list: none.",
    )
    terminal_timeout: float = setting(seconds(), 30.0, "Seconds for a command of the orbiter terminal.")
    orbiter_allow_all_paths: bool = setting(boolean(), False, "The orbiter filesystem is not confined to the roots.")
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        one_of("debug", "info", "warning", "error"), "warning", "What is logged to stderr.", flag="--log-level"
    )


SERVER_WIDE = frozenset(
    {
        "transport", "host", "port", "token_file", "allowed_hosts", "allowed_origins", "tls_cert", "tls_key",
        "allow_plain_http", "http_max_sessions", "http_idle_timeout", "http_drain", "max_in_flight", "principals", "records",
        "records_file", "records_url", "records_max_rows", "records_max_days", "tool_result_max_length", "confine", "log_level",
        "otel_endpoint", "unsafe_logger", "oauth_issuer", "oauth_resource", "oauth_audience", "oauth_scopes",
    }
)  # fmt: skip
"""Settings that no principal has of its own."""

ALIASES: Mapping[str, str] = MappingProxyType({"fs_root": "root"})
"""Other names of settings."""

SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "roots": "Folders and tools",
        "allow_unsafe": "Overrides, approvals and protection",
        "delete_mode": "Files",
        "max_output_tokens": "Answers and deadlines",
        "max_processes": "Programs",
        "shell_default": "Shell",
        "sandbox_runtime": "Sandbox",
        "git_hooks": "Git",
        "http_timeout": "Web",
        "records": "Records",
        "otel_endpoint": "Telemetry",
        "transport": "Transport",
        "oauth_issuer": "Principals",
        "terminal_blocklist": "Orbiter profile",
        "log_level": "Log",
    }
)
"""Headings of the documentation, by the setting they stand before."""


@cache
def table() -> Mapping[str, Setting]:
    """Return every setting by name, in the order of the documentation."""
    found = {}
    for each in fields(Settings):
        about: Setting = each.metadata["setting"]
        found[each.name] = Setting(**{**vars(about), "name": each.name})
    return MappingProxyType(found)


def secret_variables() -> frozenset[str]:
    """Return the names of the variables that hold secrets of this server."""
    secret = [about for about in table().values() if about.secret]
    names = ("TOOLBOX_TOKEN", *(name for about in secret for name in (about.variable, about.elsewhere) if name))
    return frozenset(names)
