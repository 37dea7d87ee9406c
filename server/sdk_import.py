"""Importing the MCP SDK in less time, for the start of the command.

Most of a start is the SDK's import (docs/decisions/start-time.md has the figures). What is left out here
is never missed: each package and each model is completed by its first use.
"""

import dataclasses
import gc
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import copy
from functools import partial
from importlib.abc import Loader
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

KNOWN: Final = "2.14."
"""Versions of pydantic whose way to collect the fields of a model is known; any other collects them at import."""

_PATIENCE: Final = 10.0
"""Seconds for which a thread waits while another one completes a package; a guess far above what that takes."""


@contextmanager
def quick_imports(*, web: bool = True) -> Iterator[None]:
    """Make imports of the SDK inside the block cheaper; what it imported is kept from the garbage collector.

    For a process that goes on to serve: modules imported before are left alone. web: it serves HTTP.
    """
    collected = gc.isenabled()
    gc.disable()
    for name, names in NAMES.items():
        if name not in sys.modules and (spec := importlib.util.find_spec(name)) is not None:
            _put(_LatePackage(spec, names))
    late = [name for name in (NEWEST if web else WEB + NEWEST) if name not in sys.modules]
    sys.modules.update({name: _LateModule(name) for name in late})
    try:
        with _methods_compiled_at_first_use(), _models_built_at_first_use():
            yield
    finally:
        for name in late:
            _drop(name)
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
        self._late_lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        if name in self._late_names:
            return getattr(importlib.import_module(self._late_names[name]), name)
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        # In time, because whoever runs __init__ may be waiting for a module that the other thread imports.
        waited = self._late_lock.acquire(timeout=_PATIENCE)
        try:
            if waited and self._late_loader is not None:
                self._complete(self._late_loader)
        finally:
            if waited:
                self._late_lock.release()
        if name not in vars(self):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return vars(self)[name]

    def _complete(self, loader: Loader) -> None:
        # While __init__ runs, what it has not defined yet is missing, as in any import.
        self._late_loader = None
        try:
            loader.exec_module(self)
        except BaseException:
            self._late_loader = loader
            raise


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
    """Let pydantic put off fields and validators of what the block defines: two protocol versions, hundreds of models.

    `defer_build` is a setting of each model; that it is the default, and the same for adapters, for fields and for
    `model_rebuild`, is said in places that are no public names. Where they are gone the models are built at import.
    """
    with ExitStack() as restored:
        with suppress(ImportError, AttributeError, KeyError):
            from pydantic import TypeAdapter
            from pydantic._internal import _config

            defaults: dict[str, Any] = vars(_config)["config_defaults"]
            restored.callback(defaults.__setitem__, "defer_build", defaults["defer_build"])
            _replace(restored, TypeAdapter, "_defer_build", True)
            defaults["defer_build"] = True
        with suppress(ImportError, AttributeError, KeyError):
            from pydantic import VERSION

            if VERSION.startswith(KNOWN):
                _put_off_collecting(restored)
        yield


def _put_off_collecting(restored: ExitStack) -> None:
    from pydantic import BaseModel
    from pydantic._internal import _model_construction
    from pydantic.main import _rebuild_lock

    rebuild = partial(_rebuilt_at_first_use, vars(BaseModel)["model_rebuild"].__func__, _model_construction)
    _replace(restored, BaseModel, "model_rebuild", classmethod(rebuild))
    # The lock that models are built under, as collecting fields may build some: two could be taken in two orders.
    collect = partial(_put_off_fields, vars(_model_construction)["set_model_fields"], _rebuild_lock)
    _replace(restored, _model_construction, "set_model_fields", collect)


def _replace(restored: ExitStack, place: Any, name: str, value: Any) -> None:
    restored.callback(setattr, place, name, vars(place)[name])
    setattr(place, name, value)


class _FieldsDoneError(Exception):
    """A model has its fields; the rest is left to its first use."""


def _rebuilt_at_first_use(
    rebuild: Callable[..., bool | None], construction: ModuleType, model: Any, **how: Any
) -> bool | None:
    # This frame lies between the caller, whose names the annotations may need, and pydantic.
    how["_parent_namespace_depth"] = how.get("_parent_namespace_depth", 2) + 1
    # A model's first use asks for no errors. Whoever completes models in advance wants to see them.
    if how.get("force") or not how.get("raise_errors", True):
        return rebuild(model, **how)

    def enough(*_: Any) -> None:
        raise _FieldsDoneError

    with ExitStack() as restored, suppress(_FieldsDoneError):
        with suppress(KeyError):
            _replace(restored, construction, "GenerateSchema", enough)
        return rebuild(model, **how)
    return None


