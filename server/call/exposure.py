"""Which tools exist, which are open, and which are listed. Decided once, at start."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...safety.errors import Code, ToolError
from ...tools.base import Tool

SHELL_TOOLS = frozenset({"shell", "run_script", "terminal", "shellcommand", "runscript"})
"""Tools that need enable_shell besides enable_exec_tools."""


@dataclass(frozen=True)
class ExposurePolicy:
    """The operator's switches; exec_tools and toolsets are None for all."""

    toolsets: Collection[str] | None = None
    enable_exec_tools: bool = False
    exec_tools: Collection[str] | None = None
    enable_shell: bool = False
    list_disabled: bool = False

    def allows_exec(self, name: str) -> bool:
        """Return True if an exec tool of this name is enabled, the shell switch aside."""
        return self.enable_exec_tools and (self.exec_tools is None or name in self.exec_tools)

    def refusal(self, tool: Tool) -> ToolError | None:
        """Return the answer to a call of a tool that is not enabled, or None for one that is."""
        if not tool.needs_exec:
            return None
        if not self.enable_exec_tools:
            return ToolError(
                Code.EXEC_DISABLED, f"{tool.name} is not enabled", "the operator can set enable_exec_tools: true"
            )
        if not self.allows_exec(tool.name):
            return ToolError(
                Code.EXEC_DISABLED, f"{tool.name} is not enabled", f"the operator can add {tool.name} to exec_tools"
            )
        if tool.name in SHELL_TOOLS and not self.enable_shell:
            return ToolError(
                Code.SHELL_DISABLED, f"{tool.name} is not enabled", "the operator can set enable_shell: true"
            )
        return None


@dataclass(frozen=True)
class Exposure:
    """The tools that exist, by name, and the refusal of each one that is not enabled."""

    tools: Mapping[str, Tool]
    closed: Mapping[str, ToolError]
    listed: tuple[str, ...]


def expose(catalogue: Iterable[Tool], gate: ExposurePolicy) -> Exposure:
    """Apply the switches to the catalogue. The listing is sorted by name."""
    tools = {t.name: t for t in catalogue if gate.toolsets is None or {t.name, t.group} & {*gate.toolsets}}
    closed = {name: refusal for name, t in tools.items() if (refusal := gate.refusal(t))}
    listed = tuple(sorted(name for name in tools if gate.list_disabled or name not in closed))
    return Exposure(MappingProxyType(tools), MappingProxyType(closed), listed)
