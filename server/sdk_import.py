"""Importing the MCP SDK in less time, for the start of the command.

Most of a start is the SDK's import (docs/decisions/start-time.md). Each package, module and model that is put off here
is completed by its first use.
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
"""Packages whose __init__ imports clients and servers that are not used here."""

WEB: Final = (
    "mcp.server.auth.middleware.auth_context", "mcp.server.auth.middleware.bearer_auth", "mcp.server.auth.provider",
    "mcp.server.auth.routes", "mcp.server.auth.settings", "mcp.server.streamable_http",
    "mcp.server.streamable_http_manager", "mcp.server.transport_security", "starlette.applications",
    "starlette.middleware", "starlette.middleware.authentication", "starlette.routing",
)  # fmt: skip
"""Modules that the SDK's server uses only to make a web application or to seal a client's state."""

NEWEST: Final = ("mcp_types._v2026_07_28",)
"""Models of a protocol version that few clients speak; the SDK looks into them when it validates for one that does."""

_COMPLETE_TIMEOUT: Final = 10.0
"""Seconds a thread waits while another completes a package; a guess, far above what that takes."""


@contextmanager
def quick_imports(*, web: bool = True) -> Iterator[None]:
    """Make imports of the SDK inside the block cheaper; what it imported is kept from the garbage collector.

    For a process that goes on to serve: modules imported before are left alone. web: it serves HTTP.
    """
    collected = gc.isenabled()
    gc.disable()
    for name in PACKAGES:
        if name not in sys.modules and (spec := importlib.util.find_spec(name)) is not None:
            package = sys.modules[name] = _LatePackage(spec)
            if "." in name:
                setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], package)
    late = [name for name in (NEWEST if web else WEB + NEWEST) if name not in sys.modules]
    sys.modules.update({name: _LateModule(name) for name in late})
    try:
        with _models_built_at_first_use():
            yield
    finally:
        for name in late:
            _drop(name)
        # What an import leaves never becomes garbage, and a collection of it takes as long as a start.
        gc.freeze()
        if collected:
            gc.enable()


class _LatePackage(ModuleType):
    """A package whose __init__ runs when somebody asks for a name that it defines."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        vars(self).update(vars(importlib.util.module_from_spec(spec)))
        self._late_loader = spec.loader
        self._late_lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        # With a timeout: the thread that runs __init__ may wait for a module that this one is importing.
        waited = self._late_lock.acquire(timeout=_COMPLETE_TIMEOUT)
        loader, self._late_loader = self._late_loader, None
        try:
            if waited and loader is not None:
                loader.exec_module(self)
        except BaseException:
            self._late_loader = loader
            raise
        finally:
            if waited:
                self._late_lock.release()
        return super().__getattribute__(name)


class _LateModule(ModuleType):
    """Stands in sys.modules for a module that is imported when one of its names is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _LateName(self.__name__, name)


class _LateName:
    """A name of a late module, which is imported when the name is called, read, or used in a class or a type."""

    def __init__(self, module: str, name: str) -> None:
        self._late = module, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # An argument may be the default of a parameter, which is a late name too.
        given = {name: _resolve(value) if isinstance(value, _LateName) else value for name, value in kwargs.items()}
        return _resolve(self)(*args, **given)

    def __getattr__(self, name: str) -> Any:
        return getattr(_resolve(self), name)

    def __or__(self, other: Any) -> Any:
        return _resolve(self) | other

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, _resolve(self))

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any, ...]:
        return (_resolve(self),)

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(_resolve(self))


def _resolve(late: _LateName) -> Any:
    module, name = late._late
    _drop(module)
    return getattr(importlib.import_module(module), name)


def _drop(module: str) -> None:
    if isinstance(sys.modules.get(module), _LateModule):
        del sys.modules[module]


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
