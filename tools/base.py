"""What a tool is: a function, plus what its signature says about it."""

import inspect
import types
import warnings
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, wraps
from typing import Any, get_type_hints

from mcp_types import Tool as WireTool
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, create_model

from .results import Record, Result
from .schema import input_schema, record_schema


class Access(StrEnum):
    """The most that a tool can do; the gate and the annotations follow from it."""

    READ = "read"
    STATE = "state"
    NET = "net"
    WRITE = "write"
    EXEC = "exec"


HINTS: Mapping[Access, ToolAnnotations] = {
    access: ToolAnnotations(
        read_only_hint=hints[0], destructive_hint=hints[1], idempotent_hint=hints[2], open_world_hint=hints[3]
    )
    for access, hints in {
        Access.READ: (True, False, True, False),
        Access.STATE: (False, False, False, False),
        Access.NET: (True, False, True, True),
        Access.WRITE: (False, True, False, False),
        Access.EXEC: (False, True, False, True),
    }.items()
}
"""readOnly, destructive, idempotent and openWorld of each class. All four are always sent: the defaults are the worst case."""

ALLOWED_SERVICES: Mapping[Access, frozenset[Access]] = {
    Access.READ: frozenset(Access),
    Access.STATE: frozenset({Access.STATE, Access.WRITE, Access.EXEC}),
    Access.NET: frozenset({Access.NET, Access.WRITE, Access.EXEC}),
    Access.WRITE: frozenset({Access.WRITE, Access.EXEC}),
    Access.EXEC: frozenset({Access.EXEC}),
}
"""For a service of each class, the access that a tool must have to ask for it."""


_CHANGING = (Access.WRITE, Access.EXEC)


@dataclass(frozen=True)
class Service:
    """Marks a parameter that the server injects and no client sees; least is the access that it takes."""

    least: Access = Access.READ


EMPTY_COUNTS = object()
"""Marks an optional parameter in which an empty text is a value; elsewhere it counts as absent."""


Handler = Callable[..., Coroutine[Any, Any, Result]]
Deadline = Callable[[Any, Mapping[str, Any]], float]
"""(tool settings, bound arguments) -> seconds until the call is given up."""


@dataclass(frozen=True)
class Tool:
    """One tool, fully described. A value: making one registers nothing.

    aliases: further names of arguments that are taken and not listed.
    """

    name: str
    group: str
    description: str
    access: Access
    annotations: ToolAnnotations
    params: type[BaseModel]
    services: Mapping[str, type]
    record: type[Record] | None
    unsafe: bool
    deadline: Deadline | None
    gated: bool
    aliases: Mapping[str, str]
    run: Handler = field(repr=False)

    @property
    def changes(self) -> bool:
        """Return True if a call may change or run something."""
        return self.access in _CHANGING

    @property
    def needs_exec(self) -> bool:
        """Return True if the tool needs enable_exec_tools."""
        return self.changes and self.gated

    def to_mcp(self, *, structured: bool = False) -> WireTool:
        """Return the tool as MCP lists it. structured: with the schema of its record, where it answers with one."""
        return self._structured if structured and self.record and not self.record.holds_images else self._wire

    @cached_property
    def _wire(self) -> WireTool:
        return WireTool(
            name=self.name,
            title=self.name.replace("_", " ").capitalize(),
            description=self.description,
            input_schema=input_schema(self.params),
            annotations=self.annotations,
        )

    @cached_property
    def _structured(self) -> WireTool:
        assert self.record is not None
        return self._wire.model_copy(update={"output_schema": record_schema(self.record)})


def tool(
    access: Access,
    *,
    unsafe: bool = False,
    deadline: Deadline | None = None,
    gated: bool = True,
    **hints: bool,
) -> Callable[[Callable[..., Any]], Tool]:
    """Describe a function as a tool: its name, docstring and signature say the rest.

    A function that waits for nothing is plain, any other async. unsafe adds the argument of that name, which the pipeline
    answers for. gated: false for a tool that also reads, and itself refuses what needs enable_exec_tools. hints override single annotations (read_only_hint, destructive_hint, idempotent_hint, open_world_hint).
    """

    def describe(function: Callable[..., Any]) -> Tool:
        name = function.__name__
        waits = inspect.iscoroutinefunction(function)
        annotated = get_type_hints(function, include_extras=True)
        returns = annotated.pop("return", None)
        services: dict[str, type] = {}
        fields: dict[str, Any] = {}
        for argument, parameter in inspect.signature(function).parameters.items():
            service = _service(annotated[argument])
            if service:
                kind, least = service
                if access not in ALLOWED_SERVICES[least]:
                    raise TypeError(f"{name} asks for {kind.__name__}, so its access is {least}, not {access}")
                services[argument] = kind
            else:
                default = ... if parameter.default is parameter.empty else parameter.default
                fields[argument] = (annotated[argument], default)
        if unsafe:
            fields["unsafe"] = (bool, False)
        return Tool(
            name=name,
            group=["own", *function.__module__.split(".")][-2],
            description=inspect.cleandoc(function.__doc__ or ""),
            access=access,
            annotations=HINTS[access].model_copy(update=hints),
            params=_params(name, fields),
            services=types.MappingProxyType(services),
            record=returns if isinstance(returns, type) and issubclass(returns, Record) else None,
            unsafe=unsafe,
            deadline=deadline,
            gated=gated,
            aliases=types.MappingProxyType({}),
            run=function if waits else _waiting(function),
        )

    return describe


def _params(name: str, fields: dict[str, Any]) -> type[BaseModel]:
    with warnings.catch_warnings():
        # An argument may have the name of a method of BaseModel that nobody calls, such as json.
        warnings.filterwarnings(
            "ignore", message=r'Field name "\w+" (in "\w+" )?shadows an attribute', category=UserWarning
        )
        return create_model(name, __config__=ConfigDict(extra="forbid", validate_default=True), **fields)


def _waiting(function: Callable[..., Result]) -> Handler:
    @wraps(function)
    async def run(**given: Any) -> Result:
        return function(**given)

    return run


def _service(hint: Any) -> tuple[type, Access] | None:
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Service):
            return hint.__origin__, mark.least
    return None
