import errno
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.tables import each_row
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail import roots as path_roots
from toolbox_mcp.safety.path_jail.opening import MAX_LINKS
from toolbox_mcp.safety.path_jail.roots import FIND, Engine, Roots

linux = pytest.mark.skipif(sys.platform != "linux", reason="as Linux has it")


@pytest.fixture
def tree(project: Path) -> Path:
    """Fill the project, and the folder that holds it, with what an attacker would like to have there."""
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    evil = project.parent / "project_evil"
    evil.mkdir()
    (evil / "secret").write_text("secret")
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "f.txt").write_text("f")
    (project / "a" / "b" / "g.txt").write_text("g")
    (project / "~").mkdir()
    (project / "~" / "x").write_text("tilde")
    links = {
        "in": "a/f.txt",
        "in_folder": "a",
        "in_absolute": project / "a" / "f.txt",
        "in_absolute_folder": project / "a",
        "in_dots": "a/b/../../a/f.txt",
        "a/b/up": "../f.txt",
        "in_chain": "in_absolute_folder/b/up",
        "out": outside / "secret",
        "out_relative": "../outside/secret",
        "out_folder": outside,
        "out_evil": project.parent / "project_evil" / "secret",
        "out_and_back": "../project/a/f.txt",
        "out_dangling": outside / "nothing",
        "out_dangling_relative": "../outside/nothing",
        "in_dangling": "a/nothing",
        "loop": "loop",
        "loop_one": "loop_two",
        "loop_two": "loop_one",
        "proc_root": "/proc/self/root/etc/passwd",
        "proc_cwd": f"/proc/self/cwd/{project.name}",
    }
    for name, to in links.items():
        (project / name).symlink_to(to)
    os.mkfifo(project / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(project / "socket"))
    return project


@each_row(
    ("path", "answer"),
    [
        ("a/f.txt", "f"),
        ("./a//f.txt", "f"),
        ("a/b/../f.txt", "f"),
        ("missing/../a/f.txt", "f"),
        ("../project/a/f.txt", "f"),
        ("~/x", "tilde"),
        ("in", "f"),
        ("in_folder/f.txt", "f"),
        ("in_absolute", "f"),
        ("in_absolute_folder/b/g.txt", "g"),
        ("in_dots", "f"),
        ("a/b/up", "f"),
        ("in_chain", "f"),
        ("out_and_back", "f"),
        ("../outside/secret", "path_denied"),
        ("a/../../outside/secret", "path_denied"),
        ("..", "path_denied"),
        ("../project_evil/secret", "path_denied"),
        ("/etc/passwd", "path_denied"),
        ("/", "path_denied"),
        ("out", "path_denied"),
        ("out_relative", "path_denied"),
        ("out_folder/secret", "path_denied"),
        ("out_folder/../a/f.txt", "f"),
        ("out_evil", "path_denied"),
        ("out_dangling", "path_denied"),
        ("out_dangling_relative", "path_denied"),
        ("proc_root", "path_denied"),
        ("proc_cwd", "path_denied"),
        ("loop", "path_denied"),
        ("loop_one", "path_denied"),
        ("", "path_denied"),
        ("a\0b", "path_denied"),
        ("\0", "path_denied"),
        ("n" * 256, "path_denied"),
        ("n" * 300, "path_denied"),
        ("ü" * 128, "path_denied"),
        ("d/" * 2100, "path_denied"),
        ("\ud800", "path_denied"),
        ("n" * 255, "not_a_file"),
        ("\udcff", "not_a_file"),
        (" ", "not_a_file"),
        ("in_dangling", "not_a_file"),
        ("missing", "not_a_file"),
        ("missing/x", "not_a_file"),
        ("a/f.txt/x", "not_a_file"),
        ("a", "not_a_file"),
        (".", "not_a_file"),
        ("in_folder", "not_a_file"),
        ("fifo", "not_a_file"),
        ("socket", "not_a_file"),
    ],
)
def test_reads_inside_and_refuses_the_rest(tree, roots, content, outcome, path, answer):
    assert outcome(lambda: content(roots.place(path))) == answer


