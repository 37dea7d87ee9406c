"""What the guards may consult. Built once, from the configuration."""

from dataclasses import dataclass

from .path_jail.roots import Roots


@dataclass(frozen=True)
class Policy:
    """The operator's rules. allowed_commands are exact names of executables."""

    roots: Roots
    allowed_commands: tuple[str, ...] = ()
