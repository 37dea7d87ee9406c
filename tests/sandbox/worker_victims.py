"""Functions for the worker to run. They live in a module that another process can import."""

import ctypes
import os
import resource
import signal
import socket
import subprocess
import threading
import time

from toolbox_mcp.safety.errors import Code, ToolError


def echo(*values):
    return values


def fails():
    raise LookupError("nothing there")


class Speechless(Exception):
    def __str__(self):
        raise LookupError("no words")


def fails_without_words():
    raise Speechless


def core_limit():
    return resource.getrlimit(resource.RLIMIT_CORE)


def forks():
    """Leave a process that no end of ours ends."""
    pid = os.fork()
    if not pid:
        os.setsid()
        time.sleep(60)
    return pid


def starts_a_program():
    return subprocess.Popen(["/bin/sleep", "60"], start_new_session=True).pid


def runs_a_thread():
    said = []
    thread = threading.Thread(target=said.append, args=(1,))
    thread.start()
    thread.join()
    return said


def fails_clearly():
    raise ToolError(Code.BAD_YAML, "no alias is defined", "define it")


def hangs(path=None):
    while True:
        time.sleep(60)


def spins():
    while True:
        pass


def takes(megabytes):
    return len(bytearray(megabytes << 20))


def crashes():
    ctypes.string_at(0)


def crashes_full():
    held = bytearray(b"x") * (110 << 20)
    os.kill(os.getpid(), signal.SIGABRT)
    return len(held)


def pid():
    return os.getpid()


def exits(status):
    os._exit(status)


def environment():
    return dict(os.environ), os.getcwd()


def writes(path):
    with open(path, "w") as file:
        file.write("escaped")


def reads(path):
    with open(path) as file:
        return file.read()


def connects(port):
    socket.create_connection(("127.0.0.1", port), timeout=2).close()


def sends_a_datagram(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.sendto(b"x", ("127.0.0.1", port))


def signals(pid):
    os.kill(pid, 0)


def modules():
    import sys

    return sorted(sys.modules)


def lies():
    """Write a frame of nonsense to the socket by which the worker answers."""
    for descriptor in range(3, 4096):
        try:
            os.write(descriptor, b"\0" * 15 + b"\x01" + b"}")
        except OSError:
            continue
    time.sleep(60)


def lies_about_size():
    for descriptor in range(3, 4096):
        try:
            os.write(descriptor, b"\xff" * 16)
        except OSError:
            continue
    time.sleep(60)


def answers_with(megabytes):
    return bytes(megabytes << 20)


def unsendable():
    return object()