def test_reads_an_absolute_path_inside(tree, roots, content):
    assert content(roots.place(str(tree / "a" / "f.txt"))) == "f"


@pytest.mark.parametrize("end", ["_evil/secret", "/../outside/secret", "/../project_evil/secret"])
def test_refuses_an_absolute_path_that_only_begins_like_a_root(tree, roots, outcome, end):
    assert outcome(lambda: roots.place(f"{tree}{end}")) == "path_denied"


def test_knows_a_root_by_the_link_the_operator_named(tree, jail, content):
    alias = tree.parent / "alias"
    alias.symlink_to(tree)
    (tree / "by_alias").symlink_to(alias / "a" / "f.txt")
    roots = jail(alias)
    assert roots.base == tree
    assert content(roots.place(str(alias / "a" / "f.txt"))) == "f"
    assert content(roots.place(str(tree / "a" / "f.txt"))) == "f"
    assert content(roots.place("by_alias")) == "f"
    assert roots.place(str(alias / "a")).shown == "a"


def test_follows_links_from_one_root_to_another(tree, jail, content, outcome):
    other = tree.parent / "outside"
    roots = jail(tree, other)
    for link in ("out", "out_relative"):
        assert content(roots.place(link)) == "secret"
    assert roots.place("out").target().shown == str(other / "secret")
    assert content(roots.place("../outside/secret")) == "secret"
    assert outcome(lambda: content(roots.place("out_evil"))) == "path_denied"


def test_follows_forty_links_and_no_more(tree, roots, content, outcome):
    for number in range(MAX_LINKS + 1):
        (tree / f"l{number}").symlink_to(tree / f"l{number - 1}" if number else "a/f.txt")
    assert content(roots.place(f"l{MAX_LINKS - 1}")) == "f"
    assert outcome(lambda: content(roots.place(f"l{MAX_LINKS}"))) == "path_denied"


@pytest.mark.parametrize("path", ["in", "in_folder/f.txt", "in_absolute", "a/b/up"])
def test_refuses_every_link_when_links_are_blocked(tree, jail, content, outcome, path):
    roots = jail(block_symlinks=True)
    assert outcome(lambda: content(roots.place(path))) == "path_denied"
    assert outcome(lambda: roots.place(path).target()) == "path_denied"
    assert content(roots.place("a/f.txt")) == "f"


def test_an_entry_is_the_link_itself(tree, roots, outcome):
    entry = roots.place("out", follow=False)
    assert os.path.stat.S_ISLNK(entry.stat().st_mode)
    assert entry.target().parts == ("out",)
    assert outcome(entry.open_file) == "not_a_file"
    assert outcome(entry.open) == "path_denied"
    assert outcome(roots.place("out_folder/secret", follow=False).stat) == "path_denied"
    with roots.place("in_folder/f.txt", follow=False).parent() as (fd, name):
        os.unlink(name, dir_fd=fd)
    assert not (tree / "a" / "f.txt").exists()


@pytest.mark.parametrize(
    ("path", "shown"),
    [("a/f.txt", "a/f.txt"), (".", "."), ("a/../in", "in"), ("line\nbreak\x1b[m", "line<U+000A>break<U+001B>[m")],
)
def test_names_places_from_the_base(tree, roots, path, shown):
    assert roots.place(path).shown == shown


def test_names_places_of_other_roots_in_full(tree, jail):
    outside = tree.parent / "outside"
    roots = jail(tree, outside)
    assert roots.place(str(outside / "secret")).shown == str(outside / "secret")
    assert roots.place(str(outside)).shown == str(outside)


def test_prefers_the_base_for_roots_inside_each_other(tree, jail):
    assert jail(tree, tree / "a").place("a/f.txt").shown == "a/f.txt"
    assert jail(tree / "a", tree).place("b/g.txt").shown == "b/g.txt"


