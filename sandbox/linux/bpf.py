"""Classic BPF programs for seccomp, put together instruction by instruction."""

import struct
from collections.abc import Iterable

LOAD, JUMP, EQUAL, GREATER_OR_EQUAL, ANY_BIT, AND, RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000

NUMBER, ARCHITECTURE = 0, 4
"""Offsets in struct seccomp_data of the call's number and of the architecture it was made for."""

_FAR = 200
"""Jumps are eight bits wide; lists are cut into stretches of this many tests."""


def error(number: int) -> int:
    """Return the action that makes a call fail with an errno, or seem to succeed with 0."""
    return 0x00050000 | number


def argument(index: int) -> int:
    """Return the offset of the low 32 bits of an argument (both architectures here are little-endian).

    The kernel looks at no more than these for the arguments judged here, and a filter that compared all 64
    could be passed by setting a high bit (CVE-2019-10063).
    """
    return 16 + 8 * index


class Filter:
    """A filter being written. Every rule starts with the call's number loaded and leaves it loaded."""

    def __init__(self, architecture: int) -> None:
        """Begin with the check that a call is of this architecture: int 0x80 reaches other numbers."""
        self._lines: list[tuple[int, int, int, int]] = []
        self._add(LOAD, ARCHITECTURE)
        self._add(EQUAL, architecture, 1, 0)
        self._add(RETURN, KILL_PROCESS)
        self._add(LOAD, NUMBER)

    def answer_from(self, first: int, action: int) -> None:
        """Answer every call numbered first or above."""
        self._add(GREATER_OR_EQUAL, first, 0, 1)
        self._add(RETURN, action)

    def answer(self, numbers: Iterable[int], action: int) -> None:
        """Answer each of these calls, whatever its arguments."""
        rest = sorted(set(numbers))
        while rest:
            stretch, rest = rest[:_FAR], rest[_FAR:]
            for index, number in enumerate(stretch):
                self._add(EQUAL, number, len(stretch) - index, 0)
            self._add(JUMP, 1)
            self._add(RETURN, action)

    def only_with(self, number: int, index: int, values: Iterable[int], action: int, mask: int | None = None) -> None:
        """Answer a call unless one argument, after the mask, is one of the values."""
        wanted = list(values)
        extra = 1 if mask is not None else 0
        self._add(EQUAL, number, 0, 1 + extra + len(wanted) + 2)
        self._add(LOAD, argument(index))
        if mask is not None:
            self._add(AND, mask)
        for place, value in enumerate(wanted):
            self._add(EQUAL, value, len(wanted) - place, 0)
        self._add(RETURN, action)
        self._add(LOAD, NUMBER)

    def never_with(self, number: int, index: int, values: Iterable[int], action: int) -> None:
        """Answer a call if one argument is one of the values."""
        bad = list(values)
        self._add(EQUAL, number, 0, 1 + len(bad) + 3)
        self._add(LOAD, argument(index))
        for place, value in enumerate(bad):
            self._add(EQUAL, value, len(bad) - place, 0)
        self._add(JUMP, 1)
        self._add(RETURN, action)
        self._add(LOAD, NUMBER)

    def never_with_bits(self, number: int, index: int, bits: int, action: int) -> None:
        """Answer a call if one argument has any of the bits."""
        self._add(EQUAL, number, 0, 4)
        self._add(LOAD, argument(index))
        self._add(ANY_BIT, bits, 0, 1)
        self._add(RETURN, action)
        self._add(LOAD, NUMBER)

    def only_reads(self, number: int, index: int, value: int, pointer: int, action: int) -> None:
        """Answer a call where one argument is the value and the pointer in another, all 64 bits of it, is not null."""
        self._add(EQUAL, number, 0, 8)
        self._add(LOAD, argument(index))
        self._add(EQUAL, value, 0, 5)
        self._add(LOAD, argument(pointer))
        self._add(EQUAL, 0, 0, 2)
        self._add(LOAD, argument(pointer) + 4)
        self._add(EQUAL, 0, 1, 0)
        self._add(RETURN, action)
        self._add(LOAD, NUMBER)

    def program(self) -> bytes:
        """Return the filter as the kernel takes it; what no rule answered is allowed."""
        lines = [*self._lines, (RETURN, 0, 0, ALLOW)]
        return b"".join(struct.pack("<HBBI", *line) for line in lines)

    def _add(self, code: int, value: int, yes: int = 0, no: int = 0) -> None:
        self._lines.append((code, yes, no, value))
