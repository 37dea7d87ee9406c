"""A process of this package that takes orders from the server: how it starts, and gets what is too long for a message."""

import contextlib
import os
import sys
from collections.abc import Sequence

from ..isolate.interpreter import LOAD_PACKAGE, PACKAGE
from ..process.child import ChildProcess
from ..process.spawn import spawn

# The rest comes on stdin: sandboxed programs can read this command line, and paths are none of their business.
_BOOT = "import sys; exec(sys.stdin.readline())"
_START_UP = LOAD_PACKAGE + ("from {module} import main; main({arguments!r})\n")


def start(module: str, arguments: object, *, pass_fds: Sequence[int]) -> ChildProcess:
    """Run main(arguments) of a module in a bare interpreter with an empty environment.

    arguments: plain values, whose repr() is shorter than what a pipe holds. Raises ToolError(unavailable).
    """
    program = spawn([sys.executable, "-I", "-S", "-c", _BOOT], cwd="/", env={}, pass_fds=pass_fds)
    assert program.stdin is not None
    # One that has ended already is noticed by its end.
    with contextlib.suppress(BrokenPipeError):
        os.write(program.stdin, _START_UP.format(package=PACKAGE, module=module, arguments=arguments).encode())
    program.close("stdin")
    return program


def in_memory(data: bytes) -> int:
    """Return a descriptor to read data from, which the caller closes."""
    fd = os.memfd_create("toolbox")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
