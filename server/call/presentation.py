"""The tools as a client sees them under a configuration: without those that cannot work, and with what is allowed."""

import os
import re
from collections.abc import Collection, Mapping

from mcp_types import Tool as WireTool

from ...sandbox.environment import which
from ...sandbox.languages import LANGUAGES
from ..config.load import Config

MAX_COMMANDS = 40
"""Commands that a description names (AMENDMENTS A6)."""

PROCESS_TOOLS = ("process_list", "process_input", "process_kill")
"""What is of no use where no process can be started."""

PRINTING = ("bash", "shell", "run_script", "process_start", "run_tests", "python_tests", "lint", "bundle")
"""Tools of which an output may be cut, so that process_output can read on; so do all of the group sandbox."""

_IMAGES = ("docker", "podman")
_VERSION = re.compile(r"python(3\.[0-9]+)")


def unusable(listed: Collection[str], config: Config, env: Mapping[str, str] | None) -> set[str]:
    """Return the listed tools that cannot work: nothing is allowed, or their program or key is missing.

    env: the server's environment; None leaves the programs unasked.
    """
    found: set[str] = set()
    if not config.commands:
        found |= {"bash", "process_start"}
    if env is not None:
        if which("git", env) is None:
            found |= {name for name in listed if name.startswith("git_")}
        if config.sandbox_runtime not in _IMAGES:
            found |= {
                f"run_{name}"
                for name, language in LANGUAGES.items()
                if not any(which(p, env) for p in language.programs)
            }
    needed = {None: "tavily_api_key", "tavily": "tavily_api_key", "brave": "brave_api_key", "searxng": "searxng_url"}
    if config.search_adapter in needed and not getattr(config, needed[config.search_adapter]):
        found.add("web_search")
    left = {*listed} - found
    if "process_start" not in left:
        found |= {*PROCESS_TOOLS}
        if not any(name in left for name in (*PRINTING, *(f"run_{name}" for name in LANGUAGES))):
            found.add("process_output")
    return found & {*listed}


def presented(wire: WireTool, config: Config, env: Mapping[str, str] | None = None) -> WireTool:
    """Return the entry of a tool in the listing. An `unsafe` that nobody grants is left out; it stays refused by name.

    env: the server's environment, in which the version of Python is looked up; None leaves that unasked.
    """
    description = wire.description or ""
    if wire.name in ("bash", "process_start"):
        more = len(config.commands) - MAX_COMMANDS
        names = ", ".join(config.commands[:MAX_COMMANDS]) + (f" and {more} more" if more > 0 else "")
        description += f"\n\nAllowed: {names or 'nothing'}."
    if wire.name in {f"run_{name}" for name in LANGUAGES}:
        description += f"\n\nAt most {config.command_timeout:g} s and {config.sandbox_memory >> 20} MiB."
    if wire.name == "run_python" and (python := _python(config, env)):
        description += f" {python}."
    if wire.name == "run_python" and config.sandbox_packages and config.sandbox_runtime not in _IMAGES:
        shown = (
            str(each.relative_to(config.root)) if each.is_relative_to(config.root) else each.name
            for each in config.sandbox_packages
        )
        description += f"\n\nAlso imports from {', '.join(shown)}."
    schema = wire.input_schema
    if not config.allow_unsafe and "unsafe" in schema.get("properties", {}):
        properties = {name: about for name, about in schema["properties"].items() if name != "unsafe"}
        schema = {**schema, "properties": properties}
    return wire.model_copy(update={"description": description, "input_schema": schema})


def _python(config: Config, env: Mapping[str, str] | None) -> str | None:
    """Return which Python runs, as far as names say it: nothing is started for a listing."""
    if config.sandbox_runtime in _IMAGES:
        return f"Python of the image {config.python_image}"
    found = next(filter(None, (which(name, env) for name in LANGUAGES["python"].programs)), None) if env else None
    version = _VERSION.fullmatch(os.path.basename(os.path.realpath(found))) if found else None
    return f"Python {version[1]}" if version else None
