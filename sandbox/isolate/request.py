"""What one jailed call may do, as data that travels to the process that forks it."""

import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.machinery import ModuleSpec
from typing import Any, Literal, Self

SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc/ld.so.cache",
    "/etc/ssl",
    "/etc/localtime",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/dev/zero",
    "/dev/urandom",
)
"""Readable in every jail where they exist."""

Walls = Literal["landlock", "seatbelt", ""]
"""What confines the files; "" is nothing."""


@dataclass(frozen=True)
class Order:
    """Limits and lists of one call. memory_mb counts from what the process has at its start."""

    timeout: float
    cpu_seconds: int
    memory_mb: int
    walls: Walls
    read: list[str]
    write: list[str]
    cwd: str
    fork: bool

    def packed(self) -> dict[str, Any]:
        """Return the order as codec carries it."""
        return asdict(self)

    @classmethod
    def unpacked(cls, fields: dict[str, Any]) -> Self:
        """Return the order of packed fields."""
        return cls(**fields)


def existing(paths: tuple[str | os.PathLike[str], ...]) -> list[str]:
    """Return the paths resolved. Raises FileNotFoundError for the first that does not exist."""
    return [os.path.realpath(path, strict=True) for path in paths]


def import_roots(fn: Callable[..., Any]) -> list[str]:
    """Return the folders from which the module of fn is imported, and those of the packages it is in."""
    name = getattr(fn, "__module__", None) or type(fn).__module__
    top, _, _ = name.partition(".")
    places: list[str] = []
    while name in sys.modules:
        places += _folders(name)
        name, _, _ = name.rpartition(".")
    if file := getattr(sys.modules.get(top), "__file__", None):
        folder = os.path.dirname(file)
        places.append(os.path.dirname(folder) if _folders(top) else folder)
    return [os.path.realpath(place) for place in dict.fromkeys(places)]


def importable_name(fn: Callable[..., Any]) -> str | None:
    """Return module:qualname where another process that imports it gets this very function, else None."""
    module, qualname = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str) or module == "__main__":
        return None
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return f"{module}:{qualname}" if found is fn and _can_be_found(module) else None


def _folders(name: str) -> list[str]:
    return [os.fspath(place) for place in getattr(sys.modules.get(name), "__path__", ())]


def _can_be_found(name: str) -> bool:
    """Return True if the import system leads to the module that is loaded under this name.

    A test runner or a notebook can put a module into sys.modules that no other process finds.
    """
    package, _, _ = name.rpartition(".")
    if package and not _can_be_found(package):
        return False
    spec = _spec(name, _folders(package) if package else None)
    return spec is not None and spec.origin == getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None)


def _spec(name: str, path: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if spec := finder.find_spec(name, path):
            return spec
    return None
