"""Every tool that changes files, on bytes and arguments that hypothesis thinks of: what undo gives back, and what stays."""

import itertools
import os
import re
import stat
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

usual = settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture])
number = itertools.count()

ENDS = [b"\n", b"\r\n", b"\r", b""]
PIECES = ["a", "b", "ab", " a", "\ta ", "", "é", "\u4e2d", "\U0001f600", "$1", "\\1", "\u2028", "\ufeff", "\x0b"]
RAW = [b"a", b"b", b" a\t", b"", b"\xe9", b"\xff", b"\xc3", b"\x80b", b"\x1b[0m"]

lines = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["\n", "\r\n", "\r", ""])), max_size=9)
texts = lines.map(lambda rows: "".join(line + end for line, end in rows))
marked = st.sampled_from(
    [("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")]
)
raw = st.lists(st.tuples(st.sampled_from(RAW), st.sampled_from(ENDS)), max_size=9).map(
    lambda rows: b"".join(line + end for line, end in rows)
)
contents = st.one_of(st.builds(lambda text, mark: mark[1] + text.encode(mark[0]), texts, marked), raw)
short = st.sampled_from(
    ["a", "b", "a\n", "\n", "\r\n", "\r", "é", "\u4e2d", "$1", "\\1", "", "ab\na", "\ufeff", "x\ny\n"]
)
blocks = st.lists(st.sampled_from(["a", "b", "", " ab", "é", "x\ny", "\r"]), max_size=3)
paths = st.sampled_from(["f", "link", "g", "sub", "sub/f", "sub/link", "new", "new/deep/f", "away", "-f", "F"])


def of(tool, **arguments):
    return st.tuples(st.just(tool), st.fixed_dictionaries(arguments))


edit = st.fixed_dictionaries({"old_string": short, "new_string": short, "replace_all": st.booleans()})
calls = st.one_of(
    of("write_file", path=paths, content=texts, overwrite=st.booleans(), create_parents=st.booleans()),
    of("write_file", path=paths, content=st.sampled_from(["", "AAEC", "/w=="]), encoding=st.just("binary")),
    st.builds(lambda path, one: ("edit_file", {"path": path, **one}), paths, edit),
    of("multi_edit", path=paths, edits=st.lists(edit, min_size=1, max_size=3)),
    of("edit_lines", path=paths, operation=st.just("insert"), lines=blocks, position=st.sampled_from(["start", "end"])),
    of(
        "edit_lines",
        path=paths,
        operation=st.sampled_from(["replace", "delete"]),
        match_lines=blocks,
        expected_count=st.integers(1, 4),
    ),
    of("replace_in_files", pattern=short, replacement=short, ignore_case=st.booleans(), path=st.just(".")),
    of(
        "replace_in_files",
        pattern=st.sampled_from(["a", "(a)|(b)", "^", "$", r"\n", r"\r", "a*", ".", r"\s+", "(?s)a.b"]),
        replacement=st.sampled_from(["", "x", r"<\g<0>>", r"\\", "\n", "é"]),
        regex=st.just(True),
    ),
    of("create_directory", path=paths),
    of("move_file", source=paths, destination=paths, overwrite=st.booleans()),
    of("delete_file", path=paths, recursive=st.booleans(), trash_dir=st.sampled_from([None, "bin", "new/bin"])),
)


def tree(folder):
    """Return names, kinds, modes, owners, targets and bytes of all below a folder, the trash at the root left out."""
    found = {}
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".trash"]
        for name in names + folders:
            path = Path(top, name)
            status = path.lstat()
            what = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
            what = os.readlink(path) if path.is_symlink() else what
            found[str(path.relative_to(folder))] = status.st_mode, status.st_uid, status.st_gid, what
    return found


