"""The languages that have an outline, and how a file tells which it is in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Language:
    """One language. Its query file has its name; module and function give its grammar."""

    name: str
    extensions: tuple[str, ...]
    module: str
    function: str = "language"
    interpreters: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {
        language.name: language
        for language in (
            Language("python", (".py", ".pyi", ".pyw"), "tree_sitter_python", interpreters=("python", "pypy")),
            Language(
                "ruby",
                (".rb", ".rake", ".gemspec", ".ru", ".rbw"),
                "tree_sitter_ruby",
                interpreters=("ruby", "jruby"),
                files=("Rakefile", "Gemfile", "Capfile", "Guardfile", "Vagrantfile"),
            ),
            Language(
                "javascript", (".js", ".mjs", ".cjs", ".jsx"), "tree_sitter_javascript", interpreters=("node", "bun")
            ),
            Language(
                "typescript",
                (".ts", ".mts", ".cts"),
                "tree_sitter_typescript",
                "language_typescript",
                ("deno", "ts-node"),
            ),
            Language("tsx", (".tsx",), "tree_sitter_typescript", "language_tsx"),
            Language("go", (".go",), "tree_sitter_go"),
            Language("rust", (".rs",), "tree_sitter_rust"),
            Language("java", (".java",), "tree_sitter_java"),
            Language("c", (".c", ".h"), "tree_sitter_c"),
            Language("cpp", (".cc", ".cpp", ".cxx", ".c++", ".hh", ".hpp", ".hxx", ".h++", ".ipp"), "tree_sitter_cpp"),
            Language("c_sharp", (".cs", ".csx"), "tree_sitter_c_sharp"),
            Language("php", (".php", ".phtml", ".php5", ".inc"), "tree_sitter_php", "language_php", ("php",)),
            Language(
                "bash", (".sh", ".bash", ".ksh"), "tree_sitter_bash", interpreters=("sh", "bash", "dash", "ksh", "zsh")
            ),
            Language("kotlin", (".kt", ".kts"), "tree_sitter_kotlin", interpreters=("kotlin",)),
            Language("swift", (".swift",), "tree_sitter_swift", interpreters=("swift",)),
        )
    }
)
"""Every language that has an outline, by name."""

KINDS = ("class", "module", "method", "function", "constant", "type", "interface")

_BY_EXTENSION = MappingProxyType({ext: name for name, found in LANGUAGES.items() for ext in found.extensions})
_BY_NAME = MappingProxyType({file: name for name, found in LANGUAGES.items() for file in found.files})
_BY_INTERPRETER = MappingProxyType({word: name for name, found in LANGUAGES.items() for word in found.interpreters})
_SHEBANG = re.compile(rb"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:-\S+[ \t]+)*)?(?:\S*/)?([a-zA-Z][a-zA-Z-]*)")


def language_of(name: str) -> str | None:
    """Return the language of a file by its name, or None."""
    dot = name.rfind(".")
    found = _BY_EXTENSION.get(name[dot:].lower()) if dot >= 0 else None
    return found or _BY_NAME.get(name)


def language_of_head(head: bytes) -> str | None:
    """Return the language that the first line of a file names as its interpreter, or None."""
    found = _SHEBANG.match(head)
    return _BY_INTERPRETER.get(found[1].decode()) if found else None