@each_row(
    ("path", "target"),
    [
        ("in", "a/f.txt"),
        ("in_chain", "a/f.txt"),
        ("in_absolute_folder/b/g.txt", "a/b/g.txt"),
        ("in_dangling", "a/nothing"),
        ("in_folder/new/deep/x", "a/new/deep/x"),
        ("in_absolute_folder", "a"),
        ("a/b/..", "a"),
        (".", "."),
        ("out_dangling", "path_denied"),
        ("out_dangling_relative", "path_denied"),
        ("out_folder/new", "path_denied"),
        ("loop", "path_denied"),
        ("a/f.txt/x", "a/f.txt/x"),
    ],
)
def test_target_follows_links_and_refuses_those_that_lead_out(tree, roots, outcome, path, target):
    assert outcome(lambda: roots.place(path).target().shown) == target


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("a/f.txt", "a/f.txt"),
        ("in", "a/f.txt"),
        ("in_chain", "a/f.txt"),
        ("in_absolute_folder/b/g.txt", "a/b/g.txt"),
        ("in_dangling", "not_a_file"),
        ("missing", "not_a_file"),
        ("a", "not_a_file"),
        ("fifo", "not_a_file"),
        ("socket", "not_a_file"),
        ("out", "path_denied"),
        ("out_folder/secret", "path_denied"),
        ("loop", "path_denied"),
        ("proc_root", "path_denied"),
    ],
)
@pytest.mark.parametrize("seen", [False, True])
def test_a_file_is_opened_with_its_target_or_not_at_all(tree, roots, outcome, path, target, seen):
    def opened() -> str:
        place = roots.place(path)
        fd, at = (place.with_status() if seen else place).open_target()
        again = at.open_file()
        assert os.path.sameopenfile(fd, again)
        os.close(fd)
        os.close(again)
        return at.shown

    before = os.listdir("/dev/fd")
    assert outcome(opened) == target
    assert os.listdir("/dev/fd") == before


def test_an_entry_is_not_opened_where_it_is_a_link(tree, roots, outcome):
    entry = roots.place("in", follow=False).with_status()
    assert not entry.was_file
    assert outcome(entry.open_target) == outcome(entry.open_file)


@pytest.mark.parametrize(
    ("name", "instead", "found"),
    [
        ("a/f.txt", "a/b/g.txt", "g"),
        ("a/f.txt", "~/link_to_link", "tilde"),
        ("a/f.txt", "~/link", "tilde"),
        ("a/f.txt", "out", "path_denied"),
        ("a/f.txt", "~/out", "path_denied"),
        ("a/f.txt", "out_dangling", "path_denied"),
        ("a/f.txt", "proc_root", "path_denied"),
        ("a/f.txt", "~/loop", "path_denied"),
        ("a/f.txt", "fifo", "not_a_file"),
        ("a/f.txt", "socket", "not_a_file"),
        ("a/f.txt", "~", "not_a_file"),
        ("a/f.txt", None, "not_a_file"),
        ("a", "out_folder", "path_denied"),
        ("a", "fifo", "not_a_file"),
        ("a", None, "not_a_file"),
    ],
)
@pytest.mark.parametrize("follow", [True, False])
def test_what_comes_into_the_place_of_a_file_that_was_seen_is_judged_as_if_it_had_been_there(
    tree, roots, outcome, content, name, instead, found, follow
):
    (tree.parent / "outside" / "f.txt").write_text("secret")
    (tree / "~" / "link").symlink_to("../~/x")
    (tree / "~" / "link_to_link").symlink_to("../~/link")
    (tree / "~" / "out").symlink_to("../../outside/secret")
    (tree / "~" / "loop").symlink_to("f.txt")
    place = roots.place("a/f.txt", follow=follow).with_status()
    assert place.was_file
    (tree / name).rename(tree / "moved")
    if instead:
        (tree / instead).rename(tree / name)

    def opened() -> str:
        fd, _ = place.open_target()
        with open(fd) as file:
            return file.read()

    before = os.listdir("/dev/fd")
    told = outcome(opened)
    assert told == outcome(lambda: content(roots.place("a/f.txt", follow=follow)))
    assert told == found or not follow
    assert "secret" not in told
    assert os.listdir("/dev/fd") == before


