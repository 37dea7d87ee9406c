"""The one error that a tool call can end with, and the closed list of its codes."""

from enum import StrEnum


class Code(StrEnum):
    """What went wrong, in a word that a client can branch on."""

    EXEC_DISABLED = "exec_disabled"
    SHELL_DISABLED = "shell_disabled"
    UNSAFE_DENIED = "unsafe_denied"
    APPROVAL_DENIED = "approval_denied"
    INVALID_ARGS = "invalid_args"
    PATH_DENIED = "path_denied"
    PROTECTED_PATH = "protected_path"
    NOT_A_FILE = "not_a_file"
    NOT_A_DIRECTORY = "not_a_directory"
    IS_A_DIRECTORY = "is_a_directory"
    NOT_FOUND = "not_found"
    EXISTS = "exists"
    NOT_EMPTY = "not_empty"
    REFUSED = "refused"
    TOO_LARGE = "too_large"
    BINARY_FILE = "binary_file"
    EMPTY_RANGE = "empty_range"
    FILE_CHANGED = "file_changed"
    CHANGED_SINCE = "changed_since"
    NO_MATCH = "no_match"
    AMBIGUOUS_MATCH = "ambiguous_match"
    EMPTY_MATCH = "empty_match"
    NO_CHANGE = "no_change"
    BAD_EDITS = "bad_edits"
    BAD_PATTERN = "bad_pattern"
    EMPTY_PATTERN = "empty_pattern"
    REGEX_TIMEOUT = "regex_timeout"
    BAD_KIND = "bad_kind"
    PARSE_ERROR = "parse_error"
    UNSUPPORTED_LANGUAGE = "unsupported_language"
    BAD_JSON = "bad_json"
    BAD_YAML = "bad_yaml"
    BAD_TOML = "bad_toml"
    BAD_CSV = "bad_csv"
    BAD_QUERY = "bad_query"
    NO_INPUT = "no_input"
    BAD_ROWS = "bad_rows"
    OUTPUT_LIMIT = "output_limit"
    COMMAND_DENIED = "command_denied"
    ENV_DENIED = "env_denied"
    OUTPUT_EXPIRED = "output_expired"
    SCRIPT_DENIED = "script_denied"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED_PLATFORM = "unsupported_platform"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    EMPTY_CODE = "empty_code"
    TOO_MANY_PROCESSES = "too_many_processes"
    UNKNOWN_PROCESS = "unknown_process"
    URL_BLOCKED = "url_blocked"
    HTTP_ERROR = "http_error"
    FETCH_FAILED = "fetch_failed"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    BAD_METHOD = "bad_method"
    SEARCH_FAILED = "search_failed"
    MISSING_API_KEY = "missing_api_key"
    BAD_ACTION = "bad_action"
    GEM_NOT_FOUND = "gem_not_found"
    BAD_GEM = "bad_gem"
    NOT_A_REPO = "not_a_repo"
    GIT_FAILED = "git_failed"
    BAD_REF = "bad_ref"
    NO_PATHS = "no_paths"
    EMPTY_MESSAGE = "empty_message"
    EMPTY_PATCH = "empty_patch"
    PATCH_FAILED = "patch_failed"
    NO_TESTS = "no_tests"
    NO_GEMFILE = "no_gemfile"
    BAD_LINTER = "bad_linter"
    BAD_EXPRESSION = "bad_expression"
    BAD_TIMESTAMP = "bad_timestamp"
    BAD_TODOS = "bad_todos"
    BAD_STATUS = "bad_status"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    TOOL_EXCEPTION = "tool_exception"


class ToolError(Exception):
    """A failure that the client should read.

    code: for programs. error: one sentence for the model, which names no path outside the
    roots, no secret and no class. hint: what to try next.
    """

    def __init__(self, code: Code, error: str, hint: str | None = None) -> None:
        super().__init__(error)
        self.code = code
        self.error = error
        self.hint = hint

    def payload(self) -> dict[str, str]:
        """Return the object that goes to the client."""
        body = {"error": self.error, "code": self.code.value}
        return body | {"hint": self.hint} if self.hint else body


def not_installed(name: str) -> ToolError:
    """Return the error for a program that is needed and not there."""
    return ToolError(Code.UNAVAILABLE, f"{name} is not installed", "it has to be installed where this server runs")
