"""Bearer tokens: read from a file only their owner can read, or from one variable."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from .errors import ConfigError
from .file import read_bytes

MIN_BYTES = 32
"""Length of a token at least: 32 hexadecimal digits are 128 bits."""
MAX_FILE = 65_536
"""Bytes of a token file: about a thousand tokens, a guess at more than anybody needs."""
ENVIRONMENT = "environment"
"""Name of the principal whose token comes from TOOLBOX_TOKEN."""


def read_tokens(path: Path | None, single: str | None) -> Mapping[str, str]:
    """Return the tokens by the name of their principal; messages never contain a token.

    path: lines `name:token` or `token`, blank lines and `#` comments between; a token without a name is called by its
    line, `line-3`. single: the value of TOOLBOX_TOKEN.
    """
    found: dict[str, str] = {}
    if single is not None:
        _add(found, ENVIRONMENT, single.strip(), "TOOLBOX_TOKEN")
    if path is not None:
        written = read_bytes(path, MAX_FILE, "token_file", private=True)
        for number, row in enumerate(written.decode("utf-8", errors="replace").splitlines(), 1):
            line = row.strip()
            if line and not line.startswith("#"):
                name, colon, token = line.rpartition(":")
                _add(found, name.strip() if colon else f"line-{number}", token.strip(), f"token_file line {number}")
        if len(found) == (single is not None):
            raise ConfigError(f"token_file {path} holds no token")
    return MappingProxyType(found)


def _add(found: dict[str, str], name: str, token: str, where: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        raise ConfigError(f"{where}: a name has letters, digits, `_`, `.` and `-`, 64 at most")
    if not re.fullmatch(r"[A-Za-z0-9._~+/-]+=*", token):
        raise ConfigError(f"{where}: a token has letters, digits and `-._~+/`, with `=` only at its end")
    if len(token) < MIN_BYTES:
        raise ConfigError(f"{where}: a token needs at least {MIN_BYTES} bytes")
    if name in found:
        raise ConfigError(f"{where}: the name {name} is taken by an earlier token")
    if token in found.values():
        raise ConfigError(f"{where}: the same token as an earlier one")
    found[name] = token
