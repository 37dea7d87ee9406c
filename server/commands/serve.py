"""What the commands do with a configuration: serve it, list its tools, make one call."""

import errno
import gc
import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import anyio
from mcp_types import CallToolResult, TextContent

from ...tools.catalogue import KNOWN_TOOLS, load_tools
from ...tools.context import CallContext
from ..budget.tokenizers import tokenizer_for
from ..build import Toolbox, build_server, exposure
from ..call.presentation import presented
from ..config.errors import ConfigError
from ..config.kinds import did_you_mean
from ..config.load import Config
from ..config.settings import secret_variables
from ..own_secrets import hide
from ..transports.shutdown import force_exit_after

log = logging.getLogger(__name__)

SESSION = "command-line"
"""The session that the records name for calls made by `toolbox-mcp call`."""


def serve(config: Config, env: Mapping[str, str], err: IO[str]) -> int:
    """Serve until the client leaves or a signal comes; return the exit status, minus the signal that ended it."""
    start_log(config, err)
    hide(secret_variables(), os.environ)
    confine(config)
    with force_exit_after() as on_stop, _telemetry(config):
        return -anyio.run(_serve, config, env, err, on_stop)


async def _serve(config: Config, env: Mapping[str, str], err: IO[str], on_stop: Callable[[], None]) -> int:
    async with AsyncExitStack() as stack:
        toolbox = await stack.enter_async_context(build_server(config, env))
        others = {
            name: await stack.enter_async_context(build_server(own, env))
            for name, own in (config.of_principals.items() if config.transport != "stdio" else ())
        }
        # What is loaded by now stays; the collector need not look at it again.
        gc.freeze()
        if config.transport == "stdio":
            from ..transports.stdio import serve as stdio

            if os.isatty(0):
                err.write("toolbox-mcp: an MCP client is expected on stdin and stdout; Ctrl-C ends this\n")
                err.flush()
            return await stdio.serve(toolbox.server, max_in_flight=config.max_in_flight, on_stop=on_stop)
        return await _serve_http(config, toolbox, others, err, on_stop)


async def _serve_http(
    config: Config, toolbox: Toolbox, others: Mapping[str, Toolbox], err: IO[str], on_stop: Callable[[], None]
) -> int:
    from ..transports.http import app as http

    def has_programs(session: str) -> bool:
        return any(each.has_programs(session) for each in (toolbox, *others.values()))

    def ready(url: str) -> None:
        err.write(f"toolbox-mcp: serving at {url}\n")
        err.flush()

    try:
        return await http.serve(
            toolbox.server,
            config.http_settings(),
            others={name: each.server for name, each in others.items()},
            keeps=has_programs,
            on_ready=ready,
            on_stop=on_stop,
        )
    except OSError as e:
        if e.errno == errno.EADDRINUSE:
            raise ConfigError(f"port {config.port} is in use at {config.host}; --port 0 picks a free one") from None
        raise ConfigError(f"{config.transport} at {config.host}:{config.port}: {e.strerror or e}") from None
    except ValueError as e:
        raise ConfigError(f"{config.transport} at {config.host}:{config.port}: {e}") from None


def _telemetry(config: Config) -> AbstractContextManager[None]:
    if config.otel_endpoint is None:
        return nullcontext()
    from ..telemetry import exporting

    return exporting(config.otel_endpoint)


def confine(config: Config) -> None:
    """Confine this process by Landlock as the configuration asks; ConfigError where that is not possible."""
    if config.confine == "off":
        return
    from ...sandbox.confine import ConfineError, apply

    state = config.places.state if config.records_url else config.records_file.parent
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    roots = [root for each in (config, *config.of_principals.values()) for root in each.roots]
    write: list[str | Path] = [*roots, state, tempfile.gettempdir()]
    if isinstance(config.unsafe_logger, Path):
        write.append(config.unsafe_logger.parent)
    read = [path for path in (config.tls_cert, config.tls_key) if path]
    try:
        apply(config.confine, write=write, read=read)
    except ConfineError as e:
        raise ConfigError(str(e)) from None


