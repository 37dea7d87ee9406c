"""JSON schemas as clients get them: complete, and without what says nothing."""

from typing import Any

from pydantic import BaseModel

UNTOLD = frozenset({"title", "$defs"})
"""Keys that say nothing that the name does not."""


def input_schema(params: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments: an object root, no titles, no null alternatives, no references."""
    return _cleaned(params.model_json_schema())


def record_schema(record: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a record: an object of whose fields, and those of objects in it, none has to be there.

    What is null or false is left out.
    """
    schema = _cleaned(_all_optional(record.model_json_schema(mode="serialization")))
    assert isinstance(schema, dict)
    return schema


def _all_optional(schema: dict[str, Any]) -> dict[str, Any]:
    for each in (schema, *schema.get("$defs", {}).values()):
        each.pop("required", None)
    return schema


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
            if key in UNTOLD or (key == "default" and value in (None, [])):
                continue
            if key == "properties":
                kept[key] = {name: clean(prop) for name, prop in value.items()}
            else:
                kept[key] = clean(value)
        if "const" in kept:
            kept["enum"] = [kept.pop("const")]
        return kept

    cleaned = clean({k: v for k, v in schema.items() if k != "description"})
    cleaned.setdefault("properties", {})
    assert isinstance(cleaned, dict)
    return cleaned
