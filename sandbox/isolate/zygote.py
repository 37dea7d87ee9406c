"""The process that jailed calls are forked from: clean, with one thread, and without the server.

Forking a threaded process copies locks that nobody will release: 100 of 100 children hung.
"""

import gc
import os
import signal
import socket
import sys
from functools import partial

from . import codec
from .child import supervise
from .interpreter import find
from .request import Order

# What a forked child would otherwise import behind its walls, once a call.
if sys.platform == "linux":
    from ..linux import landlock, privileges, seccomp  # noqa: F401
    from ..linux.syscalls import set_name


def main(arguments: list[str]) -> None:
    """Fork a supervisor for each request on a socket until it closes. Argument: its descriptor.

    A request is a frame of (order, function name, import path) with two descriptors, control
    and data. The arguments of the function come over data, and only its own process reads them.
    """
    requests = socket.socket(fileno=int(arguments[0]))
    if sys.platform == "linux":
        set_name("tbx-jail")
    # Supervisors need no burial.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while True:
        prefix, descriptors, _, _ = socket.recv_fds(requests, codec.PREFIX.size, 2)
        if not prefix:
            return
        body = receive(requests, codec.body_size(prefix))
        if os.fork() == 0:
            try:
                fields, name, path = codec.decode(prefix, body)
                sys.path[:] = path
                control, data = descriptors
                supervise(Order.unpacked(fields), control, data, partial(_call, name))
            finally:
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)


def _call(name: str, link: socket.socket) -> object:
    prefix = receive(link, codec.PREFIX.size)
    arguments = codec.decode(prefix, receive(link, codec.body_size(prefix)))
    return find(name)(*arguments)


def receive(link: socket.socket, size: int) -> bytearray:
    """Read exactly size bytes. Raises EOFError when the other side closes before."""
    buffer = bytearray(size)
    if not codec.fill(link, buffer):
        raise EOFError
    return buffer
