"""Checks over several settings, which no single one can make."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...sandbox.environment import own
from .errors import ConfigError
from .settings import Settings
from .user_dirs import containing_root

_READABLE = "the tools could read it"


def check(settings: Settings) -> None:
    """Raise ConfigError where settings contradict each other or leave a way around the guards."""
    if settings.records and settings.records_url is None:
        reason = "set records_file to a file elsewhere, or records to false"
        outside(settings.records_file, settings.roots, "records_file", reason, "set records to false")
    if settings.token_file:
        outside(
            settings.token_file, settings.roots, "token_file", _READABLE, "the variable TOOLBOX_TOKEN holds one token"
        )
    if settings.tls_key:
        outside(settings.tls_key, settings.roots, "tls_key", _READABLE, "serve without TLS, or a smaller root")
    if isinstance(settings.trash_dir, Path) and not _is_below(settings.trash_dir, settings.roots):
        raise ConfigError(f"trash_dir {settings.trash_dir} is not inside a root")
    for name in settings.env_passthrough:
        if own(name):
            raise ConfigError(f"env_passthrough: {name} is for this server alone")


def without_effect(settings: Settings, sources: Mapping[str, str]) -> list[str]:
    """Return a warning for each switch that was set but waits for another one; sources as in Config."""
    if settings.enable_exec_tools:
        return []
    named = [name for name in ("exec_tools", "enable_shell", "allowed_commands") if sources[name] != "default"]
    return [
        f"{name} ({sources[name]}) has no effect while enable_exec_tools is false; add --enable-exec, or a --preset"
        for name in named
    ]


def outside(path: Path, roots: Sequence[Path], what: str, reason: str, nowhere: str) -> None:
    """Raise ConfigError when a file, or a link on the way to it, lies inside a root.

    reason: why not, or what to do. nowhere: what to do where the root is the whole filesystem, which has no outside.
    """
    try:
        around = containing_root(path, roots)
    except OSError as e:
        raise ConfigError(f"{what} {path}: {e.strerror or e}") from None
    if around and any(root == Path(root.anchor) for root in roots):
        everywhere = f"as every file does where {path.anchor} is served"
        raise ConfigError(f"{what} {path} lies inside the root {around}, {everywhere}; {nowhere}")
    if around:
        raise ConfigError(f"{what} {path} lies inside the root {around}; {reason}")


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real != root and real.is_relative_to(root) for root in roots)
