"""Environments of programs, as values: what of the server's own reaches them, and what lies above it.

Nothing here reads the process's environment; it is an argument everywhere.
"""

import os
from collections.abc import Collection, Iterable, Mapping

OWN_PREFIX = "TOOLBOX_"
"""Variables of this server: settings, tokens, marks on processes."""

OWN_NAMES = frozenset(
    {
        "TAVILY_API_KEY", "BRAVE_API_KEY", "SEARXNG_URL", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    }
)  # fmt: skip
"""Variables beside those of OWN_PREFIX that this server takes settings from, most of them secrets."""

LOGIN_NAMES = frozenset(
    {
        "PATH", "PATHEXT", "HOME", "USERPROFILE", "TMP", "TEMP", "TMPDIR", "SHELL", "COMSPEC", "APPDATA", "LOCALAPPDATA",
        "LANG", "TERM", "GOPATH", "GOBIN", "JAVA_HOME", "PNPM_HOME", "CARGO_HOME",
    }
)  # fmt: skip
LOGIN_PREFIXES = ("LC_", "ASDF_", "PYENV_", "NVM_", "VOLTA_", "SDKMAN_", "CONDA_")
"""Of what a login shell sets, only what finds programs and their data is kept: the rest may be anybody's secret."""


QUIET = {
    "NPM_CONFIG_UPDATE_NOTIFIER": "false",
    "NPM_CONFIG_FUND": "false",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
"""Keeps package managers from advertising releases of themselves behind each answer; the operator's own values win."""

PROJECT_BIN = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Folders of a project that hold its own tools."""

PROJECT_TOOLS = (
    "python", "python3", "pip", "pip3", "pytest", "ruff", "mypy", "pyright", "tox", "nox", "node", "npm", "npx", "pnpm",
    "yarn", "tsc", "eslint", "prettier", "jest", "vitest", "mocha", "rspec", "rake", "rails", "rubocop", "standardrb",
)  # fmt: skip
"""Programs that load the project's code anyway, so that who may write it gains nothing by being one of them."""


def which(program: str, env: Mapping[str, str]) -> str | None:
    """Return the path of a program on the PATH of env.

    A folder of it that is relative is passed over: it would lead into the project, whose files decide nothing here.
    """
    for folder in os.get_exec_path(env):
        path = os.path.join(folder, program)
        if os.path.isabs(folder) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def own(name: str) -> bool:
    """Return True if a variable belongs to this server and reaches no program. Case does not count."""
    name = name.upper()
    return name.startswith(OWN_PREFIX) or name in OWN_NAMES


def scrub(source: Mapping[str, str], passthrough: Collection[str]) -> dict[str, str]:
    """Return the variables of source that passthrough names."""
    return {name: source[name] for name in passthrough if name in source and not own(name)}


def inherit(source: Mapping[str, str]) -> dict[str, str]:
    """Return source without what belongs to this server."""
    return {name: value for name, value in source.items() if not own(name)}


def from_login(output: bytes) -> dict[str, str]:
    """Return the used part of the output of `env -0` in a login shell, whatever the shell printed before it."""
    found: dict[str, str] = {}
    for entry in output.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "surrogateescape").partition("=")
        # A greeting of the login scripts stands before the first variable, on lines of its own.
        name = name.rpartition("\n")[2]
        if equals and (name in LOGIN_NAMES or name.startswith(LOGIN_PREFIXES)) and not own(name):
            found[name] = value
    return found


def layered(layers: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return all layers as one; later ones win."""
    return {name: value for layer in layers for name, value in layer.items()}
