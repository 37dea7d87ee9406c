"""The settings file: YAML read as plain text, so that `off` is off and `1.10` stays 1.10.

Every scalar comes out as the text that was written (None for an empty or `null` one), and the kind of the
setting decides what it means. Tags, duplicate keys and documents beyond the limits are refused.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ConfigError

MAX_BYTES = 262_144
"""Size of a settings file: far above one that sets everything, far below what takes long to parse."""
MAX_NODES = 20_000
"""Nodes after aliases are expanded; stops documents that multiply themselves."""
MAX_DEPTH = 8
"""Depth of nesting; settings need 3."""

_NULLS = {"", "~", "null", "Null", "NULL"}
_PLAIN = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "timestamp", "value")}


@dataclass(frozen=True)
class Entry:
    """One setting of the file: its raw value and the line it stands on."""

    raw: Any
    line: int


def read_bytes(path: Path, limit: int, what: str, *, private: bool = False) -> bytes:
    """Return the content of a regular file of at most limit bytes; what names it in a ConfigError.

    private: its mode must keep everybody else out, where there are modes.
    """
    try:
        # A FIFO would wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError(f"{what} {path} is not a regular file")
            if private and os.name == "posix" and mode & 0o077:
                raise ConfigError(f"{what} {path} is open to others; chmod 600 it")
            content = file.read(limit + 1)
    except OSError as e:
        raise ConfigError(f"{what} {path} cannot be read: {e.strerror}") from None
    if len(content) > limit:
        raise ConfigError(f"{what} {path} is larger than {limit} bytes")
    return content


def read_settings(path: Path) -> dict[str, Entry]:
    """Return the entries of a settings file, in order; raises ConfigError, with the line where there is one."""
    content = read_bytes(path, MAX_BYTES, "the settings file")
    try:
        written = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"the settings file {path} is not UTF-8") from None
    return _Reader(path).entries(written)


class _Reader:
    """Turns the nodes of one document into raw values, counting them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.left = MAX_NODES

    def entries(self, written: str) -> dict[str, Entry]:
        import yaml  # Takes 12 ms; only those who have a file wait for it.

        try:
            # The pure Python loader: the C one has crashed on deep nesting. compose builds nodes and runs nothing.
            top = yaml.compose(written, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as e:
            line = e.problem_mark.line + 1 if e.problem_mark else 1
            raise self.error(line, f"not valid YAML: {e.problem or e.context}") from None
        except yaml.YAMLError:
            raise self.error(1, "not valid YAML: a character that it does not allow") from None
        except RecursionError:
            raise self.error(1, "nested too deeply") from None
        if top is None or (isinstance(top, yaml.ScalarNode) and top.value in _NULLS):
            return {}
        if not isinstance(top, yaml.MappingNode):
            raise self.error(1, "expected settings as `name: value` lines")
        pairs = self.pairs(top, 0)
        return {key: Entry(raw, line) for key, raw, line in pairs}

    def error(self, line: int, message: str) -> ConfigError:
        return ConfigError(f"{self.path}:{line}: {message}")

    def pairs(self, node: Any, depth: int) -> list[tuple[str, Any, int]]:
        found: dict[str, tuple[str, Any, int]] = {}
        for name, value in node.value:
            line = name.start_mark.line + 1
            key = self.raw(name, depth + 1)
            if not isinstance(key, str):
                raise self.error(line, "expected a name before the colon")
            if key == "<<":
                raise self.error(line, "merge keys are not read")
            if key in found:
                raise self.error(line, f"{key} is set twice, first in line {found[key][2]}")
            found[key] = (key, self.raw(value, depth + 1), line)
        return list(found.values())

    def raw(self, node: Any, depth: int) -> Any:
        import yaml

        line = node.start_mark.line + 1
        self.left -= 1
        if self.left < 0:
            raise self.error(line, f"more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise self.error(line, "nested too deeply")
        if isinstance(node, yaml.ScalarNode) and (node.tag in _PLAIN or node.tag == "tag:yaml.org,2002:merge"):
            return None if node.style is None and node.value in _NULLS else node.value
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.raw(item, depth + 1) for item in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return {key: value for key, value, _ in self.pairs(node, depth)}
        raise self.error(line, f"the tag {node.tag} is not read")
