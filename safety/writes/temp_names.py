"""Names of files and folders on their way: a new one before it gets its place, an old one until it is gone."""

import re
import secrets

_NAMES = re.compile(r"(?:\A|/)\.toolbox-[0-9a-f]{16}\.tmp(?:/|\Z)")


def temporary_name() -> str:
    """Return a name that nothing has."""
    return f".toolbox-{secrets.token_hex(8)}.tmp"


def is_temporary(path: str) -> bool:
    """Return True if a name of a path, with `/`, was made by temporary_name(), by this server or another one."""
    return _NAMES.search(path) is not None
