"""Environment variables of a call: which names make a program load or run other code."""

import re

from .errors import Code, ToolError

MAX_VARIABLES, MAX_KEY, MAX_VALUE, MAX_ENVIRONMENT = 256, 256, 32 * 1024, 256 * 1024
"""Variables of a call, bytes of a name and of a value, and bytes of all together."""

CODE_VARIABLES: dict[str, str] = {
    "what finds programs": "PATH PATHEXT SHELL COMSPEC",
    "where programs keep settings that run code": "HOME USERPROFILE XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS APPDATA",
    "the loader": "LD_* DYLD_* GCONV_PATH LOCPATH NLSPATH GLIBC_TUNABLES MALLOC_CONF OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES",
    "shells": "BASH_ENV ENV SHELLOPTS BASHOPTS BASH_ALIASES BASH_CMDS BASH_LOADABLES_PATH BASH_FUNC_* PS0 PS1 PS2 PS3 PS4 "
    "PROMPT_COMMAND IFS CDPATH GLOBIGNORE POSIXLY_CORRECT ZDOTDIR FPATH NULLCMD READNULLCMD",
    "Python": "PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT PYTHONWARNINGS PYTHONEXECUTABLE "
    "PYTHONPLATLIBDIR PYTHONCASEOK PYTHONPYCACHEPREFIX VIRTUAL_ENV PIP_* UV_* PYTEST_ADDOPTS PYTEST_PLUGINS COVERAGE_PROCESS_START "
    "MYPYPATH PYLINTRC IPYTHONDIR JUPYTER_*",
    "Node": "NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NODE_EXTRA_CA_CERTS NPM_CONFIG_* YARN_* PNPM_* COREPACK_* "
    "ELECTRON_RUN_AS_NODE",
    "Ruby": "RUBYOPT RUBYLIB RUBYSHELL GEM_HOME GEM_PATH BUNDLE_* RAKEOPT IRBRC",
    "Perl, PHP, Lua, Tcl": "PERL5OPT PERL5LIB PERLLIB PERL5DB PERL5SHELL PHPRC PHP_INI_SCAN_DIR LUA_* TCLLIBPATH",
    "the JVM": "JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_HOME CLASSPATH MAVEN_* M2_HOME GRADLE_* JAVA_OPTS",
    ".NET": "DOTNET_* COR_* CORECLR_* COMPlus_* NUGET_*",
    "Go, Rust, compilers": "GOFLAGS GOROOT GOPATH GOENV GOBIN GOTOOLCHAIN GOPROXY GOSUMDB GONOSUMDB CGO_* CARGO* RUSTC* RUSTFLAGS RUSTDOC* "
    "RUSTUP_* CC CXX CPP LD AR AS CFLAGS CXXFLAGS CPPFLAGS LDFLAGS COMPILER_PATH GCC_EXEC_PREFIX LIBRARY_PATH CMAKE_*",
    "make": "MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKEFILES MAKE",
    "git": "GIT_*",
    "pagers, editors, askers": "PAGER MANPAGER GH_PAGER LESS LESSOPEN LESSCLOSE LESSKEY* LESSSECURE MORE EDITOR VISUAL FCEDIR FCEDIT "
    "VIMINIT EXINIT BROWSER SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR RSYNC_RSH CVS_RSH SVN_SSH TAR_OPTIONS TAPE RIPGREP_CONFIG_PATH "
    "GREP_OPTIONS JQ_* AWKPATH AWKLIBPATH TERMINFO TERMINFO_DIRS TERMCAP CURL_HOME WGETRC INPUTRC SCREENRC GNUPGHOME",
}
"""Names by what obeys them; `*` stands for any end. Case does not count."""

HARMLESS = frozenset(
    [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_DATE",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_COMMITTER_DATE",
        "GIT_TERMINAL_PROMPT",
        "GIT_OPTIONAL_LOCKS",
        "CARGO_TERM_COLOR",
        "CARGO_INCREMENTAL",
        "NPM_CONFIG_LOGLEVEL",
        "NPM_CONFIG_FUND",
        "NPM_CONFIG_AUDIT",
        "DOTNET_NOLOGO",
        "DOTNET_CLI_TELEMETRY_OPTOUT",
        "PIP_NO_INPUT",
        "PIP_DISABLE_PIP_VERSION_CHECK",
        "RUSTC_BACKTRACE",
        "CARGO_NET_OFFLINE",
    ]
)
"""Names among those that only say who, when or how much."""

_PATTERN = re.compile(
    "|".join(re.escape(name).replace(r"\*", ".*") for names in CODE_VARIABLES.values() for name in names.split()),
    re.IGNORECASE | re.DOTALL,
)


_SUBSTITUTION = re.compile(r"\$\(|`|\$\{[ |]|[<>]\(")


def runs_code(name: str) -> bool:
    """Return True for a variable that makes a program load or run other code."""
    return name.upper() not in HARMLESS and _PATTERN.fullmatch(name) is not None


def check_variables(env: dict[str, str]) -> None:
    """Refuse variables that are too many, too long, malformed (command_denied), or code (env_denied)."""
    if len(env) > MAX_VARIABLES:
        raise ToolError(Code.COMMAND_DENIED, f"env has {len(env)} variables, more than {MAX_VARIABLES}")
    total = 0
    for key, value in env.items():
        key_size, value_size = len(key.encode("utf-8", "replace")), len(value.encode("utf-8", "replace"))
        total += key_size + value_size
        shown = repr(key if len(key) <= 60 else key[:60] + "...")
        if not key or "=" in key or "\0" in key or key_size > MAX_KEY:
            raise ToolError(
                Code.COMMAND_DENIED, f"env has the key {shown}; keys have 1 to {MAX_KEY} bytes without = or NUL"
            )
        if "\0" in value or value_size > MAX_VALUE:
            raise ToolError(Code.COMMAND_DENIED, f"env {shown} has a value with a NUL or above {MAX_VALUE} bytes")
        if _SUBSTITUTION.search(value):
            raise ToolError(
                Code.ENV_DENIED,
                f"env {shown} has a value with a command substitution, which a shell runs in arithmetic",
                "write it without $( and backticks",
            )
        if runs_code(key):
            raise ToolError(
                Code.ENV_DENIED,
                f"env may not set {key}, which makes programs load or run other code",
                "leave it out; pass an option of the program, or ask the operator to set it for the server",
            )
    if total > MAX_ENVIRONMENT:
        raise ToolError(Code.COMMAND_DENIED, f"env has {total} bytes, more than {MAX_ENVIRONMENT}")
