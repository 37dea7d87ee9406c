"""Secrets are masked before anything is kept or shown: by the name they stand under, and by their own shape."""

import itertools
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MASK = "[redacted]"
OMITTED = "[omitted]"

_DEEPEST = 64
"""Levels of nesting that are looked through; what lies deeper is masked whole."""

_WORDS = frozenset(
    ("key", "keys", "token", "tokens", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "passcode")
) | frozenset(("pwd", "authorization", "auth", "cookie", "cookies", "credential", "credentials", "apikey"))
_ENDINGS = (
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "cookie",
)
_ABOUT = frozenset(("file", "path", "model", "name", "count", "limit", "length", "size", "type"))
"""Last words of names that say something about a secret, and do not hold it: token_file, key_name."""

_NAMES = 1024
"""Names that are remembered with what was said of them: most come with every call."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_SHAPES = tuple(
    (marks, re.compile(pattern))
    for marks, pattern in (
        (
            ("PRIVATE KEY",),
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----(?:(?!-----END)[\s\S])*(?:-----END[A-Z ]{0,60}-----)?",
        ),
        (("eyJ",), r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*){0,3}"),
        (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{16,}"),
        (("github_pat_",), r"(?<![A-Za-z0-9])github_pat_\w{16,}"),
        (("glpat-", "glptt-", "glrt-", "gldt-", "glagent-"), r"(?<![A-Za-z0-9])gl(?:pat|ptt|rt|dt|agent)-[\w-]{16,}"),
        (("sk-",), r"(?<![A-Za-z0-9])sk-[\w-]{16,}"),
        (("_live_", "_test_"), r"(?<![A-Za-z0-9])[srp]k_(?:live|test)_\w{10,}"),
        (("whsec_",), r"(?<![A-Za-z0-9])whsec_\w{16,}"),
        (("xox", "xapp-"), r"(?<![A-Za-z0-9])(?:xox[abeoprs]|xapp)-[\w-]{8,}"),
        (
            ("AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ANPA"),
            r"(?<![A-Za-z0-9])A(?:KIA|SIA|GPA|IDA|ROA|NPA)[0-9A-Z]{12,}",
        ),
        (("AIza", "ya29."), r"(?<![A-Za-z0-9])(?:AIza|ya29\.)[\w-]{16,}"),
        (("npm_", "hf_", "dop_v1_"), r"(?<![A-Za-z0-9])(?:npm|hf|dop_v1)_[A-Za-z0-9]{20,}"),
        (("pypi-", "tvly-"), r"(?<![A-Za-z0-9])(?:pypi|tvly)-[\w-]{12,}"),
        (("SG.",), r"(?<![A-Za-z0-9])SG\.[\w-]{16,}\.[\w-]{16,}"),
        (("AGE-SECRET-KEY-",), r"(?<![A-Za-z0-9])AGE-SECRET-KEY-1[0-9A-Z]{20,}"),
    )
)
"""Tokens that are known by their look; the marks, one of which each holds, are what is searched for first."""


def _rare(mark: str) -> str:
    """Return a character of a mark that most text has not, or nothing: to find one takes a tenth of finding several."""
    return next((character for character in "_- .A" if character in mark), "")


_MARKED = tuple(
    (rare, tuple((mark, shape) for mark, _, shape in group))
    for rare, group in itertools.groupby(
        ((mark, _rare(mark), shape) for marks, shape in _SHAPES for mark in marks), lambda each: each[1]
    )
)
"""The marks in their order, those together that have the same rare character."""

_SCHEMES = ("bearer ", "basic ", "digest ", "negotiate ")
_SCHEME = re.compile(r"\b(bearer|basic|digest|negotiate) +[\w.~+/=:-]{6,}", re.IGNORECASE)

_ROOTS = ("key", "token", "secret", "passw", "passp", "passc", "pwd", "auth", "cookie", "credential")
"""One of these is in every name that is sensitive; lines without any are not looked at for names."""
_USERINFO = re.compile(r"(?<=://)([^\s/?#@:]{0,200}):[^\s/?#@]{1,500}@")

# Each begins only where a name can begin and looks at no more than 64 characters of it, so the work stays linear.
_ASSIGNED = re.compile(r"""(?<![\w.-])(-{0,2})([\w.-]{1,64})=("[^"]*"|'[^']*'|[^\s&"';,]+)""")
_QUOTED = re.compile(
    r"""(\\?["'])([\w.-]{1,64})\1(\s{0,8}[:=]>?\s{0,8})(\\?["'])((?:\\.|(?!\4).){1,4000})\4""", re.DOTALL
)
_HEADER = re.compile(r"(?<![\w.-])([A-Za-z][\w-]{0,63})(: ?)([^\r\n\"']+)")
_OPTION = re.compile(r"(?<![\w.-])(--?)([A-Za-z][\w-]{0,63})( +)(?!-)([^\s&\"';,|]+)")

_HEADERS = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie"))


def redact(value: Any, most: int | None = None) -> Any:
    """Return value with every secret in it replaced by MASK.

    Dictionaries, lists, tuples and strings are looked through, other values pass. What stands under a name like key,
    token, secret, password, authorization or cookie goes whole; strings lose what looks like a token, an
    authorization header, an assignment or an option that carries a secret.

    most: characters of one string that are looked at, and a quarter of those in all; OMITTED stands for the rest.
    """
    return _Redaction(most).value(value, 0)


