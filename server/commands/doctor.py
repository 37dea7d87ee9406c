"""doctor: what works here, and whether the configuration needs something that does not."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import IO

from ...safety.errors import ToolError
from ...safety.path_jail.roots import Roots
from ...sandbox.environment import which
from ...sandbox.ripgrep import find_ripgrep, unconfined
from ...sandbox.spec import Probe
from ..budget.tokenizers import encoding_of, tokenizer_for
from ..call.override_log import unsafe_logger
from ..config.errors import ConfigError
from ..config.load import Config
from ..config.presets import DEV_COMMANDS
from ..records.places import writable
from ..records.statements import RecordError

OK, ABSENT, MISSING = "ok", "absent", "MISSING"
"""States: works; is not here and not needed; is not here although the configuration needs it."""

OPTIONAL: Mapping[str, str] = {
    "ruby": "run_ruby",
    "node": "run_node",
    "rustc": "run_rust",
    "cargo": "run_tests with cargo",
    "go": "run_tests with go",
    "npm": "run_tests with npm",
    "bundle": "bundle, and run_tests with rspec or minitest",
    "pytest": "run_tests and python_tests with pytest",
    "ruff": "lint with ruff",
    "rubocop": "lint with rubocop",
    "standardrb": "lint with standard",
}
"""Programs that some tools use, with what answers `unavailable` without them."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: str
    detail: str


def examine(config: Config, env: Mapping[str, str], out: IO[str], *, as_json: bool) -> int:
    """Print what was found and return 1 if something needed is missing, else 0."""
    from ..build import trusted_environment

    found = []
    for finding in findings(config, trusted_environment(env, config.roots)):
        found.append(finding)
        if not as_json:
            out.write(f"{finding.state:8} {finding.name:20} {finding.detail}\n")
    if as_json:
        out.write(json.dumps([vars(finding) for finding in found], indent=2, ensure_ascii=False) + "\n")
    missing = [finding.name for finding in found if finding.state == MISSING]
    if missing and not as_json:
        out.write(f"\nthe configuration needs what is missing here: {', '.join(missing)}\n")
    return 1 if missing else 0


def findings(config: Config, env: Mapping[str, str]) -> Iterator[Finding]:
    """Look at everything, one thing after the other."""
    yield Finding("toolbox-mcp", OK, f"{version('toolbox-mcp')}, Python {platform.python_version()}, {sys.platform}")
    yield _roots(config)
    yield _git(config, env)
    yield _ripgrep(config)
    yield _tokenizer(config)
    yield _landlock(config)
    yield from _sandboxes(config, env)
    yield _records(config)
    if config.unsafe_logger is not None:
        yield _unsafe_logger(config)
    yield _search(config)
    for name in config.allowed_commands:
        yield _dev_commands(env) if name == "@dev" else _program(name, env, "in allowed_commands", needed=True)
    for name, use in OPTIONAL.items():
        yield _program(name, env, use, needed=False)


def _exists(config: Config, group: str) -> bool:
    return config.toolsets == "all" or group in config.toolsets


def _absent(name: str, detail: str, *, needed: bool) -> Finding:
    return Finding(name, MISSING if needed else ABSENT, detail)


def _program(name: str, env: Mapping[str, str], use: str, *, needed: bool) -> Finding:
    place = which(name, env)
    return Finding(name, OK, place) if place else _absent(name, f"not installed ({use})", needed=needed)


def _dev_commands(env: Mapping[str, str]) -> Finding:
    absent = [name for name in DEV_COMMANDS if which(name, env) is None]
    return Finding(
        "@dev", OK, f"{len(DEV_COMMANDS) - len(absent)} of {len(DEV_COMMANDS)} installed, not {', '.join(absent)}"
    )


def _roots(config: Config) -> Finding:
    try:
        roots = Roots(config.roots)
    except OSError as e:
        return Finding("roots", MISSING, f"{e.filename or config.root}: {e.strerror}")
    roots.close()
    return Finding("roots", OK, f"{', '.join(map(str, config.roots))} (opened by {roots.engine.value})")