def _put_off_fields(collect: Callable[..., None], lock: AbstractContextManager[Any], model: Any, **how: Any) -> None:
    # What a private attribute or __pydantic_extra__ changes is looked at before the fields are, and a generic model may
    # be an argument of itself.
    own = vars(model).get("__annotations__")
    private = own is None or any(name.startswith("_") for name in (*own, *_assigned(how)))
    if private or any(model.__pydantic_generic_metadata__.values()):
        collect(model, **how)
    else:
        model.__pydantic_fields__ = _LateFields(lambda: collect(model, **how), model, lock)


def _assigned(how: Mapping[str, Any]) -> Iterable[str]:
    return getattr(how.get("namespace_info"), "private_candidates", ())


class _LateFields(dict[str, Any]):
    """The fields of a model until somebody asks for them; pydantic, which also looks past __get__, finds none."""

    def __init__(self, collect: Callable[[], None], model: Any, lock: AbstractContextManager[Any]) -> None:
        super().__init__()
        self._late = collect, model, lock
        self._collecting = False

    def __get__(self, instance: object, owner: object = None) -> Any:
        from pydantic import PydanticUndefinedAnnotation

        collect, model, lock = self._late
        with lock:
            if self._collecting:
                # An annotation that needs the model itself; as in a class statement, it is looked at again later.
                raise PydanticUndefinedAnnotation(model.__name__, f"fields of {model.__name__} are being collected")
            if vars(model)["__pydantic_fields__"] is self:
                self._collecting = True
                try:
                    collect()
                finally:
                    self._collecting = False
        return vars(model)["__pydantic_fields__"]


@contextmanager
def _methods_compiled_at_first_use() -> Iterator[None]:
    """Let dataclasses put off the methods that they write for a class: they compile up to six, of which few are called.

    Python 3.13 does it in another place, and later ones in a way that this does not know: there they are made at import.
    """
    with ExitStack() as restored:
        create, builder = vars(dataclasses).get("_create_fn"), vars(dataclasses).get("_FuncBuilder")
        if create is not None:
            _replace(restored, dataclasses, "_create_fn", partial(_LateMethod, create))
        elif builder is not None and sys.version_info < (3, 14):
            add = vars(builder)["add_fns_to_class"]
            _replace(restored, builder, "add_fns_to_class", lambda built, kind: _put_off_methods(add, built, kind))
        yield


def _put_off_methods(add: Callable[[Any, type], None], built: Any, kind: type) -> None:
    always = {name for name, unconditional in built.unconditional_adds.items() if unconditional}
    if any(name in vars(kind) for name in {*built.names} - always):
        # A class that has one of them already may be refused for it.
        add(built, kind)
        return

    def create(name: str) -> Any:
        one = copy(built)
        one.names, one.src = [name], [built.src[built.names.index(name)]]
        alone = type(kind.__name__, (), {})
        add(one, alone)
        return vars(alone)[name]

    for name in built.names:
        setattr(kind, name, _LateMethod(create, name))


class _LateMethod:
    """A method of a dataclass that is compiled, and takes its place in the class, when it is looked up."""

    __slots__ = ("__name__", "_late", "_made")

    def __init__(self, create: Callable[..., Any], name: str, *text: Any, **names: Any) -> None:
        self.__name__ = name
        self._late = create, text, names
        self._made: Any = None

    def __get__(self, instance: object, owner: type) -> Any:
        name = self.__name__
        method = self._make()
        for place in owner.__mro__:
            if vars(place).get(name) is self:
                method.__qualname__ = f"{place.__qualname__}.{name}"
                setattr(place, name, method)
        return method.__get__(instance, owner)

    def __call__(self, *args: Any) -> Any:
        # As a representation that guards against recursion calls the one it wraps.
        return self._make()(*args)

    def _make(self) -> Any:
        if self._made is None:
            create, text, names = self._late
            self._made = create(self.__name__, *text, **names)
        return self._made
