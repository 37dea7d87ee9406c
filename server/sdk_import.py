"""Importing the MCP SDK in less time, for the start of the command.

Most of a start is the SDK's import (docs/decisions/start-time.md has the figures). What is left out here
is never missed: each package and each model is completed by its first use.
"""

import gc
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

PACKAGES: Final = ("mcp", "mcp.server")
"""Packages whose __init__ imports clients and servers that are not used here; what is needed is imported from their modules."""

WEB: Final = (
    "mcp.server.auth.middleware.auth_context",
    "mcp.server.auth.middleware.bearer_auth",
    "mcp.server.auth.provider",
    "mcp.server.auth.routes",
    "mcp.server.auth.settings",
    "mcp.server.streamable_http",
    "mcp.server.streamable_http_manager",
    "mcp.server.transport_security",
    "starlette.applications",
    "starlette.middleware",
    "starlette.middleware.authentication",
    "starlette.routing",
)
"""Modules of which the SDK's server needs nothing before it makes a web application or seals what a client holds."""

NEWEST: Final = ("mcp_types._v2026_07_28",)
"""Models of a protocol version that few clients speak; the SDK looks into them when it validates for one that does."""

_COMPLETE_TIMEOUT: Final = 10.0
"""Seconds for which a thread waits while another one completes a package; a guess far above what that takes."""


@contextmanager
def quick_imports(*, web: bool = True) -> Iterator[None]:
    """Make imports of the SDK inside the block cheaper; what it imported is kept from the garbage collector.

    For a process that goes on to serve: modules imported before are left alone. web: it serves HTTP.
    """
    collected = gc.isenabled()
    gc.disable()
    for name in PACKAGES:
        if name not in sys.modules and (spec := importlib.util.find_spec(name)) is not None:
            _put(_LatePackage(spec))
    late = [name for name in (NEWEST if web else WEB + NEWEST) if name not in sys.modules]
    sys.modules.update({name: _LateModule(name) for name in late})
    try:
        with _models_built_at_first_use():
            yield
    finally:
        for name in late:
            _drop(name)
        # Nothing of what an import leaves becomes garbage, and looking at all of it takes as long as a start.
        gc.freeze()
        if collected:
            gc.enable()


class _LatePackage(ModuleType):
    """A package whose __init__ runs when somebody asks for a name that it defines."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__, self.__file__, self.__loader__ = spec, spec.origin, spec.loader
        self.__package__ = spec.name
        self.__path__ = list(spec.submodule_search_locations or ())
        self._late_loader = spec.loader
        self._late_lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        # In time, because whoever runs __init__ may be waiting for a module that the other thread imports.
        waited = self._late_lock.acquire(timeout=_COMPLETE_TIMEOUT)
        try:
            loader, self._late_loader = self._late_loader, None
            if waited and loader is not None:
                loader.exec_module(self)
        except BaseException:
            self._late_loader = loader
            raise
        finally:
            if waited:
                self._late_lock.release()
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


class _LateModule(ModuleType):
    """A module that is not imported before something of it is used; it is in sys.modules during an import only."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _LateName(self.__name__, name)


class _LateName:
    """Something of a module that is imported when it is called, looked into, or made a part of a class or a type."""

    def __init__(self, module: str, name: str) -> None:
        self._late = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # What it is called with may be the default of a parameter, and stand for a number.
        given = {name: _meant(value) if isinstance(value, _LateName) else value for name, value in kwargs.items()}
        return _meant(self)(*args, **given)

    def __getattr__(self, name: str) -> Any:
        return getattr(_meant(self), name)

    def __getitem__(self, item: Any) -> Any:
        return _meant(self)[item]

    def __or__(self, other: Any) -> Any:
        return _meant(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | _meant(self)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, _meant(self))

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (_meant(self),)

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(_meant(self))


def _meant(late: _LateName) -> Any:
    module, name = late._late
    _drop(module)
    return getattr(importlib.import_module(module), name)


def _drop(module: str) -> None:
    if isinstance(sys.modules.get(module), _LateModule):
        del sys.modules[module]


def _put(package: ModuleType) -> None:
    sys.modules[package.__name__] = package
    parent, _, name = package.__name__.rpartition(".")
    if parent:
        setattr(sys.modules[parent], name, package)


@contextmanager
def _models_built_at_first_use() -> Iterator[None]:
    """Make pydantic's `defer_build` the default in the block: two protocol versions are hundreds of models.

    It is a setting of each model; the default is no public name. Where that is gone the models are built at import.
    """
    with ExitStack() as restored:
        with suppress(ImportError, AttributeError, KeyError):
            from pydantic._internal import _config

            defaults: dict[str, Any] = vars(_config)["config_defaults"]
            restored.callback(defaults.__setitem__, "defer_build", defaults["defer_build"])
            defaults["defer_build"] = True
        yield
