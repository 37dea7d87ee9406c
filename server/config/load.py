"""The configuration: defaults, then the preset, then the settings file, then the environment, then flags.

Pure but for reading the settings file and the token file, and for looking where paths lead.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from ...tools.catalogue import KNOWN_TOOLS
from .bearer import read_tokens
from .checks import check, outside
from .errors import ConfigError
from .file import Entry, read_settings
from .flags import SECRETS, Flags, flag_names, read_flags, refuse_flag
from .kinds import InvalidValue, ReadContext, did_you_mean
from .presets import DEV_COMMANDS, expanded, preset_file
from .settings import ALIASES, INTERPRETERS, OBEYED_BY_OTHERS, SERVER_WIDE, Setting, Settings, table
from .user_dirs import Places, places

if TYPE_CHECKING:
    from ..transports.http.settings import HttpSettings, OAuthSettings

FOREIGN_VARIABLES = {"TOOLBOX_PATH"}
"""Variables of others: containers/toolbox sets TOOLBOX_PATH in every container it enters."""

NO_FILE = "no settings file can be used then, and flags and TOOLBOX_ variables set the same"
"""What to do about a settings file where the whole filesystem is served."""

_ROOTS = {"root", "roots", "fs_root"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Config(Settings):
    """All settings as they hold for the life of a server, and what was found out while reading them.

    sources: by setting, `default`, `file`, `env VARIABLE`, `flag --X` or `override`. tokens: bearer tokens by the
    name of their principal. config_file: the settings file that was read. places: the user's folders.
    of_principals: what each principal with settings of its own is served by.
    """

    sources: Mapping[str, str]
    places: Places
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    config_file: Path | None = None
    known_tools: Mapping[str, str] = field(default_factory=lambda: KNOWN_TOOLS, repr=False)
    of_principals: Mapping[str, "Config"] = field(default_factory=dict, repr=False)

    @property
    def fs_root(self) -> Path:
        """The other name of root."""
        return self.root

    @property
    def commands(self) -> tuple[str, ...]:
        """The names of the commands that bash and process_start may run."""
        return expanded(self.allowed_commands, "@dev", DEV_COMMANDS)

    @property
    def protected(self) -> tuple[str, ...]:
        """The globs of what is never written, with those that `@default` stands for."""
        return expanded(self.protected_paths, "@default", OBEYED_BY_OTHERS)

    @property
    def records_place(self) -> Path | str:
        """The file of the records, or the URL of their database."""
        return self.records_file if self.records_url is None else self.records_url

    @property
    def own_files(self) -> tuple[Path, ...]:
        """Files and folders of this server, which no tool may write, whether they exist or not."""
        own = [self.places.config, self.places.state, self.config_file, self.token_file, self.tls_key, self.tls_cert]
        if self.records and self.records_url is None:
            own += [Path(f"{self.records_file}{end}") for end in ("", "-wal", "-shm", "-journal")]
        if isinstance(self.unsafe_logger, Path):
            own.append(self.unsafe_logger)
        return tuple(path for path in own if path is not None)

    def http_settings(self) -> "HttpSettings":
        """Return the settings of the http and sse transports; transport is one of them."""
        from ..transports.http.bearer import digests
        from ..transports.http.settings import HttpSettings

        assert self.transport != "stdio"
        return HttpSettings(
            transport=self.transport,
            host=self.host,
            port=self.port,
            tokens=digests(self.tokens),
            oauth=self._oauth(),
            allowed_hosts=self.allowed_hosts,
            allowed_origins=self.allowed_origins,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            allow_plain_http=self.allow_plain_http,
            max_sessions=self.http_max_sessions,
            idle_timeout=self.http_idle_timeout,
            max_in_flight=self.max_in_flight,
            drain=self.http_drain or 0,
        )

    def _oauth(self) -> "OAuthSettings | None":
        if self.oauth_issuer is None:
            return None
        from ..transports.http.settings import OAuthSettings

        scheme = "https" if self.tls_cert else "http"
        path = "mcp" if self.transport == "http" else "sse"
        resource = self.oauth_resource or f"{scheme}://{self.host}:{self.port}/{path}"
        return OAuthSettings(self.oauth_issuer, resource, self.oauth_audience or resource, tuple(self.oauth_scopes))

    def with_(self, **overrides: object) -> Self:
        """Return a copy with some settings replaced, read and checked like any other; raises ConfigError.

        unsafe_logger and search_adapter may be objects. Relative paths belong to the root. The token file is not
        read again.
        """
        raws = _overrides(overrides)
        at = ReadContext(self.root, self.places.home, self.known_tools)
        roots = self.roots if raws.keys().isdisjoint(_ROOTS) else _roots(raws, at)
        values = _values(raws, replace(at, base=roots[0]))
        if roots is not self.roots:
            values |= {"roots": roots, "root": roots[0]}
        sources = MappingProxyType({**self.sources, **dict.fromkeys(values, "override")})
        made = replace(self, **values, sources=sources)
        if made.config_file:
            outside(made.config_file, made.roots, "the settings file", "name one elsewhere with --config", NO_FILE)
        made._check()
        return made

    def _check(self) -> None:
        check(self)
        if self.transport != "stdio":
            from ..transports.http.settings import refusal

            if (why := refusal(self.http_settings())) is not None:
                raise ConfigError(why)


@dataclass(frozen=True)
class _Raw:
    """A raw value, its source, how a message says so, and the folder of its relative paths if it has its own."""

    value: Any
    source: str
    where: str
    folder: Path | None = None


_Layer = dict[str, _Raw]
"""What one source gives, by setting."""


def load(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    cwd: Path,
    known_tools: Mapping[str, str] = KNOWN_TOOLS,
    overrides: Mapping[str, object] | None = None,
    platform: str = sys.platform,
) -> Config:
    """Return the configuration that flags, environment and settings file give; raises ConfigError.

    argv: flags only. cwd: absolute; the root unless one is named. known_tools: group by tool. overrides: values from a
    program that embeds the server; they win over everything.
    """
    flags = read_flags(argv)
    if flags.rest:
        raise refuse_flag(flags.rest[0], flag_names())
    return load_flags(flags, env, cwd=cwd, known_tools=known_tools, overrides=overrides, platform=platform)


def load_flags(
    flags: Flags,
    env: Mapping[str, str],
    *,
    cwd: Path,
    known_tools: Mapping[str, str] = KNOWN_TOOLS,
    overrides: Mapping[str, object] | None = None,
    platform: str = sys.platform,
    serves: bool = True,
    own: "_Layer | None" = None,
) -> Config:
    """As load, for flags that were taken out of a command line with more in it.

    serves: false for a command that serves no folder. It may run in the home folder, where a terminal opens, without a root.
    own: the settings of a principal, which lie above all others.
    """
    user = places(env, platform)
    at = ReadContext(cwd, user.home, known_tools)
    layers = [_from_environment(env, platform), _from_flags(flags), _overrides(overrides or {}), own or {}]
    file = _config_file(flags, user, cwd)
    entries = read_settings(file) if file else {}
    if file:
        only_roots = _from_file(file, {key: entry for key, entry in entries.items() if key in _ROOTS})
        roots, roots_from = _chosen_roots([only_roots, *layers], at, user, serves)
        if serves or roots_from != "default":
            outside(
                file,
                roots,
                "the settings file",
                "what the tools can write must not configure them; name one elsewhere with --config",
                NO_FILE,
            )
        layers.insert(0, _from_file(file, entries))
    layers.insert(0, _from_preset(layers, at))
    roots, roots_from = _chosen_roots(layers, at, user, serves)
    raws = {name: raw for layer in layers for name, raw in layer.items() if name not in _ROOTS}
    for name, about in table().items():
        if about.elsewhere and name not in raws and env.get(about.elsewhere):
            source = f"env {about.elsewhere}"
            raws[name] = _Raw(env[about.elsewhere], source, source)
    values = _values(raws, replace(at, base=roots[0]))
    sources = {name: raws[name].source if name in raws else "default" for name in table()}
    config = Config(
        **(_computed(user, platform) | values | {"roots": roots, "root": roots[0]}),
        sources=MappingProxyType(sources | {"roots": roots_from, "root": roots_from}),
        config_file=Path(os.path.realpath(file)) if file else None,
        places=user,
        known_tools=known_tools,
    )
    made = replace(config, tokens=read_tokens(config.token_file, env.get("TOOLBOX_TOKEN")))
    if own is None and (layers_of := _served_layers(made, raws)):
        served = {
            name: load_flags(
                flags, env, cwd=cwd, known_tools=known_tools, overrides=overrides, platform=platform, own=layer
            )
            for name, layer in layers_of.items()
        }
        made = replace(made, of_principals=MappingProxyType(served))
    if serves or roots_from != "default":
        made._check()
    return made


def _served_layers(config: Config, raws: Mapping[str, _Raw]) -> dict[str, _Layer]:
    """Return the settings of each principal, and of each scope, that has its own."""
    # On pipes there is one client, and nobody needs a token.
    tokens = None if config.transport == "stdio" else config.tokens
    layers: dict[str, _Layer] = {}
    for name, settings in config.principals.items():
        where = f"principals.{name}"
        if tokens is not None and name not in tokens:
            raise ConfigError(f"{where}: no token has this name")
        layer = layers[name] = {}
        for key, value in settings.items():
            _put(layer, key, _Raw(value, where, where, raws["principals"].folder))
        for key in layer:
            if key in SERVER_WIDE or table()[key].secret:
                raise ConfigError(f"{where}: {key} is the same for all principals")
    for scope, preset in config.oauth_scopes.items():
        where = f"oauth_scopes.{scope}"
        layers[f"scope {scope}"] = {"preset": _Raw(preset, where, where)}
    return layers


def _config_file(flags: Flags, user: Places, cwd: Path) -> Path | None:
    if flags.config is None:
        return user.config_file if os.path.lexists(user.config_file) else None
    if not flags.config or "\0" in flags.config:
        raise ConfigError("--config: expected a file")
    return cwd / flags.config


def _from_file(path: Path, entries: Mapping[str, Entry]) -> _Layer:
    layer: _Layer = {}
    for key, entry in entries.items():
        where = f"{path}:{entry.line}"
        _put(layer, key, _Raw(entry.raw, "file", where, path.parent))
    return layer


def _from_preset(layers: Sequence[_Layer], at: ReadContext) -> _Layer:
    """Return the settings of the preset that the last of the layers chooses."""
    chosen = [layer["preset"] for layer in layers if "preset" in layer]
    name = _read(table()["preset"], chosen[-1], at) if chosen else table()["preset"].default
    if name == table()["preset"].default:
        return {}
    layer: _Layer = {}
    for key, entry in read_settings(preset_file(name)).items():
        _put(layer, key, _Raw(entry.raw, f"preset {name}", f"preset {name}"))
    return layer


def _from_environment(env: Mapping[str, str], platform: str) -> _Layer:
    layer: _Layer = {}
    names = {f"TOOLBOX_{name.upper()}": name for name in [*table(), *ALIASES]}
    for given, value in sorted(env.items()):
        variable = given.upper() if platform == "win32" else given
        if not variable.startswith("TOOLBOX_") or variable in FOREIGN_VARIABLES or variable == "TOOLBOX_TOKEN":
            continue
        if variable not in names:
            # Without what all have in common, which would make any two of them alike.
            known = [name.removeprefix("TOOLBOX_") for name in (*names, "TOOLBOX_TOKEN")]
            hint = did_you_mean(variable.removeprefix("TOOLBOX_"), known, "TOOLBOX_{}")
            raise ConfigError(f"environment: unknown setting {variable}{'; ' if hint else ''}{hint}")
        _put(layer, names[variable], _Raw(value, f"env {variable}", f"env {variable}"))
    return layer


def _from_flags(flags: Flags) -> _Layer:
    layer: _Layer = {}
    for name, given in flags.given.items():
        _put(layer, name, _Raw(given.raw, f"flag {given.flag}", f"flag {given.flag}"))
    return layer


def _overrides(given: Mapping[str, object]) -> _Layer:
    layer: _Layer = {}
    for name, value in given.items():
        _put(layer, name, _Raw(value, "override", "override"))
    return layer


def _put(layer: _Layer, key: str, raw: _Raw) -> None:
    """Add one value under the setting's own name; raises ConfigError for a name that is none."""
    if key not in table() and key not in ALIASES:
        if key in SECRETS:
            raise ConfigError(f"{raw.where}: {key} is no setting; {SECRETS[key]}")
        hint = did_you_mean(key, [*table(), *ALIASES])
        raise ConfigError(f"{raw.where}: unknown setting {key}{'; ' if hint else ''}{hint}")
    name = ALIASES.get(key, key)
    if name in layer:
        aliases = [alias for alias, real in ALIASES.items() if real == name]
        raise ConfigError(f"{raw.where}: {name} and {', '.join(aliases)} are one setting; give one of them")
    layer[name] = raw


