"""Where overrides are logged: stderr, a file, or a function of the operator."""

import importlib
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..config.errors import ConfigError

Logger = Callable[[str, str], object]

log = logging.getLogger(__name__)


def unsafe_logger(setting: Any) -> Logger | None:
    """Return the function that receives (tool, detail) of each override; ConfigError for a function that cannot be loaded."""
    if setting is None or callable(setting):
        return setting  # type: ignore[no-any-return]
    if setting == "stderr":
        return lambda tool, detail: log.warning("unsafe override of %s: %s", tool, detail)
    if isinstance(setting, Path):
        return lambda tool, detail: _append(setting, tool, detail)
    module, _, name = str(setting).partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as e:
        raise ConfigError(f"unsafe_logger: {setting} cannot be loaded: {e}") from None
    if not callable(found):
        raise ConfigError(f"unsafe_logger: {setting} is not callable")
    return found  # type: ignore[no-any-return]


def _append(file: Path, tool: str, detail: str) -> None:
    line = json.dumps({"time": datetime.now(UTC).isoformat(), "tool": tool, "detail": detail})
    with file.open("a", encoding="utf-8") as out:
        out.write(line + "\n")
