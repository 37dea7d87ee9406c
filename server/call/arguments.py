"""From what a client sent to what a handler gets: lossless repairs, one validation pass, one clear sentence."""

import difflib
import json
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ...safety.errors import Code, ToolError
from ...safety.guard import GuardContext
from ...tools.base import EMPTY_COUNTS, Tool

ASKED = "unsafe"


MEANT = tuple(
    words.split()
    for words in (
        "path file filename file_name filepath file_path dir directory folder cwd work_dir base",
        "pattern regex regexp query search term match",
        "command cmd program executable",
        "args arguments argv parameters",
        "content contents text data body",
        "old_string old old_str old_text search find",
        "new_string new new_str new_text replace replacement",
        "replacement replace new new_string with",
        "start_line offset start from_line line",
        "end_line end to_line limit",
        "glob include files file_pattern",
        "limit count max max_results max_count head_limit n number",
        "max_depth depth levels",
        "source from src",
        "destination dest to target",
        "code source script program",
        "id process process_id pid proc",
        "text input data stdin",
        "wait timeout seconds",
        "ignore_case case_insensitive case_sensitive _i",
        "after _a",
        "before _b",
        "context _c",
        "numbered _n line_numbers",
        "autocorrect fix autofix",
        "todos tasks items",
    )
)
"""Names that mean the same elsewhere: a model that knows another server's tools uses those."""

CLOSE = 0.6
"""Similarity from which a name is taken for a slip of another; a guess."""

JSON_NAMES = {str: "a string", list: "a list", dict: "an object", bool: "a boolean", int: "a number", float: "a number"}
WANTED = {"string_type": str, "list_type": list, "dict_type": dict}
NUMBERS = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
}
BOUNDS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}


class Binder:
    """Binds the arguments of one tool. Made once for each tool, as it reads the tool's schema."""

    def __init__(self, tool: Tool) -> None:
        self._params = tool.params
        self._aliases = tool.aliases
        properties = tool.to_mcp().input_schema["properties"]
        self._kinds = {name: prop.get("type") for name, prop in properties.items()}
        self._texts = {name for name, prop in properties.items() if prop.get("items", {}).get("type") == "string"}
        self._many = [name for name, kind in self._kinds.items() if kind in ("array", "object")]
        self._most = {name: prop["maximum"] for name, prop in properties.items() if "maximum" in prop}
        fields = tool.params.model_fields
        self._required = {name for name, info in fields.items() if info.is_required()}
        self._kept = self._required | {name for name, info in fields.items() if EMPTY_COUNTS in info.metadata}

    def bind(self, arguments: Mapping[str, Any], judging: GuardContext) -> dict[str, Any]:
        """Return the handler's arguments, or raise ToolError: invalid_args first, then the first guard that refused."""
        arguments = {self._aliases.get(name, name): value for name, value in arguments.items()}
        # An argument that is missing may be there under a wrong name, so the unknown ones are told first.
        for name in arguments:
            if name not in self._kinds:
                raise ToolError(Code.INVALID_ARGS, f"{name[:100]}: no such argument", self._meant(name, arguments))
        repaired = {
            name: self._repaired(name, value)
            for name, value in arguments.items()
            if name in self._kept or (value is not None and value not in ("", [], {}))
        }
        for name in self._many:
            if name in repaired:
                self._insist_on_plain_items(name, repaired[name])
        try:
            # What model_validate() does before this takes as long as the validation of two arguments.
            params = self._params.__pydantic_validator__.validate_python(repaired, context=judging)
        except ValidationError as e:
            raise self._explained(e.errors(include_url=False)[0]) from None
        if judging.refusals:
            raise judging.refusals[0]
        given = dict(params.__dict__)
        given.pop(ASKED, None)
        return given

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
        if name in self._most and isinstance(value, (int, float)) and value > self._most[name]:
            # Who asks for more than there may be is served with the most.
            return self._most[name]
        return value

    def _insist_on_plain_items(self, name: str, value: Any) -> None:
        """Refuse the first item that cannot fit: validation keeps a kilobyte for each one, of millions in a message."""
        kind = self._kinds[name]
        items: Iterable[tuple[Any, Any]] = ()
        plain: type | tuple[type, ...] = str
        if kind == "array" and name in self._texts and isinstance(value, list):
            items = enumerate(value)
        elif kind == "object" and isinstance(value, dict):
            items, plain = value.items(), (str, int, float)
        for where, item in items:
            if not isinstance(item, plain):
                got = JSON_NAMES.get(type(item), "null")
                raise ToolError(Code.INVALID_ARGS, f"{name}.{where}"[:100] + f": expected a string, got {got}")

    def _explained(self, error: ErrorDetails) -> ToolError:
        where = ".".join(map(str, error["loc"])) or "arguments"
        if error["type"] == "missing":
            return ToolError(Code.INVALID_ARGS, f"{where}: required, but missing")
        if wanted := WANTED.get(error["type"]):
            value = error["input"]
            got = JSON_NAMES.get(type(value), "null")
            single = wanted is list and isinstance(value, str) and len(value) < 100 and value[:1] not in "[{"
            example = f"such as {json.dumps(_items(where, value), ensure_ascii=False)}" if single else None
            return ToolError(Code.INVALID_ARGS, f"{where}: expected {JSON_NAMES[wanted]}, got {got}"[:500], example)
        if number := NUMBERS.get(error["type"]):
            return ToolError(Code.INVALID_ARGS, f"{where}: expected {number}, got {json.dumps(error['input'])[:100]}")
        if bound := BOUNDS.get(error["type"]):
            words, key = bound
            return ToolError(Code.INVALID_ARGS, f"{where}: expected {words} {error.get('ctx', {}).get(key)}")
        message = error["msg"][:1].lower() + error["msg"][1:]
        return ToolError(Code.INVALID_ARGS, f"{where}: {message.replace('input should be', 'expected')}"[:500])

    def _meant(self, name: str, given: Mapping[str, Any]) -> str:
        """Return a hint for a name that is no argument: the one that is meant, or those there are."""
        if not self._kinds:
            return "it takes no arguments"
        free = [each for each in self._kinds if each not in given]
        word = name[:100].lower().replace("-", "_")
        near = [each for alike in MEANT if word in alike for each in alike if each in free]
        near.sort(key=lambda each: each not in self._required)
        near = near or difflib.get_close_matches(word, free, 1, CLOSE)
        return f"did you mean {near[0]}?" if near else f"known: {', '.join(self._kinds)}"


def _decoded(value: str, kind: type) -> Any:
    """Return the JSON array or object that a string holds; anything else stays for validation to refuse."""
    try:
        decoded = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return decoded if isinstance(decoded, kind) else value


def _items(where: str, value: str) -> list[str]:
    """Return the list that a string was meant to be: words for the arguments of a program, else the string alone."""
    if where == "args":
        with suppress(ValueError):
            return shlex.split(value)
    return [value]


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
