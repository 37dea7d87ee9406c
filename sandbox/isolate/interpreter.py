"""A second Python that finds this package, and functions, where this one found them."""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACKAGE = str(Path(__file__).parents[2])
"""The folder of this package, which has another name than the package where it is a clone."""
LOAD_PACKAGE = (
    "import sys; sys.dont_write_bytecode = True; "
    "sys.modules['toolbox_mcp'] = package = type(sys)('toolbox_mcp'); package.__path__ = [{package!r}]; "
)
"""Code that makes the modules of this package importable in a bare interpreter, without running its `__init__`."""
_BOOT = (
    LOAD_PACKAGE + "import json; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main(sys.argv[2:])"
)


def command(module: str, *arguments: str) -> list[str]:
    """Return the argv that runs main(arguments) of a module in a clean interpreter.

    -I keeps the environment, the user's site and the working directory out. The import path
    is handed over, so that a checkout, an editable install and a wheel all work.
    """
    return [
        sys.executable,
        "-I",
        "-c",
        _BOOT.format(package=PACKAGE, module=module),
        json.dumps(import_path()),
        *arguments,
    ]


def import_path() -> list[str]:
    """Return the absolute entries of sys.path: a relative one names the working directory, from which nothing may be imported."""
    return list(dict.fromkeys(p for p in sys.path if os.path.isabs(p)))


def find(name: str) -> Callable[..., Any]:
    """Import a function by module:qualname."""
    module, _, qualname = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def prefixes() -> list[str]:
    """Return the folders of the interpreter, and of the virtual environment if it runs in one."""
    places = (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    return list(dict.fromkeys(os.path.realpath(p) for p in places))
