"""Repositories that are made to run a program, to show what lies outside, to hang git, or to show a history that is not there.

Each is built twice: plain git shows that it works, then every tool is tried on the other one.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.patience import patience

from .conftest import Git

SECRET = "hunter2-outside"
_VERSION = subprocess.run(["git", "version"], check=True, capture_output=True, text=True).stdout
GIT = tuple(map(int, re.findall(r"\d+", _VERSION)[:2]))
VEHICLES = ("config", "include", "includeIf", "worktree")


class Evil:
    """A repository that is made hostile, and what shows that it worked."""

    def __init__(self, git: Git, outside: Path, vehicle: str = "config") -> None:
        self.git, self.outside, self.vehicle = git, outside, vehicle
        self.ran = outside / "ran"
        self.program = outside / "program"
        self.program.write_text(f"#!/bin/sh\ntouch {self.ran}\ncat >/dev/null 2>&1 </dev/null\nexit 0\n")
        self.program.chmod(0o755)

    def config(self, key: str, value: str | None = None) -> None:
        """Set a key, to the program if nothing else is said, by the vehicle."""
        value = value or str(self.program)
        if self.vehicle == "config":
            self.git("config", "--add", key, value)
        elif self.vehicle == "worktree":
            self.git("config", "core.repositoryFormatVersion", "1")
            self.git("config", "extensions.worktreeConfig", "true")
            self.git("config", "--file", ".git/config.worktree", "--add", key, value)
        else:
            self.git("config", "--file", ".git/more", "--add", key, value)
            where = "include.path" if self.vehicle == "include" else "includeIf.gitdir:**.path"
            self.git("config", where, "more")

    def hook(self, *names: str, folder: str = ".git/hooks") -> None:
        for name in names:
            self.git.write(f"{folder}/{name}", f"#!/bin/sh\ntouch {self.ran}\n").chmod(0o755)

    def fifo(self, name: str) -> None:
        path = self.git.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)

    def attributes(self, text: str) -> None:
        self.git.write(".gitattributes", text)

    def other(self) -> Git:
        """Return a repository outside that holds the secret."""
        other = Git(self.outside / "other")
        if not other.folder.exists():
            other.folder.mkdir()
            other("init", "-q", "-b", "main")
            other.commit(SECRET, secret=SECRET)
        return other

    def signed(self) -> None:
        """Make the last commit look signed."""
        text = self.git("cat-file", "commit", "HEAD")
        head, _, message = text.partition("\n\n")
        head += "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
        file = self.git.write(".git/signed", f"{head}\n\n{message}")
        commit = self.git("hash-object", "-w", "-t", "commit", str(file)).strip()
        self.git("update-ref", "refs/heads/main", commit)

    def missing(self) -> None:
        """Take away an object, so that git fetches it where the repository says that it may."""
        blob = self.git("rev-parse", "HEAD:b").strip()
        (self.git.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        self.config("remote.origin.promisor", "true")
        self.config("extensions.partialClone", "origin")
        self.git("config", "core.repositoryFormatVersion", "1")

    def submodule(self) -> Git:
        """Put a submodule into the repository, whose own configuration is hostile."""
        inner = Git(self.git.folder / "inner")
        inner.folder.mkdir()
        inner("init", "-q")
        inner.commit("inner", x="x\n")
        self.git("add", "inner")
        self.git("commit", "-qm", "inner")
        inner.write("x", "y\n")
        return inner


@dataclass(frozen=True)
class Vector:
    """One way. control: what plain git is asked; effect: what then happens; config: whether it depends on the configuration alone."""

    name: str
    build: Callable[[Evil], Any]
    control: Sequence[str]
    effect: str = "runs"
    config: bool = False
    fast: bool = False
    env: dict[str, str] = field(default_factory=dict)


def both(*acts: Callable[[Evil], Any]) -> Callable[[Evil], None]:
    def build(evil: Evil) -> None:
        for act in acts:
            act(evil)

    return build


def configured(key: str, value: str | None = None) -> Callable[[Evil], None]:
    return lambda evil: evil.config(key, value)


def attributes(text: str) -> Callable[[Evil], None]:
    return lambda evil: evil.attributes(text)


def linked(name: str) -> Callable[[Evil], None]:
    """Replace a part of .git by a link to that of the repository outside."""

    def build(evil: Evil) -> None:
        import shutil

        path = evil.git.folder / ".git" / name
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        path.symlink_to(evil.other().folder / ".git" / name)

    return build


def _git_file(evil: Evil) -> None:
    (evil.git.folder / ".git").rename(evil.outside / "mine")
    evil.git.write(".git", f"gitdir: {evil.other().folder}/.git\n")


def _git_link(evil: Evil) -> None:
    (evil.git.folder / ".git").rename(evil.outside / "mine")
    (evil.git.folder / ".git").symlink_to(evil.other().folder / ".git")


def _commondir(evil: Evil) -> None:
    evil.git.write(".git/commondir", f"{evil.other().folder}/.git\n")
    evil.git.write(".git/gitdir", f"{evil.git.folder}/.git\n")


def _alternates(evil: Evil) -> None:
    other = evil.other()
    evil.git.write(".git/objects/info/alternates", f"{other.folder}/.git/objects\n")
    evil.git.write(".git/refs/heads/main", other("rev-parse", "HEAD"))


def _nested_alternates(evil: Evil) -> None:
    store = evil.git.folder / ".git" / "more"
    (store / "info").mkdir(parents=True)
    (store / "info" / "alternates").write_text(f"{evil.other().folder}/.git/objects\n")
    evil.git.write(".git/objects/info/alternates", "../more\n")
    evil.git.write(".git/refs/heads/main", evil.other()("rev-parse", "HEAD"))


def _linked_object(evil: Evil) -> None:
    other = evil.other()
    commit = other("rev-parse", "HEAD").strip()
    for line in other("rev-list", "--objects", "--all").split("\n"):
        if name := line[:40]:
            path = evil.git.folder / ".git" / "objects" / name[:2] / name[2:]
            path.parent.mkdir(exist_ok=True)
            path.symlink_to(other.folder / ".git" / "objects" / name[:2] / name[2:])
    evil.git.write(".git/refs/heads/main", commit + "\n")


def _work_tree(evil: Evil) -> None:
    evil.other().write("a", SECRET)
    evil.config("core.worktree", str(evil.other().folder))


def _replace(evil: Evil) -> None:
    tree = evil.git("rev-parse", "HEAD^{tree}").strip()
    other = evil.git("commit-tree", tree, "-m", SECRET).strip()
    evil.git("update-ref", "refs/replace/" + evil.git("rev-parse", "HEAD").strip(), other)


def _grafts(evil: Evil) -> None:
    tree = evil.git("rev-parse", "HEAD^{tree}").strip()
    other = evil.git("commit-tree", tree, "-m", SECRET).strip()
    evil.git.write(".git/info/grafts", f"{evil.git('rev-parse', 'HEAD').strip()} {other}\n")


def _inner(key: str) -> Callable[[Evil], None]:
    def build(evil: Evil) -> None:
        evil.submodule()("config", key, str(evil.program))

    return build


def _inner_filter(evil: Evil) -> None:
    inner = evil.submodule()
    inner.write(".gitattributes", "* filter=evil\n")
    inner("config", "filter.evil.clean", str(evil.program))


def _bare(evil: Evil) -> None:
    bare = Git(evil.git.folder / "bare")
    bare.folder.mkdir()
    bare("init", "-q", "--bare")
    bare("config", "core.bare", "false")
    bare("config", "core.worktree", str(evil.git.folder))
    bare("config", "core.fsmonitor", str(evil.program))


CLEAN = both(attributes("* filter=evil\n"), configured("filter.evil.clean"))
VECTORS = (
    Vector("filter clean", CLEAN, ["add", "."], config=True, fast=True),
    Vector("filter smudge", both(attributes("* filter=evil\n"), configured("filter.evil.smudge")), ["checkout", "-qf", "topic"], config=True, fast=True),
    Vector("filter process", both(attributes("* filter=evil\n"), configured("filter.evil.process"), configured("filter.evil.required", "true")), ["add", "."], config=True),
    Vector("filter with an odd name", both(attributes("* filter=a=b\n"), configured("filter.a=b.clean")), ["add", "."], config=True),
    Vector("external diff", configured("diff.external"), ["diff"], config=True, fast=True),
    Vector("diff driver", both(attributes("* diff=evil\n"), configured("diff.evil.command")), ["diff"], config=True),
    Vector("textconv", both(attributes("* diff=evil\n"), configured("diff.evil.textconv")), ["diff"], config=True, fast=True),
    Vector("attributes in .git", both(lambda e: e.git.write(".git/info/attributes", "* diff=evil\n"), configured("diff.evil.textconv")), ["diff"], config=True),
    Vector("fsmonitor", configured("core.fsmonitor"), ["status"], config=True, fast=True),
    Vector("hooks", lambda e: e.hook("post-index-change", "pre-commit", "post-checkout", "post-commit", "reference-transaction", "commit-msg", "prepare-commit-msg"), ["status"], fast=True),
    Vector("hooks path", both(lambda e: e.hook("post-index-change", "post-checkout", "pre-commit", folder="hooks"), configured("core.hooksPath", "hooks")), ["checkout", "-q", "-f", "topic"], config=True),
    *([Vector("a configured hook", both(configured("hook.evil.command"), configured("hook.evil.event", "post-index-change")), ["status"], config=True)] if GIT >= (2, 54) else []),
    Vector("signatures shown", both(Evil.signed, configured("log.showSignature", "true"), configured("gpg.program")), ["log"], config=True, fast=True),
    Vector("signatures in a format", both(Evil.signed, configured("format.pretty", "%G?"), configured("gpg.program")), ["log"], config=True),
    Vector("ssh signatures", both(configured("commit.gpgSign", "true"), configured("gpg.format", "ssh"), configured("gpg.ssh.defaultKeyCommand")), ["commit", "--allow-empty", "-m", "x"], config=True),
    Vector("commits are signed", both(configured("commit.gpgSign", "true"), configured("gpg.program")), ["commit", "--allow-empty", "-m", "x"], config=True),
    Vector("an editor", configured("core.editor"), ["commit", "--allow-empty"], config=True),
    Vector("an archive command", configured("tar.evil.command"), ["archive", "--format=evil", "HEAD"], config=True),
    Vector("an alias", lambda e: e.config("alias.evil", f"!{e.program}"), ["evil"]),
    Vector("fetched by ssh", both(Evil.missing, configured("remote.origin.url", "ssh://example.invalid/x"), configured("core.sshCommand")), ["cat-file", "blob", "HEAD:b"], fast=True),
    Vector("fetched by ext", both(Evil.missing, lambda e: e.config("remote.origin.url", f"ext::{e.program}"), configured("protocol.ext.allow", "always")), ["cat-file", "blob", "HEAD:b"]),
    Vector("fetched by a program of the remote", both(Evil.missing, lambda e: e.config("remote.origin.url", str(e.git.folder)), configured("remote.origin.uploadpack")), ["cat-file", "blob", "HEAD:b"]),
    Vector("fsmonitor of a submodule", _inner("core.fsmonitor"), ["status"], fast=True),
    Vector("filter of a submodule", _inner_filter, ["status"]),
    Vector("a bare repository in a folder", _bare, ["-C", "bare", "status"]),
    # Of an included file git takes no work tree.
    Vector("work tree outside", _work_tree, ["diff"], "shows", fast=True),
    Vector("revisions to ignore", lambda e: e.config("blame.ignoreRevsFile", str(e.other().folder / "secret")), ["blame", "a"], "shows", config=True, fast=True),
    Vector("a .git file", _git_file, ["log"], "shows", fast=True),
    Vector("a link for .git", _git_link, ["log"], "shows"),
    Vector("common folder", _commondir, ["log"], "shows"),
    Vector("alternates", _alternates, ["log"], "shows", fast=True),
    Vector("alternates of alternates", _nested_alternates, ["log"], "shows"),
    Vector("objects and refs are links", both(linked("objects"), linked("refs")), ["log"], "shows"),
    Vector("each object is a link", _linked_object, ["log"], "shows", fast=True),
    Vector("replaced commits", _replace, ["log"], "shows", fast=True),
    Vector("grafts", _grafts, ["log"], "shows"),
    *(
        Vector(f"FIFO {name}", lambda e, name=name: e.fifo(name), control, "hangs", fast=name == ".gitignore")
        for name, control in (
            (".git/HEAD", ["status"]), (".git/config", ["status"]), (".git/index", ["status"]), (".git/packed-refs", ["log"]), (".git/refs/heads/main", ["log"]),
            (".git/info/exclude", ["status"]), (".git/info/attributes", ["diff"]), (".git/objects/info/alternates", ["log"]), (".git/shallow", ["log"]),
            (".gitignore", ["status"]), (".gitattributes", ["diff"]), ("deep/.gitignore", ["status"]), (".git/commondir", ["status"]),
        )
    ),
    Vector("an included FIFO", both(lambda e: e.fifo("pipe"), configured("include.path", "../pipe")), ["status"], "hangs"),
)  # fmt: skip


def calls(repo: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what every tool is asked in a repository; what changes something comes last."""
    for name, arguments in (
        ("git_status", {}),
        ("git_diff", {}),
        ("git_diff", {"staged": True}),
        ("git_diff", {"ref": "HEAD~1"}),
        ("git_diff", {"ref": "main..topic"}),
        ("git_log", {}),
        ("git_log", {"path": f"{repo}/a", "follow": True}),
        ("git_show", {"ref": "HEAD"}),
        ("git_show", {"ref": "HEAD", "path": f"{repo}/b"}),
        ("git_blame", {"path": f"{repo}/a"}),
        ("git_grep", {"pattern": "hunter|one"}),
        ("git_branch", {"all": True}),
        ("git_add", {"paths": [f"{repo}/a"]}),
        ("git_add", {"paths": [repo]}),
        ("git_commit", {"message": "x"}),
        ("git_checkout", {"branch": "side", "create": True}),
        ("git_checkout", {"branch": "topic"}),
        ("git_status", {"repo": f"{repo}/inner"}),
        ("git_diff", {"repo": f"{repo}/inner"}),
        ("git_add", {"repo": f"{repo}/inner", "paths": [f"{repo}/inner"]}),
        ("git_status", {"repo": f"{repo}/bare"}),
    ):
        yield name, {"repo": repo} | arguments


