"""Seatbelt: a profile in Apple's language, and applying it to the calling process.

sandbox_init is marked deprecated and has no successor for programs outside the App Store;
it takes effect in a running process, which sandbox-exec does not.
"""

import ctypes
from collections.abc import Iterable

_SYSTEM = (
    "/System",
    "/Library/Frameworks",
    "/usr",
    "/bin",
    "/sbin",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
)


def profile(read: Iterable[str], write: Iterable[str]) -> str:
    """Return a profile that confines file contents and changes to the paths, and signals to the process itself."""
    readable = "".join(f"\n  (subpath {quoted(path)})" for path in (*_SYSTEM, *read))
    writable = "".join(f"\n  (subpath {quoted(path)})" for path in write)
    return (
        "(version 1)\n(allow default)\n(deny file-read-data)\n(deny file-write*)\n"
        "(deny signal)\n(allow signal (target self))\n"
        f'(allow file-read-data (literal "/") (literal "/dev/null"){readable}{writable})\n'
        f'(allow file-write* (literal "/dev/null"){writable})\n'
    )


def confine(text: str) -> None:
    """Confine the calling process by a profile, for good. Raises OSError."""
    library = ctypes.CDLL("libsandbox.dylib")
    message = ctypes.c_char_p()
    if library.sandbox_init(text.encode(), ctypes.c_uint64(0), ctypes.byref(message)):
        raise OSError((message.value or b"sandbox_init failed").decode(errors="replace"))


def quoted(path: str) -> str:
    """Return a text as a profile has it."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