def test_a_target_is_not_led_elsewhere_by_a_later_link(tree, roots, outcome):
    target = roots.place("in_folder/f.txt").target()
    (tree / "a").rename(tree / "moved")
    (tree / "a").symlink_to("moved")
    assert outcome(target.open_file) == "path_denied"


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("a", None),
        ("in_folder", None),
        ("a/f.txt", "not_a_directory"),
        ("missing", "not_a_directory"),
        ("fifo", "not_a_directory"),
        ("in", "not_a_directory"),
        ("out_folder", "path_denied"),
    ],
)
def test_opens_folders_only_as_folders(tree, roots, outcome, path, answer):
    assert outcome(lambda: os.close(roots.place(path).open_folder())) == answer


def test_status_of_nothing_is_none(tree, roots, outcome):
    assert roots.place("missing").stat() is None
    assert roots.place("in_dangling").stat() is None
    assert roots.place("in_dangling").stat(follow=False) is not None
    assert roots.place("a/f.txt/x").stat() is None
    assert os.path.stat.S_ISFIFO(roots.place("fifo").stat().st_mode)
    assert outcome(roots.place("out").stat) == "path_denied"
    assert os.path.stat.S_ISLNK(roots.place("out").stat(follow=False).st_mode)


def test_hints_at_similar_names_in_the_same_folder(tree, roots):
    for name in ("readme.md", "README.txt", "read.me", "other"):
        (tree / "a" / name).touch()
    with pytest.raises(ToolError) as caught:
        roots.place("a/Readme.md").open_file()
    assert caught.value.hint == "similar: a/readme.md, a/read.me, a/README.txt"


def hint(roots, path):
    """Return what the refusal of a missing file leads to."""
    with pytest.raises(ToolError) as caught:
        roots.place(path).open_file()
    return caught.value.hint


def test_hints_at_the_same_name_elsewhere_in_the_root(tmp_path):
    for path in (
        "src/click/core.py",
        "src/deep/down/Core.py",
        "lib/core.py",
        "src/click/cores.py",
        "made/once.py",
        ".venv/once.py",
        ".git/once.py",
        ".ci/.env",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / ".gitignore").write_text("made/\n")
    roots = Roots([tmp_path])
    expected = {
        "core.py": "similar: lib/core.py, src/click/core.py, src/deep/down/Core.py",
        "click/core.py": "similar: src/click/core.py, lib/core.py, src/deep/down/Core.py",
        "src/core.py": "similar: lib/core.py, src/click/core.py, src/deep/down/Core.py",
        "src/click/corse.py": "similar: src/click/core.py, src/click/cores.py",
        "lib/core.py/x": FIND,
        "once.py": FIND,
        "src/click/nope.py": FIND,
        ".env": "similar: .ci/.env, .venv",
    }
    assert {path: hint(roots, path) for path in expected} == expected
    roots.close()


def test_the_hint_reads_a_bounded_part_of_the_root(tmp_path, monkeypatch):
    for folder in "abc":
        (tmp_path / folder).mkdir()
        for n in range(20):
            (tmp_path / folder / f"{folder}{n:02}").touch()
    roots = Roots([tmp_path])
    assert hint(roots, "c19") == "similar: c/c19"
    monkeypatch.setattr(path_roots, "MAX_ELSEWHERE", 43)
    assert hint(roots, "c19") == FIND
    assert hint(roots, "b19") == "similar: b/b19"
    roots.close()


