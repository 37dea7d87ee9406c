"""What the guards may consult. Built once, from the configuration."""

from dataclasses import dataclass, field

from .path_jail.roots import Roots
from .web.policy import WebPolicy


@dataclass(frozen=True)
class Policy:
    """The operator's rules. allowed_commands are exact names of executables.

    free_paths: FreePath is not confined to the roots.
    """

    roots: Roots
    allowed_commands: tuple[str, ...] = ()
    web: WebPolicy = field(default_factory=WebPolicy)
    free_paths: bool = False
