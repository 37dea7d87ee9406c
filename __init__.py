"""toolbox-mcp: developer tools for AI agents, behind guards and a sandbox.

What is named here is for programs that embed the tools; everything else is internal.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .safety.errors import Code, ToolError
    from .server.config.errors import ConfigError
    from .server.registry import Registry
    from .tools.base import Access, tool
    from .tools.results import Text

__all__ = ["Access", "Code", "ConfigError", "Registry", "Text", "ToolError", "tool"]

_WHERE = {
    "Access": "tools.base",
    "Code": "safety.errors",
    "ConfigError": "server.config.errors",
    "Registry": "server.registry",
    "Text": "tools.results",
    "ToolError": "safety.errors",
    "tool": "tools.base",
}


def __getattr__(name: str) -> Any:
    # The server's start must not import what it does not use, and every module of it imports this one.
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
