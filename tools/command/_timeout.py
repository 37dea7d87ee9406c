"""How long a call lets its program run."""

from typing import Annotated

from pydantic import Field

from ...safety.errors import Code, ToolError
from ..settings import ToolSettings

Timeout = Annotated[int | None, Field(ge=1, description="seconds until it is killed")]
"""What a call may say; without it the operator's setting holds."""


def longer(settings: ToolSettings) -> str:
    """Return what to do with a program that took too long."""
    return f"timeout takes up to {settings.max_tool_timeout:g} s; process_start is for what runs on"


def seconds(asked: int | None, default: float, settings: ToolSettings) -> float:
    """Return the seconds that a program gets; ToolError(invalid_args) above max_tool_timeout."""
    if asked is not None and asked > settings.max_tool_timeout:
        raise ToolError(
            Code.INVALID_ARGS,
            f"timeout: {asked} is above {settings.max_tool_timeout:g}, the most there is",
            "process_start runs a program without a time-out",
        )
    return default if asked is None else float(asked)
