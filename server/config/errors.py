"""The error that stops the start."""


class ConfigError(Exception):
    """Raised when the configuration cannot be used. The message is one printable line."""

    def __init__(self, message: str) -> None:
        line = " ".join(message.split())
        super().__init__("".join(c if c.isprintable() else "\ufffd" for c in line))
