"""Names of files on their way: a new one before it gets its place, an old one until it is gone."""

import re
import secrets

_NAME = re.compile(r"\.toolbox-[0-9a-f]{16}\.tmp")


def temporary_name() -> str:
    """Return a name that nothing has."""
    return f".toolbox-{secrets.token_hex(8)}.tmp"


def is_temporary(name: str) -> bool:
    """Tell whether a name was made by temporary_name(), by this server or another one."""
    return _NAME.fullmatch(name) is not None
