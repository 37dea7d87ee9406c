"""A function for the jail that runs a program and returns what it prints."""

import io
import os
import sys


def run(code, folder):
    """Run a program's source as __main__ in a folder."""
    os.chdir(folder)
    sys.stdout = io.StringIO()
    exec(compile(code, "<attempts>", "exec"), {"__name__": "__main__"})
    return sys.stdout.getvalue().encode()