def sensitive(name: str) -> bool:
    """Tell whether what stands under name is a secret: one of its words says so, in any case and any spelling."""
    return _sensitive(name[:200])


@lru_cache(_NAMES)
def _sensitive(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT:
        return False
    return not _WORDS.isdisjoint(words) or "".join(words).endswith(_ENDINGS)


_LOOKED_THROUGH = (dict, list, tuple, Mapping)


class _Redaction:
    def __init__(self, most: int | None) -> None:
        self._most = sys.maxsize if most is None else most
        self._left = 4 * self._most

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, _LOOKED_THROUGH):
            return value
        if depth >= _DEEPEST:
            return MASK
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        return self._list(value, depth)

    def _text(self, text: str) -> str:
        most = min(self._most, self._left)
        if len(text) > most:
            text = text[:most] + OMITTED
        self._spend(len(text))
        return _in_text(text)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        # {"name": "Authorization", "value": "..."} is how lists of headers and of variables are often written.
        named = ("value" in value or "key" in value) and _names_secret(value)
        found: dict[Any, Any] = {}
        for name, inner in value.items():
            if not self._left:
                found[OMITTED] = len(value) - len(found)
                break
            self._spend(len(name) if isinstance(name, str) else 1)
            if isinstance(name, str) and sensitive(name) and not (named and name == "key"):
                numbers = name.lower().endswith("tokens") and not isinstance(inner, str)
                found[name] = self.value(inner, depth + 1) if numbers else _masked(inner)
            elif named and name == "value":
                found[name] = _masked(inner)
            else:
                found[name] = self.value(inner, depth + 1)
        return found

    def _list(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        found: list[Any] = []
        secret_next = False
        for item in value:
            if not self._left:
                found.append(OMITTED)
                break
            self._spend(1)
            if secret_next and isinstance(item, str) and not item.startswith("--"):
                found.append(_masked(item))
                secret_next = False
                continue
            found.append(self.value(item, depth + 1))
            # An option before its value, or a pair of a header's name and value.
            names_next = isinstance(item, str) and (item.startswith("-") or len(value) == 2)
            secret_next = names_next and re.fullmatch(r"[\w-]{1,64}", item) is not None and sensitive(item)
        return found

    def _spend(self, characters: int) -> None:
        self._left = max(0, self._left - characters)


def _names_secret(pair: Mapping[Any, Any]) -> bool:
    return any(isinstance(pair.get(name), str) and sensitive(pair[name]) for name in ("name", "key", "header"))


def _masked(value: Any) -> Any:
    """Mask a value whole; that there is none may be seen."""
    return value if value is None or isinstance(value, bool) or value in ("", [], {}) else MASK


def _in_text(text: str) -> str:
    for rare, marked in _MARKED:
        if rare in text:
            for mark, shape in marked:
                if mark in text:
                    text = shape.sub(MASK, text)
    lower = text.lower()
    if " " in text and _has(lower, _SCHEMES):
        text = _SCHEME.sub(rf"\1 {MASK}", text)
    if "://" in text:
        text = _USERINFO.sub(rf"\1:{MASK}@", text)
    if _has(lower, _ROOTS):
        text = "\n".join(map(_in_line, text.split("\n")))
    return text


def _has(text: str, words: tuple[str, ...]) -> bool:
    # A loop, as it takes a third of what any() does, and this runs for every text.
    for word in words:  # noqa: SIM110
        if word in text:
            return True
    return False


def _in_line(line: str) -> str:
    lower = line.lower()
    if not _has(lower, _ROOTS):
        return line
    if "=" in line:
        line = _ASSIGNED.sub(_assigned, line)
    if ":" in line or "=>" in line:
        line = _QUOTED.sub(_quoted, line)
        line = _HEADER.sub(_header, line)
    return _OPTION.sub(_option, line) if "-" in line else line


def _assigned(match: re.Match[str]) -> str:
    dashes, name, _ = match.groups()
    return f"{dashes}{name}={MASK}" if sensitive(name) else match[0]


def _quoted(match: re.Match[str]) -> str:
    quote, name, between, opening, value = match.groups()
    # The value may be JSON as text, whose own names count too.
    value = MASK if sensitive(name) else _QUOTED.sub(_quoted_within, value)
    return f"{quote}{name}{quote}{between}{opening}{value}{opening}"


def _quoted_within(match: re.Match[str]) -> str:
    quote, name, between, opening, _ = match.groups()
    return f"{quote}{name}{quote}{between}{opening}{MASK}{opening}" if sensitive(name) else match[0]


def _header(match: re.Match[str]) -> str:
    name, colon, value = match.groups()
    is_secret = name.lower() in _HEADERS or ("-" in name and sensitive(name))
    return f"{name}{colon}{MASK}" if is_secret and value.strip() else match[0]


def _option(match: re.Match[str]) -> str:
    dashes, name, space, _ = match.groups()
    return f"{dashes}{name}{space}{MASK}" if sensitive(name) else match[0]
