"""Secrets are masked before anything is kept or shown: by the name they stand under, and by their own shape."""

import itertools
import re
import sys
from collections.abc import Iterator, Mapping
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
    "pgpass",
    "amzsignature",
)
_SHORT = frozenset(("pass", "pat", "pw", "psk"))
"""Last words that name a secret behind another word only: DB_PASS, GITHUB_PAT."""
_ABOUT = frozenset(("file", "path", "model", "name", "count", "limit", "length", "size", "type"))
"""Last words of names that say something about a secret, and do not hold it: token_file, key_name."""

_NAMES = 1024
"""Names that are remembered with what was said of them: most come with every call."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# Only lines of base64 and of a PEM header: a command in the next line is no part of a key.
_BREAK = r"(?:\\r|\\n|\s){1,4}"
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----"
    rf"(?:{_BREAK}(?:[A-Za-z0-9+/]{{40,76}}|(?:Proc-Type|DEK-Info|Version|Comment): [^\\\r\n]{{0,80}})(?=\\|\s|\Z))*"
    rf"(?:{_BREAK}(?=[a-z+/]{{0,75}}[A-Z0-9=])[A-Za-z0-9+/]{{1,76}}={{0,2}}(?:{_BREAK}=[A-Za-z0-9+/]{{4}})?(?={_BREAK}-----END|\Z))?"
    rf"(?:{_BREAK}-----END[A-Z ]{{0,60}}-----)?"
)

_SHAPES = tuple(
    (marks, re.compile(pattern))
    for marks, pattern in (
        (
            ("PRIVATE KEY",),
            # Only lines of base64 and of a PEM header: a command in the next line is no part of a key.
            _PEM,
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
            r"(?<![A-Za-z0-9])A(?:KIA|SIA|GPA|IDA|ROA|NPA)[0-9A-Z]{12,}(?:[\s,:;|]{1,3}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?",
        ),
        (("AIza", "ya29."), r"(?<![A-Za-z0-9])(?:AIza|ya29\.)[\w-]{16,}"),
        (("npm_", "hf_", "dop_v1_"), r"(?<![A-Za-z0-9])(?:npm|hf|dop_v1)_[A-Za-z0-9]{20,}"),
        (("pypi-", "tvly-"), r"(?<![A-Za-z0-9])(?:pypi|tvly)-[\w-]{12,}"),
        (("SG.",), r"(?<![A-Za-z0-9])SG\.[\w-]{16,}\.[\w-]{16,}"),
        (("hvs.", "hvb.", "hvr."), r"(?<![A-Za-z0-9])hv[sbr]\.[\w-]{16,}"),
        (("SK",), r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![0-9a-f])"),
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

_ROOTS = (
    "key",
    "token",
    "secret",
    "pass",
    "pwd",
    "auth",
    "cookie",
    "credential",
    "_pat",
    "_pw",
    "psk",
    "signature",
    "curl",
    "mysql",
)
"""One of these is in every name that is sensitive; lines without any are not looked at for names."""
_USERINFO = re.compile(r"(?<=://)([^\s/?#@:]{0,200}):[^\s/?#@]{1,500}@")

# Each begins only where a name can begin and looks at no more than 64 characters of it, so the work stays linear.
_VALUE = r"""("(?:\\.|[^"\\]){0,4000}"|'(?:\\.|[^'\\]){0,4000}'|`[^`]{0,4000}`)"""
_ASSIGNED = re.compile(r"""(?<![\w.-])(-{0,2})([\w.-]{1,64})=("[^"]*"|'[^']*'|[^\s&"';,]+)""")
# name = "value", name: "value", name := "value", :name => 'value', in the notations of most languages
_LITERAL = re.compile(
    rf"(?<![\w.\"'-])([A-Za-z_$@][\w.-]{{0,63}})((?:: ?[A-Za-z]\w{{0,30}})?[ \t]{{0,8}}(?:=>|:=|=|:)[ \t]{{0,8}}){_VALUE}"
)
# name: value and name = value that fill their line, as in YAML, INI and properties
_LINE = re.compile(
    r"""^(\s{0,200}(?:-\s{1,8})?["']?)([A-Za-z_][\w.-]{0,63})(["']?\s{0,8}(?::\s{1,8}|=\s{0,8}))(?=[^\s"'=|>&*!{\[#])([^#\n]{1,400}?)(\s+#.*|\s*[,;]?\s*)$"""
)
_ENV = re.compile(r"^(\s{0,20}(?:ENV|ARG)\s{1,8})([A-Za-z_]\w{0,63})(\s{1,8})(\S.*)$")
_XML = re.compile(r"<([A-Za-z_][\w.:-]{0,63})((?:\s[^<>]{0,200})?>)([^<>]{1,4000})(?=</)")
_PAIR = re.compile(r"""(["'])([\w.-]{1,64})\1(\s{0,8},\s{0,8})(["'])((?:\\.|(?!\4).){1,4000})\4""")
_NETRC = re.compile(
    r"(\b(?:login|account|user)\s{1,8}\S{1,200}\s{1,8}password\s{1,8}|^\s{0,20}password\s{1,8})([^\s=:;|&$`(]+)(?=\s|$)"
)
_PGPASS = re.compile(r"^([\w.*-]{1,253}:(?:[0-9]{1,5}|\*):[^\s:]{1,100}:[^\s:]{1,100}:)(\S{1,400})$")
_CURL = re.compile(r"((?:^|\s)(?:-u|--user|-U|--proxy-user)[ =]?['\"]?[^\s:'\"]{1,200}:)([^\s'\"$`;|&()]+)")
_MYSQL = re.compile(
    r"((?:^|[\s/])(?:mysql|mariadb|mysqldump|mysqladmin|mysqlimport|mariadb-dump|sshpass)\b[^;|&\n]{0,400}?\s-p ?)(?!-)([^\s'\";|&$`()]+)"
)
_QUOTED = re.compile(
    r"""(\\?["'])([\w.-]{1,64})\1(\s{0,8}[:=]>?\s{0,8})(\\?["'])((?:\\.|(?!\4).){1,4000})\4""", re.DOTALL
)
_HEADER = re.compile(r"(?<![\w.-])([A-Za-z][\w-]{0,63})(: ?)([^\r\n\"']+)")
_OPTION = re.compile(r"(?<![\w.-])(--?)([A-Za-z][\w-]{0,63})( +)(?!-)([^\s&\"';,|]+)")
_BLOCK = re.compile(
    r"""^(\s{0,200}(?:-\s{1,8})?)["']?([A-Za-z_][\w.-]{0,63})["']?\s{0,8}:\s{0,8}([|>][-+0-9]{0,3})?\s*$"""
)
_ITEM = re.compile(r"^(\s{0,200}-\s{1,8})([^\s:=]{1,400})\s*$")

