"""From a configuration to a server that can be served, and back to nothing running."""

import logging
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from mcp.server.lowlevel.server import Server

from ..safety.path_jail.roots import Roots
from ..safety.policy import Policy
from ..safety.web.policy import WebPolicy
from ..sandbox.backends.container import ENGINE_VARIABLES
from ..sandbox.environment import QUIET, inherit, scrub, which
from ..sandbox.git import Git, GitSettings
from ..sandbox.isolate.interpreter import find
from ..sandbox.isolate.worker import Worker
from ..sandbox.processes import Processes
from ..sandbox.programs import Programs, Toolchains, outside_roots
from ..sandbox.ripgrep import find_ripgrep
from ..sandbox.service import Sandbox, SandboxSettings
from ..sandbox.shell import ShellRunner, ShellSessions
from ..tools.base import Tool
from ..tools.catalogue import load_tools
from ..tools.settings import ToolSettings
from ..tools.web._http import Http
from ..tools.web._page_reader import PageReader
from ..tools.web._search import Brave, Engine, SearXng, Tavily
from .app import build
from .budget.budget import Budget
from .budget.tokenizers import tokenizer_for
from .call.exposure import Exposure, ExposurePolicy, expose
from .call.override_log import unsafe_logger
from .call.pipeline import Pipeline, Rules
from .call.presentation import presented, unusable
from .completions import Completions
from .config.errors import ConfigError
from .config.load import Config
from .config.user_dirs import containing_root
from .records.recorder import Records
from .resources.resources import Resources
from .resources.sessions import SessionStore
from .resources.subscriptions import Updates
from .services import Services, providers

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Toolbox:
    """A server put together: its pipeline, its MCP face, and its records if they are kept."""

    pipeline: Pipeline
    server: Server[Any]
    records: Records | None
    processes: Processes

    def has_programs(self, session: str) -> bool:
        """Return True if programs run in the background of a session of streamable HTTP."""
        return any(each.status == "running" for each in self.processes.of(f"session:{session}").list())


def exposure(config: Config, catalogue: Iterable[Tool] | None = None, env: Mapping[str, str] | None = None) -> Exposure:
    """Return the tools that exist, are open and are listed under a configuration.

    env: the server's environment, by which what is not installed is not listed; None leaves that unasked.
    """
    toolsets = {"all": None, "none": ()}[config.toolsets] if isinstance(config.toolsets, str) else config.toolsets
    found = expose(
        load_tools(config.profile) if catalogue is None else catalogue,
        ExposurePolicy(
            toolsets=None if toolsets is None else (*toolsets, config.profile),
            enable_exec_tools=config.enable_exec_tools,
            exec_tools=None if config.exec_tools == "all" else config.exec_tools,
            enable_shell=config.enable_shell,
            list_disabled=config.list_disabled,
        ),
    )
    if config.list_disabled:
        return found
    hidden = unusable(found.listed, config, env)
    return replace(found, listed=tuple(name for name in found.listed if name not in hidden))


@asynccontextmanager
async def build_server(
    config: Config, env: Mapping[str, str], catalogue: Iterable[Tool] | None = None
) -> AsyncIterator[Toolbox]:
    """Put the server together; with the block everything that it opened or started ends.

    env: the server's environment, of which programs get what env_passthrough names.
    """
    async with AsyncExitStack() as stack:
        roots = Roots(
            config.roots,
            protected=config.protected,
            own_files=config.own_files,
            block_symlinks=config.block_symlinks,
            no_xdev=config.jail_no_xdev,
        )
        stack.callback(roots.close)
        worker = await stack.enter_async_context(Worker())
        records = None
        if config.records:
            records = await stack.enter_async_context(_records(config))
        settings = tool_settings(config, env)
        env = trusted_environment(env, roots.folders)
        passed = {**QUIET, **scrub(env, config.env_passthrough)}
        sandbox = Sandbox(sandbox_settings(config, env), roots=roots)
        stack.push_async_callback(sandbox.aclose)
        zygote = sandbox.zygote
        programs = Programs(str(roots.base), passed, config.project_bin, config.project_tools, zygote=zygote)
        ripgrep = find_ripgrep(roots.descriptors)
        stack.push_async_callback(ripgrep.aclose)
        git = Git(git_settings(config, env), zygote)
        stack.push_async_callback(git.aclose)
        base = str(roots.base)
        processes = Processes(
            worker,
            programs,
            limit=config.max_processes,
            memory=config.process_memory,
            pattern_seconds=config.regex_timeout,
        )
        stack.push_async_callback(processes.aclose)
        shells = ShellRunner(
            zygote,
            cwd=base,
            host=env,
            env={**QUIET, **inherit(env)} if config.shell_env == "inherit" else passed,
            base_env=config.shell_base_env,
            default=config.shell_default,
            output_bytes=config.shell_output_bytes,
            sandbox=sandbox if config.shell_sandbox else None,
            auto=config.shell_sandbox == "auto",
        )
        sessions = ShellSessions()
        tools = exposure(config, catalogue, env)
        resources = Resources(
            processes,
            Updates(),
            lambda owner: parts.owners.of(owner).session.todos.rendered(),
            roots=roots if "read_file" in tools.listed else None,
            records=records,
        )
        stack.push_async_callback(resources.aclose)

        def forget(owner: str) -> None:
            resources.drop(owner)
            processes.drop(owner)
            sessions.end_owner(owner)

        web = WebPolicy(
            config.web_allowlist, config.web_denylist, config.web_ports, config.web_private_allow, config.web_nat64
        )
        http = Http(
            web, config.http_timeout, config.max_fetch_bytes, config.max_redirects, proxy=config.web_proxy or ""
        )
        parts = Services(
            http=http,
            reader=PageReader(http, config.web_robots),
            engine=search_engine(config, http),
            settings=settings,
            programs=programs,
            worker=worker,
            ripgrep=ripgrep,
            git=git,
            sandbox=sandbox,
            owners=SessionStore(on_drop=forget),
            toolchains=Toolchains(
                base, {**QUIET, **inherit(env)}, config.project_bin, config.project_tools, zygote=zygote
            ),
            processes=processes,
            shells=shells,
            shell_sessions=sessions,
        )
        pipeline = Pipeline(
            tools,
            Policy(roots, config.commands, web, config.orbiter_allow_all_paths),
            settings,
            Rules(
                allow_unsafe=config.allow_unsafe,
                approvals=config.approvals,
                tool_timeouts=config.tool_timeouts,
                default_tool_timeout=config.default_tool_timeout,
                max_tool_timeout=config.max_tool_timeout,
                max_in_flight=config.max_in_flight,
                structured_output=config.structured_output,
            ),
            Budget(
                max(1, config.max_output_tokens),
                tokenizer_for(config.tokenizer_model),
                structured=config.structured_output,
            ),
            providers(parts),
            recorder=records,
            unsafe_logger=unsafe_logger(config.unsafe_logger),
        )
        completions = Completions(
            processes,
            roots if "read_file" in tools.listed else None,
            git.reads if "git_log" in tools.listed else None,
            records,
        )
        yield Toolbox(
            pipeline,
            build(pipeline, parts.owners, resources, completions, lambda tool: presented(tool, config, env)),
            records,
            processes,
        )