def _values(raws: Mapping[str, _Raw], at: ReadContext) -> dict[str, Any]:
    return {name: _read(table()[name], raw, at) for name, raw in raws.items() if name not in _ROOTS}


def _read(about: Setting, raw: _Raw, at: ReadContext) -> Any:
    try:
        return about.kind.read(raw.value, replace(at, folder=raw.folder) if raw.folder else at)
    except InvalidValue as e:
        got = "" if about.secret else f", got {_shown(e.got)}"
        hint = f"; {e.hint}" if e.hint else ""
        raise ConfigError(f"{about.name}: expected {e.expected}{got} ({raw.where}){hint}") from None


def _shown(got: object) -> str:
    written = "null" if got is None else repr(got)
    return written if len(written) <= 80 else f"{written[:77]}..."


def _chosen_roots(
    layers: Sequence[_Layer], at: ReadContext, user: Places, serves: bool
) -> tuple[tuple[Path, ...], str]:
    """Return the roots and their source.

    root and roots are two spellings of one setting: the last source that has either decides alone, so that it
    never adds to what an earlier one opened.
    """
    for layer in reversed(layers):
        if not layer.keys().isdisjoint(_ROOTS):
            first = layer.get("root") or layer["roots"]
            return _roots(layer, at), first.source
    return (_default_root(at.folder, user) if serves else _folder(at.folder, "the working directory"),), "default"


