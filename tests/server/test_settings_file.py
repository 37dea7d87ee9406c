"""The settings file means what it looks like, and a hostile one costs little."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each_row
from toolbox_mcp.server.config.errors import ConfigError
from toolbox_mcp.server.config.file import MAX_BYTES, MAX_NODES, read_settings


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def write_and_read(content: str | bytes) -> dict[str, Any]:
        file = tmp_path / "c.yaml"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return {name: entry.raw for name, entry in read_settings(file).items()}

    return write_and_read


@each_row(
    ("written", "raw"),
    [
        ("off", "off"),
        ("no", "no"),
        ("1.10", "1.10"),
        ("1:30", "1:30"),
        ("0x1f", "0x1f"),
        ("2026-11-21", "2026-11-21"),
        ("'null'", "null"),
        ("null", None),
        ("~", None),
        ("", None),
        ("[a, no, 1]", ["a", "no", "1"]),
        ("\n  - a\n  - b", ["a", "b"]),
        ("{a: yes, b: ~}", {"a": "yes", "b": None}),
        ("|\n  two\n  lines", "two\nlines\n"),
        ("'it''s'", "it's"),
        ('"tab\\t"', "tab\t"),
        ("&x [a]", ["a"]),
    ],
)
def test_a_scalar_is_the_text_that_was_written(read, written, raw):
    assert read(f"name: {written}\n") == {"name": raw}


@pytest.mark.parametrize("content", ["", "# only a comment\n", "---\n", "null\n", "\ufeff"])
def test_a_file_without_settings_is_empty(read, content):
    assert read(content) == {}


def test_a_byte_order_mark_is_dropped(read):
    assert read("\ufeffa: b\n") == {"a": "b"}


def test_an_alias_repeats_what_it_names(read):
    assert read("a: &x [1, 2]\nb: *x\n") == {"a": ["1", "2"], "b": ["1", "2"]}


def test_entries_know_their_line(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("# head\na: 1\n\nb:\n  - 2\n")
    assert {name: entry.line for name, entry in read_settings(file).items()} == {"a": 2, "b": 4}


LAUGHS = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'x'}]\n" for i in range(9))


@each_row(
    ("content", "part"),
    [
        ("a: 1\nb: 2\na: 3\n", ":3: a is set twice, first in line 1"),
        ("a: {x: 1, x: 2}\n", "x is set twice"),
        ("a: 1\n--- \nb: 2\n", "not valid YAML"),
        ("- a\n- b\n", "expected settings"),
        ("just text\n", "expected settings"),
        ("a: [1, 2\n", "not valid YAML"),
        ("a: 'open\n", "not valid YAML"),
        ("\ta: 1\n", "not valid YAML"),
        ("a: \x01\n", "not valid YAML"),
        (b"a: \xff\xfe\n", "not UTF-8"),
        ("a: *nowhere\n", "not valid YAML"),
        ("? [a, b]\n: c\n", "expected a name"),
        ("~: c\n", "expected a name"),
        ("base: &b {x: 1}\nother: {<<: *b, y: 2}\n", "merge keys"),
        ("a: !!python/object/apply:os.system ['true']\n", "the tag"),
        ("a: !!binary aGk=\n", "the tag"),
        ("a: !!set {x}\n", "the tag"),
        ("a: !mine x\n", "the tag"),
        ("&a a: *a\nb: &b [*b]\n", "nested too deeply"),
        (LAUGHS, f"more than {MAX_NODES} values"),
        ("a: " + "[" * 20 + "]" * 20 + "\n", "nested too deeply"),
        ("a: " + "[" * 20_000 + "\n", ""),
        ("a: " + "{x: " * 20_000 + "\n", ""),
        ("a: " + "- " * 20_000 + "\n", ""),
        ("#" * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_what_cannot_be_a_settings_file_is_refused_in_one_line(read, content, part):
    with pytest.raises(ConfigError) as refused:
        read(content)
    message = str(refused.value)
    assert part in message
    assert "c.yaml" in message
    assert message.isprintable()


def test_an_object_in_a_settings_file_runs_nothing(read, tmp_path):
    with pytest.raises(ConfigError):
        read(f"a: !!python/object/apply:os.mkdir ['{tmp_path}/made']\n")
    assert not (tmp_path / "made").exists()


@pytest.mark.skipif(os.name == "nt", reason="no FIFOs on Windows")
def test_a_special_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"not a regular file"):
        read_settings(tmp_path / "pipe")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"not a regular file|cannot be read"):
        read_settings(tmp_path)