@pytest.mark.parametrize("path", ["out", "out_folder/secret", "out_dangling", "proc_root", "../outside/secret"])
def test_names_no_path_outside_that_was_not_asked_for(tree, roots, path):
    with pytest.raises(ToolError) as caught:
        roots.place(path).open_file()
    told = str(caught.value.payload()).replace(path, "")
    assert str(tree.parent) not in told
    assert "passwd" not in told


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "n" * 256])
def test_a_child_has_a_plain_name(tree, roots, outcome, name):
    assert outcome(roots.place(".").child, name) == "path_denied"


def test_a_child_is_beneath_its_folder(tree, roots, content):
    place = roots.place("a").child("f.txt")
    assert content(place) == "f"
    assert place.folder() == roots.place("a")
    assert roots.place(".").folder() == roots.place(".")


def test_lends_no_parent_of_a_root(tree, roots, outcome):
    def act(path):
        with roots.place(path).parent():
            pass

    assert outcome(act, ".") == "refused"
    assert outcome(act, "missing/x") == "not_found"
    assert outcome(act, "a/f.txt/x") == "not_a_directory"
    assert outcome(act, "out_folder/x") == "path_denied"


def test_unconfined_reads_anywhere_but_only_regular_files(tree, roots, content, outcome):
    def read(path):
        return content(roots.place(path, unconfined=True))

    assert read(str(tree.parent / "outside" / "secret")) == "secret"
    assert read("../outside/secret") == "secret"
    assert read("out") == "secret"
    assert read("a/f.txt") == "f"
    assert outcome(read, "fifo") == "not_a_file"
    assert outcome(read, "/dev/null") == "not_a_file"
    assert outcome(read, "a\0") == "path_denied"
    assert outcome(roots.place("/x/.git/config", unconfined=True).check_writable) == "protected_path"


@linux
def test_magic_links_of_proc_lead_nowhere(jail, outcome, content):
    roots = jail(Path("/"))
    for path in ("exe", "cwd/pyproject.toml", "root/etc/passwd", "fd/0"):
        assert outcome(lambda path=path: content(roots.place(f"/proc/self/{path}"))) == "path_denied"
        assert outcome(lambda path=path: roots.place(f"/proc/self/{path}").target()) == "path_denied"
    assert "Name:" in content(roots.place("proc/self/status"))


def test_looks_at_what_it_has_opened_as_well(tree, roots, outcome, monkeypatch):
    place = roots.place("a/f.txt")
    file = place.stat()
    monkeypatch.setattr(type(roots.opener(place.root)), "stat", lambda *_: file)
    assert outcome(roots.place("fifo").open_file) == "not_a_file"
    assert outcome(roots.place("a").open_file) == "not_a_file"


def test_opens_no_device(jail, outcome):
    roots = jail(Path("/dev"))
    assert outcome(roots.place("zero").open_file) == "not_a_file"
    assert outcome(roots.place("tty").open_file) == "not_a_file"


def test_reads_names_that_are_not_unicode(project, roots, content):
    with open(os.fsencode(project) + b"/\xff\xfe", "wb") as file:
        file.write(b"x")
    place = roots.place("\udcff\udcfe")
    assert content(place) == "x"
    assert place.shown == "\ufffd\ufffd"


def test_what_the_system_does_not_permit_is_path_denied(tree, roots, content, as_nobody):
    tree.chmod(0o755)
    (tree / "locked").mkdir()
    (tree / "locked" / "x").write_text("x")
    (tree / "mine").write_text("x")
    (tree / "mine").chmod(0)
    (tree / "locked").chmod(0)
    try:
        assert as_nobody(lambda: content(roots.place("a/f.txt"))) == "f"
        for path in ("locked/x", "mine"):
            assert as_nobody(lambda path=path: content(roots.place(path))) == "path_denied"
        assert as_nobody(lambda: roots.place("locked").open_folder()) == "path_denied"
        assert as_nobody(lambda: roots.place("locked/new").target().shown) == "path_denied"
    finally:
        (tree / "locked").chmod(0o700)


