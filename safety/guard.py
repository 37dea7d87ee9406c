"""Guards: checks that hang on parameter types, so that no handler can forget one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from .errors import ToolError
from .policy import Policy


@dataclass
class GuardContext:
    """What the guards of one call share: the policy, and whether the operator granted `unsafe`.

    overrides collects what `unsafe` lifted; refusals what the guards refused, in the order of the parameters.
    """

    policy: Policy
    unsafe: bool = False
    overrides: list[str] = field(default_factory=list)
    refusals: list[ToolError] = field(default_factory=list)

    def override(self, detail: str) -> bool:
        """Return True if a guard lets pass what it would refuse, and note that it did."""
        if self.unsafe:
            self.overrides.append(detail)
        return self.unsafe


@dataclass(frozen=True)
class Guard:
    """Turn one raw argument into a checked value, or refuse it.

    check gets the value and the GuardContext of the call, and raises ToolError to refuse; accepts is the type
    that a client sends. raw: check sees what was sent even where it is not of that type, so that the guard's
    own code answers for it instead of invalid_args.
    """

    check: Callable[[Any, GuardContext], Any]
    accepts: Any = str
    raw: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def run(value: Any, info: ValidationInfo) -> Any:
            assert isinstance(info.context, GuardContext)
            try:
                return self.check(value, info.context)
            except ToolError as refusal:
                # Kept, not raised, so that an argument which does not fit the schema is told first.
                info.context.refusals.append(refusal)
                return None

        accepted = handler.generate_schema(self.accepts)
        if self.raw:
            # The inner schema is only told to clients; nothing is checked against it.
            return core_schema.with_info_wrap_validator_function(lambda value, _, info: run(value, info), accepted)
        return core_schema.with_info_after_validator_function(run, accepted)