_RUNS = re.compile(r"\$\(|`|[<>]\(|\$\{|;\s*\S+\s")
"""What a shell runs: a value that holds it is shown, so that nothing is hidden by the look of a secret."""
_PLAIN = re.compile(r"""["']?[\w.~+/=:@%,!#^*?\\-]+["']?""")
"""A value of one word, which is all that is masked in the text of a command."""
_COMMANDS = frozenset(("command", "commands", "code", "script", "args", "argv", "cmd", "line"))
"""Arguments that hold what is run."""
_WEAK = frozenset(("key", "keys", "auth", "cookie", "cookies", "tokens"))
"""Names that stand before a value without quotes in ordinary text."""
_TYPES = frozenset(
    "str string bytes int bool boolean number float none null nil true false any object optional secretstr unknown required".split()  # noqa: SIM905
)

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
    """Return True if what stands under name is a secret: one of its words says so, in any case and any spelling."""
    return _sensitive(name[:200])


@lru_cache(_NAMES)
def _sensitive(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT:
        return False
    if len(words) > 1 and words[-1] in _SHORT:
        return True
    return not _WORDS.isdisjoint(words) or "".join(words).endswith(_ENDINGS)


_LOOKED_THROUGH = (dict, list, tuple, Mapping)


class _Redaction:
    def __init__(self, most: int | None) -> None:
        self._command = False
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
        return _in_text(text, self._command)

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
            elif isinstance(name, str) and name.lower() in _COMMANDS and not self._command:
                self._command = True
                found[name] = self.value(inner, depth + 1)
                self._command = False
            else:
                found[name] = self.value(inner, depth + 1)
        return found

    def _list(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        found: list[Any] = []
        secret_next = value_of_user = False
        for item in value:
            if not self._left:
                found.append(OMITTED)
                break
            self._spend(1)
            if secret_next and isinstance(item, str) and not item.startswith("--"):
                found.append(_masked(item) if _may_mask(item, self._command) else item)
                secret_next = False
                continue
            user = isinstance(item, str) and value_of_user and re.fullmatch(r"([^:\s]{1,200}:)([^\s$`;|&()]+)", item)
            found.append(user[1] + MASK if user and not user[2].isdigit() else self.value(item, depth + 1))
            value_of_user = item in ("-u", "--user", "-U", "--proxy-user")
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


def _may_mask(value: str, command: bool) -> bool:
    """Return True for a value that hides nothing that would run. command: it stands in the text of a command."""
    return _PLAIN.fullmatch(value) is not None if command else _RUNS.search(value) is None


def _in_text(text: str, command: bool = False) -> str:
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
    if ":*:" in text or re.search(r":[0-9]+:", text):
        text = "\n".join(_PGPASS.sub(rf"\1{MASK}", line) for line in text.split("\n"))
    if _has(lower, _ROOTS):
        text = "\n".join(_in_lines(text.split("\n"), command))
    return text


def _in_lines(lines: list[str], command: bool) -> Iterator[str]:
    """Yield the lines with what stands under the name of a secret masked, also in the lines of a block or a list below it."""
    block: int | None = None
    scalar = False
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        if block is not None and line.strip():
            item = _ITEM.match(line)
            if scalar and indent > block:
                yield " " * indent + MASK
                continue
            if not scalar and item and indent >= block:
                yield item[1] + MASK
                continue
            block = None
        opened = None if command else _BLOCK.match(line)
        if opened and sensitive(opened[2]) and opened[2].lower() not in _WEAK:
            block, scalar = indent, opened[3] is not None
        yield _in_line(line, command)


def _has(text: str, words: tuple[str, ...]) -> bool:
    # A loop, as it takes a third of what any() does, and this runs for every text.
    for word in words:  # noqa: SIM110
        if word in text:
            return True
    return False


def _in_line(line: str, command: bool) -> str:
    lower = line.lower()
    if not _has(lower, _ROOTS):
        return line

    def kept(match: re.Match[str], name: str, value: int) -> str:
        """Return a match with one of its groups masked, where the name is that of a secret and the value no command."""
        if not sensitive(name) or not _may_mask(match[value], command) or match[value].strip("\"'") == "":
            return match[0]
        start, end = match.span(value)
        quote = match[value][0] if match[value][0] in "\"'`" and match.re is _LITERAL else ""
        before, after = match.string[match.start() : start], match.string[end : match.end()]
        return f"{before}{quote}{MASK}{quote}{after}"

    def whole_line(match: re.Match[str]) -> str:
        name, value = match[2], match[4].strip()
        if (
            name.lower() in _WEAK
            or value.lower().split("[")[0] in _TYPES
            or len(value.split()) > 5
            or re.search(r"[(\[{]", value)
        ):
            return match[0]
        return kept(match, name, 4)

    def strong(match: re.Match[str]) -> str:
        return match[0] if match[2].lower() in _WEAK else kept(match, match[2], 5)

    if "curl" in lower:
        line = _CURL.sub(rf"\1{MASK}", line)
    if "-p" in line:
        line = _MYSQL.sub(rf"\1{MASK}", line)
    if "password" in lower:
        line = _NETRC.sub(rf"\1{MASK}", line)
    if "<" in line:
        line = _XML.sub(lambda match: kept(match, match[1], 3), line)
    if "," in line and ('"' in line or "'" in line):
        line = _PAIR.sub(strong, line)
    if "ENV" in line or "ARG" in line:
        line = _ENV.sub(lambda match: kept(match, match[2], 4), line)
    if "=" in line:
        line = _ASSIGNED.sub(lambda match: _assigned(match, command), line)
    if ":" in line or "=" in line:
        line = _QUOTED.sub(lambda match: _quoted(match, command), line)
        line = _LITERAL.sub(lambda match: kept(match, match[1], 3), line)
        line = _HEADER.sub(lambda match: _header(match, command), line)
        if not command:
            line = _LINE.sub(whole_line, line)
    return _OPTION.sub(lambda match: _option(match, command), line) if "-" in line else line


def _assigned(match: re.Match[str], command: bool) -> str:
    dashes, name, value = match.groups()
    return f"{dashes}{name}={MASK}" if sensitive(name) and _may_mask(value, command) else match[0]


def _quoted(match: re.Match[str], command: bool) -> str:
    quote, name, between, opening, value = match.groups()
    if sensitive(name) and not _may_mask(value, command):
        return match[0]
    # The value may be JSON as text, whose own names count too.
    value = MASK if sensitive(name) else _QUOTED.sub(_quoted_within, value)
    return f"{quote}{name}{quote}{between}{opening}{value}{opening}"


def _quoted_within(match: re.Match[str]) -> str:
    quote, name, between, opening, _ = match.groups()
    return f"{quote}{name}{quote}{between}{opening}{MASK}{opening}" if sensitive(name) else match[0]


def _header(match: re.Match[str], command: bool) -> str:
    name, colon, value = match.groups()
    if not (name.lower() in _HEADERS or ("-" in name and sensitive(name))) or not value.strip():
        return match[0]
    if not command:
        return f"{name}{colon}{MASK}" if _may_mask(value, command) else match[0]
    if MASK in value:
        # The scheme was seen before, with what stands behind it.
        return (
            f"{name}{colon}{MASK}{value.partition(MASK)[2]}"
            if value.split(" ")[0].lower() + " " in _SCHEMES
            else match[0]
        )
    # In a command a header ends with its scheme and one word; what follows may be the next command.
    found = re.match(r"((?:basic|bearer|digest|token) +)?[\w.~+/=:@%,-]+(?![^\s;|&])", value, re.IGNORECASE)
    return f"{name}{colon}{MASK}{value[found.end() :]}" if found else match[0]


def _option(match: re.Match[str], command: bool) -> str:
    dashes, name, space, value = match.groups()
    return f"{dashes}{name}{space}{MASK}" if sensitive(name) and _may_mask(value, command) else match[0]
