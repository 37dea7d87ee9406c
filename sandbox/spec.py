"""What runs in a sandbox and within which bounds, and how it came out. Values only."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from .process.capture import Capture
from .process.runner import Finished

MIB = 1 << 20

ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",  # noqa: S108 - the sandbox's own
        "LANG": "C.UTF-8",
        # Plots go to files: there is no display.
        "MPLBACKEND": "Agg",
    }
)
"""All that a sandboxed program finds in its environment."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one run, as of TOOLS.md §8.4.

    wall, cpu: seconds. memory: bytes that the tree holds together. data: bytes of data segment per process.
    processes: how many at once. disk: bytes of /tmp. file_size: bytes. files: open descriptors per process.
    inodes: files in /tmp. cpus: processors. output: bytes on both streams.
    """

    wall: float = 30
    cpu: float = 30
    memory: int = 256 * MIB
    data: int = 256 * MIB
    processes: int = 128
    disk: int = 64 * MIB
    file_size: int = 64 * MIB
    files: int = 256
    inodes: int = 4096
    cpus: float = 1.0
    output: int = 1024 * MIB

    def at_least(self, **floors: int) -> "Limits":
        """Return the limits with each of the named ones raised to its floor."""
        return replace(self, **{name: max(getattr(self, name), floor) for name, floor in floors.items()})


@dataclass(frozen=True)
class FsPolicy:
    """What a program sees beside /usr and its kin. read and write: host paths, at their own places.

    links: (place, target) of symbolic links that lead to them. protected: existing places below `write` that are
    only read.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    protected: tuple[str, ...] = ()

    def below(self, folder: str) -> frozenset[str]:
        """Return the paths in a folder where something of the host is mounted."""
        places = (*self.read, *self.write, *(place for place, _ in self.links))
        return frozenset(os.path.relpath(place, folder) for place in places if place.startswith(f"{folder}/"))


@dataclass(frozen=True)
class Job:
    """One program to run. image: the container image that holds it, for back ends that need one."""

    argv: Sequence[str]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)
    files: FsPolicy = FsPolicy()
    limits: Limits = Limits()
    cwd: str = "/tmp"  # noqa: S108 - the sandbox's own
    network: bool = False
    image: str = ""
    capture: Capture = field(default_factory=Capture)
    in_process: bool = False
    """The program is Python code on stdin, which a warm interpreter may run itself."""


@dataclass(frozen=True)
class LeftFile:
    """A file that a program left in its scratch folder. data: its bytes where it is an image of bearable size."""

    name: str
    size: int
    data: bytes | None = None
    mime: str | None = None


@dataclass(frozen=True)
class Result:
    """How a sandboxed program ended. runtime: the back end. reasons: what it does not contain, if anything."""

    finished: Finished
    runtime: str
    reasons: tuple[str, ...] = ()
    files: tuple[LeftFile, ...] = ()

    @property
    def degraded(self) -> bool:
        """Return True if the back end contains less than it should."""
        return bool(self.reasons)


@dataclass(frozen=True)
class Probe:
    """Whether a back end works here. reasons: why not, or what it does not contain although it is used."""

    ok: bool
    reasons: tuple[str, ...] = ()
