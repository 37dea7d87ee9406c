"""curl and wget of this machine's own servers: lines in which nothing else can be meant."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .script import Word, names

URL = re.compile(
    r"(?:https?://)?(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?(?:[/?][A-Za-z0-9_./?&=%+~:,;-]*)?"
)
"""An address of this machine, without a user, and without what curl expands itself."""


@dataclass(frozen=True)
class Client:
    """The options that neither name another host nor a file of options.

    flags, valued: single letters. long_flags, long_valued: the words behind `--`.
    """

    flags: str
    valued: str
    long_flags: frozenset[str]
    long_valued: frozenset[str]


CLIENTS: Mapping[str, Client] = {
    "curl": Client(
        "sSfiIvkLgGNO46",
        "XHdomwuFbcAe",
        names(
            "silent show-error fail fail-with-body include head verbose insecure location globoff get no-buffer "
            "remote-name compressed retry-connrefused http1.1 http2 ipv4 ipv6"
        ),
        names(
            "request header data data-raw data-binary data-urlencode json output max-time connect-timeout retry "
            "retry-delay retry-max-time write-out user form cookie cookie-jar user-agent referer"
        ),
    ),
    "wget": Client(
        "qSv46",
        "OTtU",
        names("quiet verbose no-verbose server-response spider no-check-certificate no-proxy content-on-error"),
        names(
            "output-document timeout tries header post-data post-file method body-data body-file max-redirect user-agent"
        ),
    ),
}


def is_local(client: str, words: Sequence[Word]) -> bool:
    """Return True if a client with these arguments asks this machine alone."""
    known = CLIENTS[client]
    urls = 0
    values = iter(words)
    for word in values:
        text = word.text
        if text is None:
            return False
        if not text.startswith("-"):
            if not URL.fullmatch(text):
                return False
            urls += 1
        elif needs := _needs_value(known, text):
            value = next(values, None)
            if value is None or not value.single:
                return False
        elif needs is None:
            return False
    return urls > 0


def _needs_value(client: Client, option: str) -> bool | None:
    """Return True if the next word is the value of an option, None for an option that is not known to be harmless."""
    if option.startswith("--"):
        name, equals, _ = option[2:].partition("=")
        if name in client.long_valued:
            return not equals
        return False if name in client.long_flags and not equals else None
    for at, letter in enumerate(option[1:], 2):
        if letter in client.valued:
            return at == len(option)
        if letter not in client.flags:
            return None
    return False if len(option) > 1 else None
