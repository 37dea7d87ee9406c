"""Importing the MCP SDK in less time, for the start of the command.

Three quarters of a start is the SDK's import (docs/decisions/start-time.md has the figures). What is left out here
is never missed: each package and each model is completed by its first use.
"""

import gc
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "mcp": {"MCPError": "mcp.shared.exceptions"},
    "mcp.server": {
        "CacheHint": "mcp.server.caching",
        "InitializationOptions": "mcp.server.models",
        "NotificationOptions": "mcp.server.lowlevel.server",
        "Server": "mcp.server.lowlevel.server",
        "ServerRequestContext": "mcp.server.context",
    },
}
"""Packages whose __init__ imports clients and servers we do not use, and where the names we use come from."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Make imports of the SDK inside the block cheaper; what it imported is kept from the garbage collector.

    For a process that goes on to serve: modules imported before are left alone.
    """
    collected = gc.isenabled()
    gc.disable()
    for name, names in NAMES.items():
        if name not in sys.modules and (spec := importlib.util.find_spec(name)) is not None:
            _put(_LatePackage(spec, names))
    _build_models_at_first_use()
    try:
        yield
    finally:
        # Nothing of what an import leaves becomes garbage, and looking at all of it takes as long as a start.
        gc.freeze()
        if collected:
            gc.enable()


class _LatePackage(ModuleType):
    """A package whose __init__ runs when somebody asks for a name that is not listed."""

    def __init__(self, spec: ModuleSpec, names: Mapping[str, str]) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__file__ = spec.origin
        self.__loader__ = spec.loader
        self.__package__ = spec.name
        self.__path__ = list(spec.submodule_search_locations or ())
        self._late_names = names
        self._late_loader = spec.loader

    def __getattr__(self, name: str) -> Any:
        if name in self._late_names:
            return getattr(importlib.import_module(self._late_names[name]), name)
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        loader, self._late_loader = self._late_loader, None
        if loader is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        loader.exec_module(self)
        return getattr(self, name)


def _put(package: ModuleType) -> None:
    sys.modules[package.__name__] = package
    parent, _, name = package.__name__.rpartition(".")
    if parent:
        setattr(sys.modules[parent], name, package)


def _build_models_at_first_use() -> None:
    """Let pydantic put off the validators of the SDK's wire models: two protocol versions, hundreds of models.

    The base class is no public name of the SDK. Without it the models are built at import, as they were.
    """
    with suppress(ImportError, AttributeError):
        from mcp_types._wire_base import WireModel

        WireModel.model_config["defer_build"] = True
