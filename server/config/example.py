"""A settings file with every setting, commented out."""

from collections.abc import Mapping
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from .kinds import as_yaml
from .settings import SECTIONS, Setting, table

_WIDTH = 100

_HEAD = """\
# Settings of toolbox-mcp, each with its default. Take the `#` off a line to change it.
#
# The file is read from the user's configuration folder (Linux: ~/.config/toolbox-mcp/config.yaml, macOS:
# ~/Library/Application Support/toolbox-mcp/config.yaml, Windows: %APPDATA%\\toolbox-mcp\\config.yaml) or from where
# --config says, and never from inside a root. Relative paths belong to the folder of this file.
# `toolbox-mcp config --show` tells what holds and where it came from.
"""


_SHOWN_INSTEAD: Mapping[str, Any] = MappingProxyType(
    {
        "roots": ["~/project"],
        "root": "~/project",
        "records_file": "~/.local/state/toolbox-mcp/records.sqlite3",
        "allowed_hosts": ["localhost:8765", "127.0.0.1:8765", "[::1]:8765"],
    }
)
"""What the example shows for settings whose default is worked out at start."""


def example_yaml() -> str:
    """Return a settings file with every setting, commented out, with its meaning and default."""
    out = [_HEAD]
    for name, about in table().items():
        if name in SECTIONS:
            title = SECTIONS[name]
            out.append(f"\n# --- {title} {'-' * (_WIDTH - len(title) - 7)}\n")
        out.append("\n")
        out += [f"# {line}\n" for line in wrap(f"{about.meaning} ({about.kind.expected})", _WIDTH - 2)]
        if about.default_text:
            out.append(f"# Default: {about.default_text}.\n")
        out.append(f"#{name}: {as_yaml(_shown(about))}\n")
    return "".join(out)


def _shown(about: Setting) -> Any:
    return _SHOWN_INSTEAD.get(about.name, about.kind.show(about.default))