def _roots(raws: Mapping[str, _Raw], at: ReadContext) -> tuple[Path, ...]:
    """Return the folders that root and roots of one source name, root first, with links resolved."""
    named: list[tuple[Path, _Raw]] = []
    if "root" in raws:
        named.append((_read(table()["root"], raws["root"], at), raws["root"]))
    if "roots" in raws:
        named += [(each, raws["roots"]) for each in _read(table()["roots"], raws["roots"], at)]
    if not named:
        raise ConfigError(f"roots: expected at least one folder ({raws['roots'].where})")
    return tuple(dict.fromkeys(_folder(path, raw.where) for path, raw in named))


def _folder(path: Path, where: str) -> Path:
    try:
        real = Path(os.path.realpath(path, strict=True))
    except OSError as e:
        raise ConfigError(f"root {path}: {e.strerror} ({where})") from None
    if not real.is_dir():
        raise ConfigError(f"root {path} is not a folder ({where})")
    return real


def _default_root(cwd: Path, user: Places) -> Path:
    real = _folder(cwd, "the working directory")
    what = "the whole filesystem" if real == Path(real.anchor) else None
    if user.home.is_dir() and os.path.samefile(real, user.home):
        what = "the home folder"
    if what:
        raise ConfigError(f"the working directory is {what}; name the folder to serve with --root")
    return real


def _computed(user: Places, platform: str) -> dict[str, Any]:
    """Return the defaults that depend on the machine."""
    found: dict[str, Any] = {"records_file": user.state / "records.sqlite3"}
    if platform == "win32":
        found["script_interpreters"] = MappingProxyType({**INTERPRETERS, ".py": "python"})
    return found