def test_mount_points_inside_are_refused_only_when_asked(tree, engine, with_mounts):
    (tree / "mounted").mkdir()
    (tree / "bound").touch()
    (tree / "to_mounted").symlink_to(tree / "mounted")
    script = """
import sys
from toolbox_mcp.safety.errors import ToolError
from toolbox_mcp.safety.path_jail.roots import Engine, JailedPath, Roots
for no_xdev in (False, True):
    roots = Roots([sys.argv[1]], no_xdev=no_xdev, engine=Engine(sys.argv[2]))
    for path in ("mounted/secret", "bound", "to_mounted/secret", "a/f.txt"):
        try:
            print(open(roots.place(path).open_file()).read(), end=" ")
        except ToolError as e:
            print(e.code, end=" ")
"""
    outside = tree.parent / "outside"
    mounts = f"mount --bind {outside} {tree}/mounted && mount --bind {outside}/secret {tree}/bound"
    told = with_mounts(mounts, script, tree, engine.value)
    assert told == "secret secret secret f path_denied path_denied path_denied f"


def test_keeps_no_descriptor(tree, roots, content, outcome):
    before = os.listdir("/dev/fd")
    for path in ("in_chain", "out", "loop", "missing/x", "a/f.txt/x", "fifo", "out_and_back"):
        place = roots.place(path)
        outcome(content, place)
        outcome(place.stat)
        outcome(place.target)
        outcome(place.check_writable)
        outcome(place.open_folder) if path != "in_chain" else None
    assert os.listdir("/dev/fd") == before


def test_descriptors_do_not_reach_programs(tree, roots):
    fd = roots.place("in_absolute").open_file()
    assert not os.get_inheritable(fd)
    os.close(fd)
    assert not any(os.get_inheritable(root.fd) for root in roots._roots)


def test_a_missing_root_does_not_start(project):
    for folder in ("missing", "file"):
        (project / "file").touch()
        with pytest.raises(OSError, match=r"No such file|Not a directory"):
            Roots([project, project / folder])


def test_takes_the_best_engine_that_works():
    with_call = Roots([Path("/")])
    assert with_call.engine in (Engine.OPENAT2, Engine.WALK)
    with_call.close()


def test_links_with_many_dots_end(project, roots, outcome):
    make = project
    for _ in range(40):
        make = make / "d"
    make.mkdir(parents=True)
    (project / "f").write_text("f")
    inside = "/".join(["d"] * 40)
    (project / "up").symlink_to(inside + "/.." * 39 + "/../f")
    (project / "far").symlink_to(f"{inside}/" + f"../../{'d/' * 2}" * 400)
    assert roots.place("up").target().parts == ("f",)
    assert roots.place("far").target().parts == ("d",) * 40
    bounce = "d/../" * 700
    for number in range(39):
        (project / f"b{number}").symlink_to(f"{bounce}b{number + 1}" if number < 38 else "f")
    assert outcome(lambda: roots.place("b0").target()) == "path_denied"


def test_closing_twice_closes_nothing_else(tmp_path):
    roots = Roots([tmp_path])
    roots.close()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]
    roots.close()
    for fd in others:
        os.close(fd)


def test_a_file_that_goes_once_it_is_open_is_refused_and_leaves_no_descriptor(project, roots, outcome, monkeypatch):
    (project / "a").touch()
    real, held = os.fstat, len(os.listdir("/proc/self/fd"))

    def gone(fd):
        raise OSError(errno.ESTALE, "")

    monkeypatch.setattr(os, "fstat", gone)
    assert outcome(lambda: roots.place("a").open_file()) == "path_denied"
    outcome(lambda: roots.place("a").target())
    monkeypatch.setattr(os, "fstat", real)
    assert len(os.listdir("/proc/self/fd")) == held