def trusted_environment(env: Mapping[str, str], roots: Sequence[Path]) -> dict[str, str]:
    """Return env with a PATH that leads into no root: who may write a file there must not thereby become a program."""
    return outside_roots(env, lambda folder: containing_root(Path(folder, "any"), roots) is not None)


def tool_settings(config: Config, env: Mapping[str, str]) -> ToolSettings:
    """Return the settings that tools read; they have the same names. system_trash comes from the environment."""

    def enabled(tool: str) -> bool:
        return config.enable_exec_tools and (config.exec_tools == "all" or tool in config.exec_tools)

    made: dict[str, Any] = {
        "system_trash": system_trash(env),
        "http_writes": enabled("http_request"),
        "orbiter_writes": enabled("filesystem"),
    }
    names = {field.name for field in fields(ToolSettings)} - made.keys()
    return ToolSettings(**{name: getattr(config, name) for name in names}, **made)


def search_engine(config: Config, http: Http) -> Engine:
    """Return the search engine. Raises ConfigError where an operator's own engine cannot be imported."""
    match config.search_adapter:
        case None | "tavily":
            return Tavily(http, config.tavily_api_key)
        case "brave":
            return Brave(http, config.brave_api_key)
        case "searxng":
            return SearXng(http, config.searxng_url)
        case str(name):
            try:
                engine: Engine = find(name)  # type: ignore[assignment]
            except (ImportError, AttributeError, ValueError) as e:
                raise ConfigError(f"search_adapter: {name} cannot be imported ({e})") from None
            return engine
        case engine:
            return engine  # type: ignore[no-any-return]


def system_trash(env: Mapping[str, str]) -> Path | None:
    """Return the user's trash folder, existing or not; None where it is no plain folder.

    Linux and others: the home trash of the FreeDesktop.org Trash specification. macOS: ~/.Trash.
    """
    home = env.get("HOME", "")
    if sys.platform == "win32" or not home.startswith("/"):
        return None
    if sys.platform == "darwin":
        return Path(home, ".Trash")
    data = env.get("XDG_DATA_HOME", "")
    return Path(data if data.startswith("/") else f"{home}/.local/share", "Trash")


def git_settings(config: Config, env: Mapping[str, str]) -> GitSettings:
    """Return the runner of git; env is the server's environment, with a PATH that holds no folder of a root."""
    return GitSettings(
        binary=which("git", env),
        temp=Path(tempfile.gettempdir()),
        env=scrub(env, config.env_passthrough),
        home=str(config.places.home),
        config_home=env.get("XDG_CONFIG_HOME"),
        timeout=config.command_timeout,
        hooks=config.git_hooks,
        author=config.git_author,
    )


def sandbox_settings(config: Config, env: Mapping[str, str]) -> SandboxSettings:
    """Return the settings of the sandbox; env is the server's environment."""
    return SandboxSettings(
        state=config.places.state,
        temp=Path(tempfile.gettempdir()),
        home=str(config.places.home),
        env=scrub(env, config.env_passthrough),
        engine_env={name: env[name] for name in ENGINE_VARIABLES if name in env},
        runtime=config.sandbox_runtime,
        packages=tuple(map(str, config.sandbox_packages)),
        bwrap_extra=config.sandbox_bwrap_extra,
        seatbelt_profile=config.sandbox_seatbelt_profile,
        network=config.sandbox_network == "host",
        confined=config.confine != "off",
        memory=config.sandbox_memory,
        cpus=config.sandbox_cpus,
        pids=config.sandbox_pids,
        timeout=config.command_timeout,
        oci_runtime=config.oci_runtime,
        images={
            "python": config.python_image,
            "ruby": config.docker_image,
            "rust": config.rust_image,
            "node": config.node_image,
        },
    )


@asynccontextmanager
async def _records(config: Config) -> AsyncIterator[Records]:
    records = Records.open(
        config.records_place,
        max_rows=config.records_max_rows,
        max_days=config.records_max_days,
        result_max_length=config.tool_result_max_length,
        root=config.root,
    )
    try:
        yield records
    finally:
        records.close()
