"""Functions for the jail to run. They live in a module that a clean process can import."""

import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

calls = []


def echo(*values):
    return values


def leaves_a_mark():
    calls.append(1)
    return len(calls)


def spins():
    while True:
        pass


def spins_deaf():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    spins()


def hangs():
    time.sleep(600)


def takes(megabytes):
    return len(bytearray(megabytes << 20))


def dies_by(number, megabytes=0):
    held = bytearray(b"x") * (megabytes << 20)
    os.kill(os.getpid(), number)
    return len(held)


def touches_nothing():
    ctypes.string_at(0)


def exits(status):
    os._exit(status)


def raises(kind, *args):
    raise {"ZeroDivisionError": ZeroDivisionError, "SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}[
        kind
    ](*args)


class Speechless(Exception):
    def __str__(self):
        raise LookupError("no words")


def raises_without_words():
    raise Speechless


def raises_permission_error(number):
    raise PermissionError(number, "no")


def makes_an_object():
    return object()


def reads(path):
    with open(path) as file:
        return file.read()


def writes(path, text="escaped"):
    with open(path, "w") as file:
        file.write(text)
    return True


def lists(path):
    return sorted(os.listdir(path))


def removes(path):
    os.remove(path)


def renames(old, new):
    os.rename(old, new)


def truncates(path):
    os.truncate(path, 0)


def links(target, path):
    os.symlink(target, path)
    return reads(path)


def handles_it(path):
    try:
        return reads(path)
    except PermissionError:
        return "refused"


def random_bytes():
    with open("/dev/urandom", "rb") as noise, open("/dev/null", "w") as null:
        null.write("x")
        return len(noise.read(8))


def signals(pid):
    os.kill(pid, signal.SIGKILL)


def about_itself():
    return {
        "pid": os.getpid(),
        "streams": [os.fstat(n).st_rdev for n in range(3)],
        "descriptors": [n for n in range(3, 300) if is_open(n)],
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "threads": sys.modules["threading"].active_count() if "threading" in sys.modules else 1,
        "modules": sorted(sys.modules),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "leader": os.getsid(0) == os.getpid(),
    }


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def scatter(path, wait):
    """Leave a child, a child in another session and a daemon; write their pids to path."""
    pids = [subprocess.Popen(["sleep", "600"]).pid, subprocess.Popen(["sleep", "600"], start_new_session=True).pid]
    heard, told = os.pipe()
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(told, str(os.getpid()).encode())
        os.closerange(0, 100)
        time.sleep(600)
    pids.append(int(os.read(heard, 20)))
    with open(path, "w") as file:
        file.write(" ".join(map(str, pids)))
    if wait:
        time.sleep(600)
    return pids


def forks_and_returns():
    return "child" if os.fork() == 0 else (os.wait() and "parent")


def forges(number_of_bytes):
    for descriptor in range(3, 100):
        try:
            os.write(descriptor, b"\xff" * number_of_bytes)
        except OSError:
            continue
    os._exit(0)


def closes_its_channel():
    os.closerange(3, 100)
    time.sleep(600)


def opens_up(path):
    os.chmod(path, 0o777)
    os.utime(path, (0, 0))


def talks_to(family, address):
    with socket.socket(family) as link:
        link.settimeout(5)
        link.connect(address)
    return True


def talks_by_a_pair(address):
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.connect(address)


def marks(path):
    """Change flags of a file through a descriptor that only reads it: FS_IOC_SETFLAGS, FS_NODUMP_FL."""
    with open(path, "rb") as file:
        # Some flags say how the file is stored; a file system may not be able to take those away.
        try:
            (flags,) = struct.unpack("L", fcntl.ioctl(file, 0x80086601, bytes(8)))
        except OSError:
            flags = 0
        fcntl.ioctl(file, 0x40086602, struct.pack("L", flags | 0x40))


def leases(path):
    with open(path, "rb") as file:
        return fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)


def watches(path):
    return fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS)
