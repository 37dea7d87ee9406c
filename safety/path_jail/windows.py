"""Names that mean something else on Windows than they look like. Pure rules, the same on every system."""

import re

_DEVICES = frozenset(
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"]
    + [f"{port}{digit}" for port in ("COM", "LPT") for digit in "0123456789¹²³"]
)
"""Reserved names (Microsoft, Naming Files, Paths, and Namespaces), with any extension, in any case."""

_DRIVE = re.compile(r"[A-Za-z]:")
_FORBIDDEN = re.compile(r'[<>"|?*\x00-\x1f]')


def windows_refusal(raw: str) -> str | None:
    """Say why Windows would not open what the path says, or None when it would.

    An absolute path with a drive (`C:\\x`, `C:/x`) passes; whether it is inside a root is not asked here.
    """
    path = raw.replace("/", "\\")
    if path.startswith("\\\\"):
        return "a network or device path"
    if drive := _DRIVE.match(path):
        path = path[drive.end() :]
        if not path.startswith("\\"):
            return "a path relative to a drive"
    elif path.startswith("\\"):
        return "a path relative to a drive"
    for part in path.split("\\"):
        if part in ("", ".", ".."):
            continue
        if ":" in part:
            return "an alternate stream"
        if _FORBIDDEN.search(part):
            return "a character that file names cannot have"
        if part != part.rstrip(". "):
            return "a name with a dot or space at its end"
        if part.split(".")[0].rstrip(" ").upper() in _DEVICES:
            return "a device name"
    return None
