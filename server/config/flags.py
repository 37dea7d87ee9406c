"""The flags that set settings. They may stand before or after a command word."""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .errors import ConfigError
from .kinds import did_you_mean
from .settings import Setting, table

SECRETS: Mapping[str, str] = {
    "token": "TOOLBOX_TOKEN holds it, or the file that --token-file names",
    **{
        name: f"{about.elsewhere} or {about.variable} holds it, or the settings file"
        for name, about in table().items()
        if about.secret
    },
}
"""What is never taken from the command line, and where it goes instead."""

_METAVARS = {
    "roots": "DIR",
    "preset": "reader|editor|coder|beside",
    "profile": "toolbox|orbiter|llmtools",
    "toolsets": "GROUP,...",
    "exec_tools": "TOOL,...",
    "allowed_commands": "NAME",
    "transport": "stdio|http|sse",
    "host": "ADDRESS",
    "port": "N",
    "token_file": "FILE",
    "log_level": "LEVEL",
}
_GROUPS = {
    "What the tools may use": (
        "roots",
        "preset",
        "toolsets",
        "enable_exec_tools",
        "exec_tools",
        "allowed_commands",
        "enable_shell",
        "profile",
    ),
    "How clients connect": ("transport", "host", "port", "token_file"),
}


@dataclass(frozen=True)
class Given:
    """A raw value from the command line and the flag that gave it."""

    raw: Any
    flag: str


@dataclass
class Flags:
    """What the flags of a command line say: raw values by setting, the settings file, and what is no such flag."""

    given: dict[str, Given] = field(default_factory=dict)
    config: str | None = None
    rest: list[str] = field(default_factory=list)


class Parser(argparse.ArgumentParser):
    """A parser that raises ConfigError, in one line, instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print; argparse would also print the usage."""
        raise ConfigError(message.removeprefix("argument "))


def flag_parser() -> Parser:
    """Return the parser of the flags alone, without help and without positional arguments."""
    parser = Parser(add_help=False, allow_abbrev=False)
    settings = table()
    for title, names in _GROUPS.items():
        group = parser.add_argument_group(title)
        for name in names:
            _add(group, settings[name])
    group = parser.add_argument_group("Configuration")
    group.add_argument("--config", metavar="FILE", help="settings file, outside every root (default: the user's own)")
    group.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action=_SetAny,
        dest="given",
        help="any setting; lists with commas, maps as JSON (docs/configuration.md)",
    )
    _add(group, settings["log_level"])
    return parser


def read_flags(argv: Sequence[str]) -> Flags:
    """Take the flags out of a command line; everything behind `--` is left alone. Raises ConfigError."""
    before = list(argv[: argv.index("--")]) if "--" in argv else list(argv)
    found = Flags()
    _, rest = flag_parser().parse_known_args(before, namespace=_Bag(found))
    found.rest = rest + list(argv[len(before) :])
    return found


def refuse_flag(argument: str, known: Sequence[str]) -> ConfigError:
    """Return the error for an argument that nothing takes; it never repeats a value. known are the flags there are."""
    if not argument.startswith("-"):
        return ConfigError(f"unexpected argument {argument}; --help shows what there is")
    flag = argument.split("=", 1)[0]
    name = flag.lstrip("-").replace("-", "_")
    if name in SECRETS:
        return ConfigError(f"{flag}: secrets never come by flag; {SECRETS[name]}")
    if name in table():
        own = table()[name].flag
        return ConfigError(f"unknown flag {flag}; {own or f'--set {name}=VALUE'} sets it")
    near = did_you_mean(flag.lstrip("-"), [each.lstrip("-") for each in known], "--{}")
    return ConfigError(f"unknown flag {flag}{'; ' if near else ''}{near}")


def flag_names() -> list[str]:
    """Return the flags of settings, with --config and --set."""
    return [about.flag for about in table().values() if about.flag] + ["--config", "--set"]


class _Bag(argparse.Namespace):
    """Namespace over Flags: argparse sets config, the actions below add to given."""

    def __init__(self, flags: Flags) -> None:
        super().__init__(flags=flags)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "config":
            self.flags.config = value
        super().__setattr__(name, value)


class _SetOne(argparse.Action):
    def __init__(self, about: Setting, **more: Any) -> None:
        super().__init__(default=argparse.SUPPRESS, **more)
        self.about = about

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        given: dict[str, Given] = namespace.flags.given
        flag = str(self.about.flag)
        raw: Any = "true" if self.nargs == 0 else values
        if self.about.repeat:
            earlier = given.get(self.about.name)
            raw = [*(earlier.raw if earlier and earlier.flag == flag else []), values]
        given[self.about.name] = Given(raw, flag)


class _SetAny(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        name, equals, raw = str(values).partition("=")
        name = name.strip()
        if name in SECRETS:
            raise ConfigError(f"--set {name}: secrets never come by flag; {SECRETS[name]}")
        if not equals:
            raise ConfigError(f"--set {name}: expected NAME=VALUE")
        namespace.flags.given[name] = Given(raw, f"--set {name}")


def _add(group: Any, about: Setting) -> None:
    flag_only = about.default is False
    shown = {"action": _SetOne, "about": about, "dest": "given", "help": _help(about)}
    group.add_argument(about.flag, **shown, **({"nargs": 0} if flag_only else {"metavar": _METAVARS[about.name]}))


def _help(about: Setting) -> str:
    meaning = re.split(r"[;.:] ", about.meaning)[0].rstrip(".").replace("%", "%%")
    text = meaning[0].lower() + meaning[1:] + ("; repeat it for more" if about.repeat else "")
    default = "the working directory" if about.name == "roots" else about.kind.show(about.default)
    return text if default in (False, None, []) else f"{text} (default: {default})"
