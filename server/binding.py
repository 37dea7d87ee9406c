"""From what a client sent to what a handler gets: lossless repairs, one validation pass, one clear sentence."""

import difflib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from toolbox_mcp.safety.errors import Code, ToolError
from toolbox_mcp.safety.guard import Judging
from toolbox_mcp.tools.base import Tool

ASKED = "unsafe"


class Binder:
    """Binds the arguments of one tool. Made once for each tool, as it reads the tool's schema."""

    def __init__(self, tool: Tool) -> None:
        self._params = tool.params
        self._kinds = {name: prop.get("type") for name, prop in tool.wire().input_schema["properties"].items()}
        self._required = {name for name, info in tool.params.model_fields.items() if info.is_required()}

    def bind(self, arguments: Mapping[str, Any], judging: Judging) -> dict[str, Any]:
        """Return the handler's arguments, or raise ToolError: invalid_args first, then the first guard that refused."""
        repaired = {
            name: self._repaired(name, value)
            for name, value in arguments.items()
            if value is not None or name not in self._kinds or name in self._required
        }
        try:
            params = self._params.model_validate(repaired, context=judging)
        except ValidationError as e:
            errors = e.errors(include_url=False, include_context=False)
            # An argument that is missing may be there under a wrong name, so the unknown ones are told first.
            unknown = [error for error in errors if error["type"] == "extra_forbidden"]
            raise self._explained((unknown or errors)[0]) from None
        if judging.refusals:
            raise judging.refusals[0]
        return {name: getattr(params, name) for name in self._kinds if name != ASKED}

    def _repaired(self, name: str, value: Any) -> Any:
        kind = self._kinds.get(name)
        if isinstance(value, str):
            if kind in ("array", "object"):
                return _decoded(value, list if kind == "array" else dict)
            if kind == "boolean" and value.lower() in ("true", "false"):
                return value.lower() == "true"
        wrong_switch = kind == "boolean" and not isinstance(value, bool)
        if wrong_switch or (kind in ("integer", "number") and isinstance(value, bool)):
            raise ToolError(Code.INVALID_ARGS, f"{name}: expected {_a(str(kind))}, got {json.dumps(value)[:100]}")
        return value

    def _explained(self, error: ErrorDetails) -> ToolError:
        where = ".".join(map(str, error["loc"])) or "arguments"
        top = str(error["loc"][0]) if error["loc"] else ""
        if error["type"] == "extra_forbidden":
            near = difflib.get_close_matches(top, self._kinds, 1, 0.5)
            known = f"did you mean {near[0]}?" if near else f"known: {', '.join(self._kinds) or 'none'}"
            return ToolError(Code.INVALID_ARGS, f"{where[:100]}: no such argument", known)
        if error["type"] == "missing":
            return ToolError(Code.INVALID_ARGS, f"{where}: required, but missing")
        message = error["msg"][:1].lower() + error["msg"][1:]
        return ToolError(Code.INVALID_ARGS, f"{where}: {message.replace('input should be', 'expected')}"[:500])


def _decoded(value: str, kind: type) -> Any:
    """Return the JSON array or object that a string holds; anything else stays for validation to refuse."""
    try:
        decoded = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return decoded if isinstance(decoded, kind) else value


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
