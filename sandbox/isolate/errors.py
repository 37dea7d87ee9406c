"""What can go wrong in the jail. Two names are those of builtins, which is why they live here."""


class Error(Exception):
    """Any end of a jailed call that is not its result."""


class TimeoutError(Error):
    """The wall clock or the CPU time ran out."""


class MemoryError(Error):
    """The function wanted more memory than it was given."""


class FilesystemError(Error):
    """A PermissionError left the function while its files were confined."""


class SandboxError(Error):
    """Anything else that the function raised, or its death without a result.

    original_class is the bare name of the exception's class (OutputLimit for a result above
    max_result), None when the process died; original_backtrace are the lines of its traceback.
    """

    def __init__(
        self,
        message: str,
        original_class: str | None = None,
        original_message: str | None = None,
        original_backtrace: list[str] | None = None,
    ) -> None:
        """Keep what is known of the exception, which itself stays in the other process."""
        super().__init__(message)
        self.original_class = original_class
        self.original_message = original_message
        self.original_backtrace = original_backtrace or []


class UnsupportedPlatformError(Error):
    """This system cannot do what was asked, and on_unsupported is raise."""


def words_of(error: BaseException) -> str:
    """Return the text of an exception, also where it fails to say it."""
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - the code of a foreign class
        return f"({type(failure).__name__} from its __str__)"
