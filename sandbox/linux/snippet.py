"""Runs Python code from stdin in a process that was forked and confined beforehand, as `python3 -` would."""

import atexit
import gc
import linecache
import os
import site
import sys
import traceback  # noqa: F401 - needed to report an error, and memory may be short then
from collections.abc import Mapping
from types import ModuleType
from typing import NoReturn

_UNFLUSHED = 120
"""What Python exits with when its last output cannot be written."""


def run(env: Mapping[str, str]) -> NoReturn:
    """Prepare the interpreter, wait for the code to be complete, run it as __main__, exit with its status."""
    os.environ.update(env)
    _start_afresh()
    code = sys.stdin.buffer.read()
    status = 1
    try:
        status = _execute(code)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                status = status or _UNFLUSHED
        os._exit(status)


def _start_afresh() -> None:
    """Let the program find the interpreter as after a start: site packages, streams, no modules of ours."""
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    sys.path[:] = [path for path in sys.path if path != own]
    site.ENABLE_USER_SITE = False
    site.main()
    sys.path.insert(0, "")
    for name in [name for name in sys.modules if name.split(".")[0] == "toolbox_mcp"]:
        del sys.modules[name]
    linecache.clearcache()
    sys.argv = ["-"]
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        errors = "backslashreplace" if name == "stderr" else "strict"
        buffering = 1 if mode == "w" else -1
        stream = open(number, mode, buffering, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _execute(code: bytes) -> int:
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    try:
        exec(compile(code, "<stdin>", "exec", dont_inherit=True), main.__dict__)  # noqa: S102 - its whole purpose
        status = 0
    except SystemExit as leaving:
        status = _status_of(leaving.code)
    except BaseException as error:  # noqa: BLE001 - whatever the program raises is printed as Python prints it
        trace = error.__traceback__
        error.__traceback__ = trace.tb_next if trace else None
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    _say_goodbye(main)
    return status


def _status_of(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _say_goodbye(main: ModuleType) -> None:
    """Do what the end of an interpreter does: wait for threads, run exit hooks, let go of open files."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    main.__dict__.clear()
    gc.collect()
