"""The tools for programs that embed them without MCP: the same handlers, guards, budget and records."""

import os
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from mcp_types import CallToolResult
from mcp_types import Tool as ToolEntry

from ..safety.errors import Code, ToolError
from ..tools.base import Tool
from ..tools.catalogue import load_tools
from ..tools.context import CallContext
from .build import Toolbox, build_server
from .call.presentation import presented
from .config.load import load


class Registry:
    """The tools of one configuration. Use it as an asynchronous context manager: what it started ends with the block."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        tools: Iterable[Tool] = (),
        default_timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        """Read a configuration. Raises ConfigError for a setting that is wrong, ValueError for a tool that is there already.

        tools: of the embedder's own, made by `tool`, beside the built-in ones. default_timeout: seconds of a call whose tool
        names none. env: the environment that programs get what env_passthrough names of; this process's own if None.
        settings: as in docs/configuration.md; they win over the settings file and the environment.
        """
        self._env = dict(os.environ if env is None else env)
        self._catalogue = [*load_tools()]
        names = {tool.name for tool in self._catalogue}
        for tool in tools:
            if tool.name in names:
                raise ValueError(f"there is a tool {tool.name} already")
            names.add(tool.name)
            self._catalogue.append(tool)
        given: dict[str, object] = {"root": os.fspath(root), **settings}
        if default_timeout is not None:
            given["default_tool_timeout"] = default_timeout
        self._config = load(
            [],
            self._env,
            cwd=Path.cwd(),
            known_tools={tool.name: tool.group for tool in self._catalogue},
            overrides=given,
        )
        self._stack = AsyncExitStack()
        self._toolbox: Toolbox | None = None
        self._session = f"registry:{uuid4().hex[:12]}"

    async def __aenter__(self) -> Self:
        """Open the roots and start what the tools need."""
        self._toolbox = await self._stack.enter_async_context(build_server(self._config, self._env, self._catalogue))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """End every program, and close what was opened."""
        self._toolbox = None
        await self._stack.aclose()

    def tools(self) -> list[ToolEntry]:
        """Return the listed tools as MCP describes them, sorted by name; copies, which change nothing here."""
        exposure = self._open.pipeline.exposure
        return [
            presented(exposure.tools[name].to_mcp(), self._config).model_copy(deep=True) for name in exposure.listed
        ]

    def lookup(self, name: str) -> ToolEntry | None:
        """Return a tool that exists, listed or not; None for any other name."""
        tool = self._open.pipeline.exposure.tools.get(name)
        return presented(tool.to_mcp(), self._config).model_copy(deep=True) if tool else None

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> CallToolResult:
        """Make one call. A failure is a result with is_error and {error, code, hint}, as a client gets it.

        timeout: seconds for this call in place of the tool's own deadline, 0 for none. ToolError not_found for a tool that
        does not exist.
        """
        pipeline = self._open.pipeline
        if name not in pipeline.exposure.tools:
            raise ToolError(Code.NOT_FOUND, f"there is no tool {name[:100]}", "tools() lists those there are")
        context = CallContext(id=self._session, client=("Registry", ""), session=self._session)
        return CallToolResult.model_validate(await pipeline.call(name, arguments or {}, context, timeout=timeout))

    @property
    def _open(self) -> Toolbox:
        if self._toolbox is None:
            raise RuntimeError("the registry is not open; use it in an `async with` block")
        return self._toolbox