def planted(project, data, mode):
    """Empty the project and plant files in it."""
    for path in sorted(project.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    (project / "sub").mkdir()
    for name, content in (("f", data), ("g", b"a\r\nb\n"), ("sub/f", data + b"a"), ("-f", b"a")):
        (project / name).write_bytes(content)
        (project / name).chmod(mode)
        if os.geteuid() == 0:
            os.chown(project / name, 1234, 1235)
    (project / "link").symlink_to("f")
    (project / "sub/link").symlink_to("..")


@usual
@given(data=contents, mode=st.sampled_from([0o640, 0o755, 0o444]), made=st.lists(calls, min_size=1, max_size=3))
async def test_whatever_was_done_is_taken_back_and_brought_again(call, project, data, mode, made):
    while not (await call.result("undo", {})).is_error:
        pass
    planted(project, data, mode)
    start = state = tree(project)
    changes, undos = {}, []
    for name, arguments in made:
        result = await call.result(name, arguments)
        before, state = state, tree(project)
        if result.is_error or "undo" not in result.meta:
            assert state == before
            continue
        changes[result.meta["undo"]] = before, state
        links = {path: what for path, what in before.items() if stat.S_ISLNK(what[0])}
        assert name in ("move_file", "delete_file") or links.items() <= state.items()
    while not (undone := await call.result("undo", {})).is_error:
        before, after = changes.pop(undone.structured_content["id"])
        assert tree(project) == before
        undos.append((undone.meta["undo"], after))
    assert undone.structured_content["code"] == "not_found"
    assert changes == {}
    assert tree(project) == start
    for call_id, after in reversed(undos):
        redone = await call.result("undo", {"id": call_id})
        assert not redone.is_error, redone
        assert tree(project) == after
    for path in project.rglob(".toolbox-*"):
        raise AssertionError(f"{path} was left behind")


def segments(data):
    """Return the lines of some bytes with their ends."""
    return re.findall(rb"[^\n]*\n|[^\n]+\Z", data)


def bare(line):
    return line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line


EIGHT_BIT = [b"a", b"b", b" a\t", b"", b"\xe9", b"\xff", b"\xc3", b"\x80b", b"\xc3\xa9", b"\r"]
eight_bit = st.lists(st.tuples(st.sampled_from(EIGHT_BIT), st.sampled_from(ENDS)), max_size=9).map(
    lambda rows: b"".join(line + end for line, end in rows)
)


@usual
@given(data=eight_bit, inserted=st.lists(st.sampled_from(["x", "  y", ""]), max_size=2))
async def test_of_lines_that_are_edited_every_other_byte_stays(call, project, data, inserted):
    path = project / f"f{next(number)}"
    path.write_bytes(data)
    found = [line for line in segments(data) if bare(line).strip() == b"a"]
    if not found:
        return
    crlf = data.count(b"\r\n")
    end = b"\r\n" if crlf > data.count(b"\n") - crlf else b"\n"
    new = [line.encode() + end for line in inserted]
    want = [piece for line in segments(data) for piece in (new if bare(line).strip() == b"a" else [line])]
    if data and not data.endswith(b"\n") and want:
        want = [*(line if line.endswith(b"\n") else line + end for line in want[:-1]), bare(want[-1])]
        if not want[-1] and not new:
            want.pop()
    operation = {"operation": "replace", "lines": inserted} if inserted else {"operation": "delete"}
    await call("edit_lines", path=path.name, match_lines=["a"], expected_count=len(found), **operation)
    assert path.read_bytes() == b"".join(want)


@usual
@given(data=contents, old=short.filter(bool), new=short)
async def test_one_edit_is_the_same_by_every_tool(call, project, data, old, new):
    by_edit, by_many, by_all, by_regex = (project / f"{next(number)}" for _ in range(4))
    by_edit.write_bytes(data)
    answer = await call.result(
        "edit_file", {"path": by_edit.name, "old_string": old, "new_string": new, "replace_all": True}
    )
    one = {"old_string": old, "new_string": new, "replace_all": True}
    escaped = re.escape(old.replace("\r\n", "\n")).replace("\\\n", "\n")
    more = {"pattern": escaped, "replacement": new.replace("\\", "\\\\"), "regex": True}
    for place, name, arguments in (
        (by_many, "multi_edit", {"path": by_many.name, "edits": [one]}),
        (by_all, "replace_in_files", {"pattern": old, "replacement": new, "glob": by_all.name}),
        (by_regex, "replace_in_files", {"glob": by_regex.name} | more),
    ):
        place.write_bytes(data)
        await call.result(name, arguments)
        assert place.read_bytes() == by_edit.read_bytes(), (name, answer)
        place.unlink()
    by_edit.unlink()
