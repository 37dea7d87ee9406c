"""Servers that share a file: which of them still live."""

import os
import platform
import secrets
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from ...sandbox.process.tree import look


@dataclass(frozen=True)
class Server:
    """One server. space: what its pid counts in (boot and pid namespace); start tells it from a later process with its
    pid, instance from another server in the same process.
    """

    space: str
    pid: int
    start: int
    instance: str = ""

    @classmethod
    def this(cls) -> Self:
        """Return the server that asks."""
        me = look(os.getpid())
        return cls(_space(), os.getpid(), me.start if me else 0, secrets.token_hex(4))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what str() wrote; anything else is a server that never was."""
        match text.split("/"):
            case [space, pid, start, instance] if pid.isdecimal() and start.isdecimal():
                return cls(space, int(pid), int(start), instance)
        return cls("", 0, 0)

    def __str__(self) -> str:
        """Write the server as a line of text."""
        return f"{self.space}/{self.pid}/{self.start}/{self.instance}"

    def is_alive(self, seen_by: "Server") -> bool | None:
        """Return True if this server still runs; None where that cannot be known, as in another container."""
        if not self.pid:
            return False
        if self.space != seen_by.space:
            boot, _, here = self.space.rpartition(":")
            return None if here and boot and boot == seen_by.space.rpartition(":")[0] else False
        if sys.platform == "win32":
            return None  # os.kill would end the process instead of asking
        if seen_by.start:
            process = look(self.pid)
            return process is not None and not process.dead and process.start == self.start
        with suppress(PermissionError):
            try:
                os.kill(self.pid, 0)
            except (ProcessLookupError, OverflowError):
                return False
        return True


def _space() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}:{os.readlink('/proc/self/ns/pid').strip('pid:[]')}"
    except OSError:
        return platform.node().replace("/", "")