def _git(config: Config, env: Mapping[str, str]) -> Finding:
    needed = _exists(config, "git")
    place = which("git", env)
    if place is None:
        return _absent("git", "not installed (the git group)", needed=needed)
    try:
        done = subprocess.run([place, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return _absent("git", f"{place} does not run", needed=needed)
    return Finding("git", OK, f"{done.stdout.strip().removeprefix('git version ')} at {place}")


def _ripgrep(config: Config) -> Finding:
    try:
        ripgrep = find_ripgrep()
    except ToolError as e:
        return _absent("ripgrep", f"{e.error}; {e.hint}", needed=_exists(config, "read"))
    why_not = unconfined()
    confined = f"not confined: {why_not}" if why_not else "confined to the roots by Landlock"
    return Finding("ripgrep", OK, f"{ripgrep.binary}, {confined}")


def _tokenizer(config: Config) -> Finding:
    try:
        tokenizer_for(config.tokenizer_model).count("works")
        encoding = encoding_of(config.tokenizer_model)
    except (OSError, ValueError) as e:
        return Finding("tokenizer", MISSING, f"{config.tokenizer_model}: {e}")
    counts = f"the encoding {encoding}" if encoding else "no vocabulary on board, so four characters count as a token"
    return Finding("tokenizer", OK, f"{config.tokenizer_model}: {counts}")


def _landlock(config: Config) -> Finding:
    needed = config.confine != "off"
    if sys.platform != "linux":
        return _absent("landlock", "only on Linux", needed=needed)
    from ...sandbox.linux.landlock import abi

    found = abi()
    return Finding("landlock", OK, f"ABI {found}") if found else _absent("landlock", "not offered", needed=needed)


def _sandboxes(config: Config, env: Mapping[str, str]) -> Iterator[Finding]:
    """Attack each sandbox back end, and tell whether the setting has one to use."""
    import asyncio

    from ...sandbox.backends.choose import candidates
    from ...sandbox.service import Sandbox
    from ..build import sandbox_settings

    async def attacked() -> Mapping[str, Probe]:
        sandbox = Sandbox(sandbox_settings(config, env))
        try:
            return await sandbox.doctor()
        finally:
            await sandbox.aclose()

    probes = asyncio.run(attacked())
    wanted = candidates(config.sandbox_runtime, sys.platform)
    works = any(probes[name].ok for name in wanted if name in probes)
    needed = config.enable_exec_tools and _exists(config, "sandbox") and bool(wanted) and not works
    if config.sandbox_runtime not in ("auto", "none", *probes):
        # What the operator names is missed whether or not anything needs it at this moment.
        probes = {**probes, config.sandbox_runtime: Probe(False, ("not installed, or not for this system",))}
    for name, probe in probes.items():
        named = name == config.sandbox_runtime
        detail = "; ".join(probe.reasons)
        state = OK if probe.ok else MISSING if named or (needed and name in wanted) else ABSENT
        yield Finding(
            f"sandbox {name}",
            state,
            f"degraded: {detail}" if probe.ok and detail else detail or "contained the attack on it",
        )


def _records(config: Config) -> Finding:
    if not config.records:
        return Finding("records", ABSENT, "off (records: false)")
    if config.records_url is not None:
        try:
            writable(config.records_url).close()
        except (RecordError, ConfigError) as e:
            return Finding("records", MISSING, str(e))
        return Finding("records", OK, "the database of records_url")
    file = config.records_file
    place = next(each for each in (file, *file.parents) if each.exists())
    usable = place.is_file() if place == file else place.is_dir()
    if not usable or not os.access(place, os.W_OK):
        return Finding("records", MISSING, f"{file} cannot be written")
    return Finding("records", OK, str(file))


def _unsafe_logger(config: Config) -> Finding:
    try:
        unsafe_logger(config.unsafe_logger)
    except ConfigError as e:
        return Finding("unsafe_logger", MISSING, str(e))
    return Finding("unsafe_logger", OK, str(config.unsafe_logger))


def _search(config: Config) -> Finding:
    adapter = config.search_adapter or "tavily"
    needs = {"tavily": "tavily_api_key", "brave": "brave_api_key", "searxng": "searxng_url"}.get(str(adapter))
    if needs is None or getattr(config, needs):
        return Finding("web_search", OK, str(adapter))
    asked = config.search_adapter is not None and _exists(config, "web")
    return _absent("web_search", f"{adapter}: {needs} is not set", needed=asked)
