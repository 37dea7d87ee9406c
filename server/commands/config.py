"""config --show: every setting, its value and where it came from, without secrets."""

import json
from typing import Any

from ...safety.redaction import redact
from ..config.kinds import as_yaml
from ..config.load import Config
from ..config.settings import SECTIONS, table

MASK = "********"


def plain(config: Config) -> dict[str, Any]:
    """Return the value of every setting as plain data; a secret that is set is MASK, variables are redacted."""
    found: dict[str, Any] = {}
    for name, about in table().items():
        value = getattr(config, name)
        found[name] = MASK if about.secret and value is not None else about.kind.show(value)
    if isinstance(found["shell_base_env"], dict):
        found["shell_base_env"] = redact(found["shell_base_env"])
    return found


def show(config: Config, *, as_json: bool) -> str:
    """Return the settings as a table by section, or as JSON: {settings file, principals, settings}."""
    values = plain(config)
    file = str(config.config_file) if config.config_file else None
    principals = sorted(config.tokens)
    if as_json:
        settings = {name: {"value": value, "source": config.sources[name]} for name, value in values.items()}
        whole = {"config_file": file, "token_principals": principals, "settings": settings}
        return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    out = [f"settings file: {file or f'none ({config.places.config_file} does not exist)'}\n"]
    if principals:
        out.append(f"bearer tokens of: {', '.join(principals)}\n")
    width = max(map(len, values)) + 2
    for name, value in values.items():
        if name in SECTIONS:
            out.append(f"\n{SECTIONS[name]}\n")
        out.append(f"  {name:{width}}{as_yaml(value):40}  {config.sources[name]}\n")
    return "".join(out)


def checked(config: Config) -> str:
    """Return one line that says that the settings hold, and which file they were read from."""
    set_here = sum(source != "default" for source in config.sources.values())
    return f"the settings hold: {set_here} set, file {config.config_file or 'none'}\n"
