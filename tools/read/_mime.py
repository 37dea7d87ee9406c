"""MIME types by name and by content, the same on every machine: no file of the system is read."""

import re
from collections.abc import Mapping
from mimetypes import MimeTypes
from typing import Literal

from ...safety.text import HEAD, is_binary

Mode = Literal["text", "image", "document", "default"]

UNKNOWN = "application/octet-stream"

_TEXT_TYPES = {
    "text/plain": "txt text log cfg conf ini properties env lock diff patch",
    "text/markdown": "md markdown mdx",
    "text/x-rst": "rst",
    "text/asciidoc": "adoc asciidoc",
    "text/html": "html htm xhtml",
    "text/css": "css",
    "text/x-scss": "scss sass",
    "text/x-less": "less",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/javascript": "js mjs cjs jsx",
    "text/x-typescript": "ts tsx mts cts",
    "text/x-python": "py pyi pyw",
    "text/x-ruby": "rb rake gemspec ru",
    "text/x-erb": "erb",
    "text/x-perl": "pl pm t",
    "text/x-php": "php",
    "text/x-lua": "lua",
    "text/x-shellscript": "sh bash zsh ksh fish",
    "text/x-powershell": "ps1 psm1 psd1",
    "text/x-batch": "bat cmd",
    "text/x-c": "c h",
    "text/x-c++": "cc cpp cxx hh hpp hxx ino",
    "text/x-csharp": "cs csx",
    "text/x-objective-c": "m mm",
    "text/x-go": "go",
    "text/x-rust": "rs",
    "text/x-zig": "zig",
    "text/x-swift": "swift",
    "text/x-java": "java",
    "text/x-kotlin": "kt kts",
    "text/x-scala": "scala sc",
    "text/x-groovy": "groovy gradle",
    "text/x-clojure": "clj cljs cljc edn",
    "text/x-haskell": "hs lhs",
    "text/x-ocaml": "ml mli",
    "text/x-fsharp": "fs fsx",
    "text/x-erlang": "erl hrl",
    "text/x-elixir": "ex exs",
    "text/x-dart": "dart",
    "text/x-julia": "jl",
    "text/x-r": "r",
    "text/x-lisp": "lisp el scm",
    "text/x-assembly": "asm s",
    "text/x-fortran": "f f90 f95",
    "text/x-pascal": "pas",
    "text/x-cmake": "cmake",
    "text/x-makefile": "mk mak",
    "text/x-nix": "nix",
    "text/x-terraform": "tf tfvars hcl",
    "text/x-protobuf": "proto",
    "text/x-vue": "vue",
    "text/x-svelte": "svelte",
    "text/x-tex": "tex sty cls bib",
    "text/x-vim": "vim",
    "application/graphql": "graphql gql",
    "application/json": "json map webmanifest",
    "application/json5": "json5 jsonc",
    "application/jsonl": "jsonl ndjson",
    "application/geo+json": "geojson",
    "application/ld+json": "jsonld",
    "application/x-ipynb+json": "ipynb",
    "application/yaml": "yaml yml",
    "application/toml": "toml",
    "application/xml": "xml xsd xsl xslt plist",
    "application/sql": "sql",
    "application/x-pem-file": "pem crt csr",
    "image/svg+xml": "svg",
}
_OTHER_TYPES = {
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    "application/vnd.ms-powerpoint": "ppt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "ods",
    "application/vnd.oasis.opendocument.presentation": "odp",
    "application/epub+zip": "epub",
    "image/png": "png",
    "image/jpeg": "jpg jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/bmp": "bmp",
    "image/tiff": "tif tiff",
    "image/avif": "avif",
    "image/heic": "heic",
    "image/x-icon": "ico",
    "application/zip": "zip",
    "application/gzip": "gz tgz",
    "application/x-bzip2": "bz2",
    "application/x-xz": "xz",
    "application/zstd": "zst",
    "application/x-7z-compressed": "7z",
    "application/vnd.rar": "rar",
    "application/x-tar": "tar",
    "application/java-archive": "jar war",
    "application/java-vm": "class",
    "application/wasm": "wasm",
    "application/vnd.sqlite3": "sqlite sqlite3",
    "application/x-sharedlib": "so",
    "application/x-object": "o",
    "application/x-archive": "a",
    "application/vnd.microsoft.portable-executable": "exe dll",
    "application/x-bytecode.python": "pyc",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg oga opus",
    "audio/flac": "flac",
    "audio/wav": "wav",
    "audio/mp4": "m4a",
    "video/mp4": "mp4 m4v",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/quicktime": "mov",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "font/ttf": "ttf",
    "font/otf": "otf",
}
_NAMES = {
    "text/x-makefile": "makefile gnumakefile",
    "text/x-dockerfile": "dockerfile containerfile",
    "text/x-cmake": "cmakelists.txt",
    "text/x-ruby": "gemfile rakefile guardfile vagrantfile podfile",
    "text/x-groovy": "jenkinsfile",
    "text/plain": "readme license licence copying notice authors changelog codeowners procfile go.mod go.sum "
    ".gitignore .gitattributes .gitmodules .dockerignore .editorconfig .npmrc .env requirements.txt",
    "text/x-shellscript": ".bashrc .profile .zshrc .bash_profile",
}
_DOCUMENTS = re.compile(
    r"application/(?:pdf|rtf|msword|epub\+zip|vnd\.(?:ms-(?:excel|powerpoint)|oasis\.|openxmlformats-))"
)
_TEXTUAL = re.compile(r"text/|.*\+(?:xml|json|yaml)$")

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (0, b"\0\0\1\0", "image/x-icon"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"{\\rtf", "application/rtf"),
    (0, b"PK\3\4", "application/zip"),
    (0, b"PK\5\6", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\0", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"Rar!\x1a\7", "application/vnd.rar"),
    (257, b"ustar", "application/x-tar"),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"MZ", "application/vnd.microsoft.portable-executable"),
    (0, b"\xcf\xfa\xed\xfe", "application/x-mach-binary"),
    (0, b"\xca\xfe\xba\xbe", "application/java-vm"),
    (0, b"!<arch>\n", "application/x-archive"),
    (0, b"\0asm", "application/wasm"),
    (0, b"SQLite format 3\0", "application/vnd.sqlite3"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (8, b"WAVE", "audio/wav"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/x-matroska"),
    (0, b"wOFF", "font/woff"),
    (0, b"wOF2", "font/woff2"),
    (0, b"OTTO", "font/otf"),
)
"""Where a mark stands, and what it shows."""

_BINARY_ONLY = frozenset({"application/vnd.microsoft.portable-executable", "application/x-bzip2", "audio/mpeg"})
"""Their marks are letters with which a text may begin."""

_INTERPRETERS = (
    (re.compile(rb"(?:ba|da|z|k|a)?sh"), "text/x-shellscript"),
    (re.compile(rb"python[\d.]*"), "text/x-python"),
    (re.compile(rb"ruby[\d.]*"), "text/x-ruby"),
    (re.compile(rb"perl[\d.]*"), "text/x-perl"),
    (re.compile(rb"node|deno|bun"), "text/javascript"),
    (re.compile(rb"php[\d.]*"), "text/x-php"),
    (re.compile(rb"lua[\d.]*"), "text/x-lua"),
)
_HASHBANG = re.compile(rb"#![ \t]*(?:\S*/)?([^/\s]+)(?:[ \t]+(?:-S[ \t]+)?([^/\s]+))?")


_BY_EXTENSION: Mapping[str, str] = {
    f".{extension}": kind
    for table in (_TEXT_TYPES, _OTHER_TYPES)
    for kind, extensions in table.items()
    for extension in extensions.split()
}
_BY_NAME: Mapping[str, str] = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def by_extension(extension: str) -> str | None:
    """Return the type of an extension in lower case with its dot, or None."""
    if found := _BY_EXTENSION.get(extension):
        return found
    # Without files it is the table that Python brings, and not the one of the machine.
    return MimeTypes(()).types_map[True].get(extension)


def by_name(name: str, extension: str) -> str | None:
    """Return the type of a file name with this extension, or None."""
    return _BY_NAME.get(name.lower()) or by_extension(extension)


def by_content(head: bytes) -> str:
    """Return the type that the first 8 KiB of a file show; UNKNOWN where they show none."""
    binary = is_binary(head)
    for at, mark, mime in _SIGNATURES:
        if head.startswith(mark, at) and (binary or mime not in _BINARY_ONLY):
            if at == 8 and not head.startswith(b"RIFF"):
                continue
            return mime
    if binary or _is_garbage(head):
        return UNKNOWN
    return _text_type(head)


def content_mode(mime: str) -> Mode:
    """Return the best form for content of a type."""
    if mime.startswith("image/"):
        return "image"
    if _DOCUMENTS.match(mime):
        return "document"
    return "text" if _TEXTUAL.match(mime) or mime in _TEXT_TYPES else "default"


def _is_garbage(head: bytes) -> bool:
    """Tell what holds no NUL and is no text either: control characters that no text has."""
    controls = sum(head.count(byte) for byte in (b"\1", b"\2", b"\3", b"\4", b"\5", b"\6", b"\x0e", b"\x0f", b"\x7f"))
    return controls > len(head) // 10


def _text_type(head: bytes) -> str:
    start = head[:HEAD].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    if start.startswith(b"<svg") or (start.startswith(b"<?xml") and b"<svg" in start[:1024]):
        return "image/svg+xml"
    if start.startswith(b"<?xml"):
        return "application/xml"
    if start.startswith(b"<?php"):
        return "text/x-php"
    if found := _HASHBANG.match(head):
        program = found[2] if found[1] == b"env" and found[2] else found[1]
        for pattern, mime in _INTERPRETERS:
            if pattern.fullmatch(program):
                return mime
    return "text/plain"