def start_log(config: Config, err: IO[str]) -> None:
    """Send the log to stderr from the level of the configuration on."""
    logging.basicConfig(
        stream=err, level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )


@dataclass(frozen=True)
class ToolRow:
    """One tool as `toolbox-mcp tools` shows it; state is `exposed`, or how it would become so."""

    name: str
    group: str
    access: str
    state: str
    tokens: int


def tool_rows(config: Config) -> list[ToolRow]:
    """Return every tool of the catalogue in its order, with the tokens of its entry in tools/list."""
    shown = exposure(config)
    tokenizer = tokenizer_for(config.tokenizer_model)
    rows = []
    for tool in load_tools(config.profile):
        closed = shown.closed.get(tool.name)
        if tool.name not in shown.tools:
            state = f"add {tool.group} to toolsets"
        else:
            state = (closed.hint or closed.error).removeprefix("the operator can ") if closed else "exposed"
            if state == "exposed" and tool.name not in shown.listed:
                state = "not listed: add to allowed_commands"
        wire = presented(tool.to_mcp(), config).model_dump_json(by_alias=True, exclude_none=True)
        rows.append(ToolRow(tool.name, tool.group, tool.access.value, state, tokenizer.count(wire)))
    return rows


def tool_table(config: Config, *, as_json: bool) -> str:
    """Return the rows as a table with totals, or as JSON."""
    rows = tool_rows(config)
    if as_json:
        return json.dumps([vars(row) for row in rows], indent=2) + "\n"
    cells = [("NAME", "GROUP", "ACCESS", "TOKENS", "STATE")]
    cells += [(row.name, row.group, row.access, str(row.tokens), row.state) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    out = []
    for name, group, access, tokens, state in cells:
        start = f"{name:{widths[0]}}  {group:{widths[1]}}  {access:{widths[2]}}  {tokens:>{widths[3]}}"
        out.append(f"{start}  {state}\n")
    names = exposure(config).listed
    listed = [row for row in rows if row.name in names]
    out.append(f"{len(rows)} tools, {len(listed)} listed with {sum(row.tokens for row in listed)} tokens\n")
    return "".join(out)


@dataclass(frozen=True)
class Printed:
    """An answer for a terminal; text ends with a line break."""

    text: str
    is_error: bool


def call(config: Config, env: Mapping[str, str], name: str, arguments: Mapping[str, Any], *, as_json: bool) -> Printed:
    """Make one call through the pipeline that clients use. Raises ConfigError for a tool that does not exist."""
    confine(config)
    result = anyio.run(_call, config, env, name, arguments)
    if as_json:
        return Printed(result.model_dump_json(by_alias=True, exclude_none=True, indent=2) + "\n", bool(result.is_error))
    blocks = [block.text if isinstance(block, TextContent) else f"({block.type})" for block in result.content]
    text = "\n".join(blocks)
    return Printed(text if text.endswith("\n") else text + "\n", bool(result.is_error))


async def _call(config: Config, env: Mapping[str, str], name: str, arguments: Mapping[str, Any]) -> CallToolResult:
    async with build_server(config, env) as toolbox:
        tools = toolbox.pipeline.exposure.tools
        if name not in tools:
            why = (
                f"its group {KNOWN_TOOLS[name]} is not in toolsets"
                if name in KNOWN_TOOLS
                else did_you_mean(name, tools)
            )
            raise ConfigError(f"no tool {name}{'; ' if why else ''}{why}")
        context = CallContext(id=f"{SESSION}:{os.getpid()}", client=("toolbox-mcp call", ""), session=SESSION)
        answer = await toolbox.pipeline.call(name, arguments, context)
        return CallToolResult.model_validate(answer)
