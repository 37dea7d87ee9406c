"""JSON schemas as clients get them: short, since every token is paid in every conversation."""

from typing import Any

from pydantic import BaseModel

UNTOLD = frozenset(
    {"title", "$defs", "additionalProperties", "minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength"}
)
"""Keys that cost more than they tell: a value that is refused is refused with its bounds."""


def input_schema(params: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: an object root, no titles, no null alternatives, no references."""
    return _cleaned(params.model_json_schema())


def output_schema(record: type[BaseModel], *, named: bool = True) -> dict[str, Any]:
    """Return the schema of a record: an object and the names of its fields, all of them always there.

    The types are left out: no model writes a record, and each type would be paid in every conversation. named: whether
    even the names are told.
    """
    return {"type": "object", "properties": {name: {} for name in record.model_fields}} if named else {"type": "object"}


def record_schema(record: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a record with the types of its fields, for the documentation."""
    return _cleaned(record.model_json_schema(mode="serialization"))


def _is_telling(value: object) -> bool:
    return isinstance(value, int | float) and bool(value) and not isinstance(value, bool)


def _cleaned(schema: dict[str, Any]) -> dict[str, Any]:
    defs: dict[str, Any] = {}

    def clean(node: Any) -> Any:
        if isinstance(node, list):
            return [clean(item) for item in node]
        if not isinstance(node, dict):
            return node
        defs.update(node.get("$defs", {}))
        if "$ref" in node:
            target = defs[node["$ref"].rsplit("/", 1)[-1]]
            target = {k: v for k, v in target.items() if k != "description"}
            return clean(target | {k: v for k, v in node.items() if k != "$ref"})
        if "anyOf" in node:
            options = [option for option in node["anyOf"] if option != {"type": "null"}]
            rest = {k: v for k, v in node.items() if k != "anyOf"}
            if len(options) == 1:
                return clean(options[0] | rest)
            node = rest | {"anyOf": options}
        kept: dict[str, Any] = {}
        for key, value in node.items():
            if key in UNTOLD or (key == "default" and not _is_telling(value)):
                continue  # where nothing is said, a switch is off, a choice its first, a folder the base
            if key == "properties":
                kept[key] = {name: clean(prop) for name, prop in value.items()}
            else:
                kept[key] = clean(value)
        if "enum" in kept:
            kept.pop("type", None)
        return kept

    cleaned = clean({k: v for k, v in schema.items() if k != "description"})
    cleaned.setdefault("properties", {})
    assert isinstance(cleaned, dict)
    return cleaned