def built(folder: Path, outside: Path, vector: Vector, vehicle: str = "config") -> Evil:
    folder.mkdir()
    outside.mkdir()
    git = Git(folder)
    git("init", "-q", "-b", "main")
    git.commit("one", a="one\n", b="b\n")
    git("checkout", "-q", "-b", "topic")
    git.commit("two", b="topic\n", c="c\n")
    git("checkout", "-q", "main")
    git.commit("three", a="one\ntwo\n")
    git.write("a", "one\n2\n")
    evil = Evil(git, outside, vehicle)
    vector.build(evil)
    evil.ran.unlink(missing_ok=True)
    return evil


def works(evil: Evil, vector: Vector) -> bool:
    """Return True if plain git does what the repository is made for."""
    env = {name: value for name, value in evil.git.env.items() if name != "GIT_EDITOR"}
    command = ["git", *vector.control]
    program = subprocess.Popen(
        command,
        cwd=evil.git.folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        out = program.communicate(timeout=1.5 if vector.effect == "hangs" else 60)[0]
    except subprocess.TimeoutExpired:
        program.kill()
        program.communicate()
        return vector.effect == "hangs"
    if vector.effect == "shows":
        return SECRET.encode() in out
    return vector.effect == "runs" and evil.ran.exists()


async def harm(call: Any, project: Path, outside: Path, vectors: Sequence[tuple[Vector, str]]) -> list[Any]:
    """Return where the control fails, and where a tool does what it must not."""
    call.git_settings = {"timeout": 1.5}
    found: list[Any] = []
    for number, (vector, vehicle) in enumerate(vectors):
        control = built(project / f"control{number}", outside / f"c{number}", vector, vehicle)
        if not works(control, vector):
            found.append((vector.name, vehicle, "does nothing to plain git"))
            continue
        repo = f"repo{number}"
        evil = built(project / repo, outside / f"r{number}", vector, vehicle)
        for name, arguments in calls(repo):
            with anyio.move_on_after(15) as scope:
                answer = str(await call(name, **arguments))
            if scope.cancelled_caught:
                found.append((vector.name, vehicle, name, "hangs"))
            elif SECRET in answer or str(outside) in answer or "tool_exception" in answer:
                found.append((vector.name, vehicle, name, answer))
            if evil.ran.exists():
                found.append((vector.name, vehicle, name, "a program ran"))
                evil.ran.unlink()
    return found


async def test_no_repository_runs_a_program_shows_the_outside_or_hangs(call, project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    fast = [(vector, "config") for vector in VECTORS if vector.fast][::2]
    assert await harm(call, project, outside, fast) == []


@pytest.mark.attack
@pytest.mark.parametrize("vehicle", VEHICLES)
async def test_no_way_there_is_runs_a_program_shows_the_outside_or_hangs(call, project, tmp_path, vehicle):
    outside = tmp_path / "outside"
    outside.mkdir()
    tried = [(vector, vehicle) for vector in VECTORS if vehicle == "config" or vector.config]
    assert await harm(call, project, outside, tried) == []


DEEP = (
    ("git_status", {}, "d/e/.gitignore"),
    pytest.param("git_diff", {}, "d/e/.gitattributes", marks=pytest.mark.slow),
    pytest.param("git_diff", {"ref": "HEAD"}, "d/e/.gitattributes", marks=pytest.mark.slow),
    pytest.param("git_add", {"paths": ["."]}, "d/e/.gitignore", marks=pytest.mark.slow),
    pytest.param("git_add", {"paths": ["d/e/f"]}, "d/e/.gitattributes", marks=pytest.mark.slow),
    pytest.param("git_checkout", {"branch": "topic"}, "d/e/.gitattributes", marks=pytest.mark.slow),
)


@pytest.mark.parametrize(("name", "arguments", "fifo"), DEEP)
async def test_a_fifo_deep_in_a_work_tree_is_soon_refused_by_name_and_leaves_no_lock(
    call, git, tmp_path, name, arguments, fifo
):
    evil = Evil(git, tmp_path)
    git.commit(d__e__f="one\n")
    git("branch", "topic")
    git.commit(d__e__g="g\n")
    git("checkout", "-q", "topic")
    git.commit(d__e__f="topic\n")
    git("checkout", "-q", "main")
    git.write("d/e/f", "one\n" if name == "git_checkout" else "two\n")
    evil.fifo(fifo)
    with anyio.fail_after(patience(10)):
        answer = await call(name, **arguments)
    assert (answer["code"], answer["error"]) == (
        "refused", f"the repository at . is not used: {fifo} is a special file, for which git waits",
    )  # fmt: skip
    (git.folder / fifo).unlink()
    assert await call("git_add", paths=["d/e"]) != answer
    assert not list((git.folder / ".git").rglob("*.lock"))


async def test_other_fifos_of_a_work_tree_are_what_they_are_to_git(call, git, tmp_path):
    evil = Evil(git, tmp_path)
    git.commit(a="1\n", b="2\n")
    for name in ("a", "sub/untracked"):
        evil.fifo(name)
    git.write("b", "3\n")
    assert await call("git_status") == "## main\n" + git("status", "--porcelain").rstrip("\n")
    refusals = {"git_diff": {}, "git_add": {"paths": ["."]}}
    for name, arguments in refusals.items():
        answer = await call(name, **arguments)
        assert (answer["code"], "a: " in answer["error"]) == ("git_failed", True)
    assert (await call("git_diff", path="b")).endswith(git("diff", "b").rstrip("\n"))
    assert await call("git_grep", pattern="3") == "b:1: 3"
    assert await call.code("git_blame", path="a") == "not_a_file"
    assert await call("git_add", paths=["b"]) == "Staged:\nM  b"


async def test_a_folder_that_became_a_link_is_not_looked_into(call, git, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text(SECRET)
    git.commit(d__f="inside\n")
    (git.folder / "d" / "f").unlink()
    (git.folder / "d").rmdir()
    (git.folder / "d").symlink_to(outside)
    assert SECRET in git("grep", "-h", "hunter2")
    failed = []
    for name, arguments in (
        ("git_grep", {"pattern": "hunter2"}), ("git_grep", {"pattern": "hunter2", "path": "d/f"}), ("git_diff", {}), ("git_diff", {"ref": "HEAD"}),
        ("git_status", {}), ("git_blame", {"path": "d/f"}), ("git_show", {"ref": "HEAD", "path": "d/f"}), ("git_add", {"paths": ["."]}), ("git_add", {"paths": ["d/f"]}),
    ):  # fmt: skip
        answer = str(await call(name, **arguments)).replace("no matches for hunter2", "")
        if "hunter2" in answer:
            failed.append((name, arguments, answer))
    assert failed == []
    assert "hunter2" not in git("cat-file", "--batch-all-objects", "--batch")


async def test_a_repository_of_another_user_is_refused(call, git, monkeypatch):
    git.commit(a="1\n")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    for name, arguments in (("git_status", {}), ("git_log", {}), ("git_add", {"paths": ["a"]})):
        answer = await call(name, **arguments)
        assert (answer["code"], "it belongs to another user" in answer["error"]) == ("refused", True)


async def test_a_head_that_leads_elsewhere_is_refused(call, git, tmp_path):
    git.commit(a="1\n")
    git("branch", "topic")
    git.write("a", "2\n")
    git("add", "a")
    before = sorted(tmp_path.rglob("*"))
    failed = []
    for head, ref in (
        ("ref: refs/heads/../../../../etc/passwd", None), ("ref: refs/heads/../../x", None), ("ref: ../../x", None), ("ref: /etc/passwd", None), ("ref: refs/heads/.x", None),
        ("ref: refs/heads/x.lock", None), ("ref: refs/heads/x\ny", None), ("garbage", None), ("", None), ("a" * 5000, None), ("ref: refs/heads/a b", None), ("ref: refs/heads/x/", None),
        ("ref: refs/heads/main", "ref: refs/heads/../../../../etc/passwd\n"), ("ref: refs/heads/main", "ref: refs/heads/topic\n"),
    ):  # fmt: skip
        git.write(".git/HEAD", head + "\n")
        if ref:
            git.write(".git/refs/heads/main", ref)
        for name, arguments in (
            ("git_status", {}),
            ("git_branch", {}),
            ("git_diff", {"staged": True}),
            ("git_commit", {"message": "x"}),
            ("git_checkout", {"branch": "topic"}),
        ):
            answer = await call(name, **arguments)
            if not isinstance(answer, dict) or answer["code"] not in ("refused", "not_a_repo"):
                failed.append((head, name, answer))
    assert failed == []
    assert [path for path in sorted(tmp_path.rglob("*")) if "toolbox-git" not in str(path)] == before


async def test_no_tree_writes_into_a_repository(call, git, tmp_path):
    """Names that some file system takes for .git, and names that lead out."""
    git.commit(a="1\n")
    blob = bytes.fromhex(git("rev-parse", "HEAD:a").strip())
    failed = []
    for number, name in enumerate(
        (".git", "..", ".GIT", "git~1", ".g\u200cit", ".git ", ".git.", ".git::$INDEX_ALLOCATION", ".mcp.json")
    ):
        (tmp_path / "tree").write_bytes(b"100644 " + name.encode() + b"\0" + blob)
        tree = git("hash-object", "-t", "tree", "-w", "--literally", str(tmp_path / "tree")).strip()
        git("update-ref", f"refs/heads/evil{number}", git("commit-tree", tree, "-m", "evil").strip())
        call.jail = {"protected": [".mcp.json"]}
        found = await call.code("git_checkout", branch=f"evil{number}")
        if found not in ("protected_path", "git_failed") or not (git.folder / "a").exists():
            failed.append((name, found))
    assert failed == []


async def test_the_servers_own_environment_reaches_no_git(call, git, tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    evil = Evil(git, outside)
    git.commit(a="one\n")
    git.write("a", "two\n")
    program = str(evil.program)
    hostile = {
        "GIT_EXTERNAL_DIFF": program, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": program,
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{program}'", "GIT_DIR": str(evil.other().folder / ".git"),
        "GIT_WORK_TREE": str(evil.other().folder), "GIT_INDEX_FILE": "/nonexistent", "GIT_EDITOR": program, "GIT_PAGER": program,
        "GIT_TRACE": str(outside / "trace"), "GIT_TRACE2": str(outside / "trace"), "GIT_EXEC_PATH": str(outside), "GIT_SSH_COMMAND": program, "GIT_SEQUENCE_EDITOR": program,
        "GIT_OBJECT_DIRECTORY": str(evil.other().folder / ".git/objects"), "GIT_NAMESPACE": "x", "GIT_ASKPASS": program,
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(evil.other().folder / ".git/objects"), "GIT_AUTHOR_NAME": SECRET, "GIT_GRAFT_FILE": "/nonexistent",
        "GIT_CONFIG_GLOBAL": str(outside / "global"), "GIT_TEMPLATE_DIR": str(outside), "LD_DEBUG": "all", "PAGER": program, "EDITOR": program,
    }  # fmt: skip
    (outside / "global").write_text(f"[core]\n\tfsmonitor = {program}\n")
    controls = (
        ({"GIT_EXTERNAL_DIFF": program}, ["diff"]),
        ({"GIT_CONFIG_GLOBAL": str(outside / "global")}, ["status"]),
    )
    for env, command in controls:
        git(*command, **env)
        assert evil.ran.exists()
        evil.ran.unlink()
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    assert (await call("git_diff")).startswith(" a | 2 +-\n")
    assert await call("git_status") == "## main\n M a"
    assert await call("git_add", paths=["a"]) == "Staged:\nM  a"
    assert (await call("git_commit", message="x")).endswith("\nby toolbox-mcp <toolbox-mcp@localhost>")
    assert not evil.ran.exists()
    assert not (outside / "trace").exists()
