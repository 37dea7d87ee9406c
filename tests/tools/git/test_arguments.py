"""What a model may put into an argument to be an option, another path, a command or a page of control characters."""

import pytest

SECRET = "hunter2-outside"
ATTACKS = (
    "--output=stolen", "--upload-pack=touch ran", "--exec=touch ran", "--open-files-in-pager=touch ran", "-Otouch ran", "-O", "-p", "-c", "--", "--all", "--help", "--ext-diff", "--textconv",
    "--no-index", "--contents=../secret", "-S../secret", "--pathspec-from-file=../secret", "--file=../secret", "--template=../secret", "@../secret", "-",
    "HEAD --output=stolen", "HEAD\n--output=stolen", "HEAD:../secret", ":../secret", ":(top)a", ":(exclude)a", ":!a", ":/", ":/one", "^HEAD", "HEAD^@", "HEAD..", "..HEAD", "HEAD...", "@{-1}", "@{u}", "HEAD@{1.year.ago}",
    "refs/../../secret", "../secret", "../../secret", "/etc/passwd", "~/secret", "sub/../../secret", "link/secret", ".git", ".git/config", ".GIT/config", "a/.", "a//b", "*", "?", "[a]", "**",
    "$(touch ran)", "`touch ran`", "; touch ran", "| touch ran", "&& touch ran", "!touch ran", "%x00", "%(trailers)", "\\", "'", '"', "(", "[", "(?R)", "(a+)+$", "\\Q",
    "\0", "a\0b", "\n", "\r", "\x1b[31m", "\x1b]0;t\x07", "\u202e", "\ud800", "\u00e9", "x" * 5000, " ", "HEAD ", ".", "",
)  # fmt: skip
TEXTS = {
    "git_status": ("path", "repo"),
    "git_diff": ("path", "ref", "repo"),
    "git_log": ("path", "ref", "author", "since", "until", "grep", "repo"),
    "git_show": ("ref", "path", "repo"),
    "git_blame": ("path", "repo"),
    "git_grep": ("pattern", "path", "repo"),
    "git_branch": ("repo",),
    "git_add": ("paths", "repo"),
    "git_commit": ("message", "repo"),
    "git_checkout": ("branch", "repo"),
    "apply_patch": ("patch",),
}
NEEDED = {
    "git_show": {"ref": "HEAD"},
    "git_blame": {"path": "a"},
    "git_grep": {"pattern": "one"},
    "git_add": {"paths": ["a"]},
    "git_commit": {"message": "x"},
    "git_checkout": {"branch": "main"},
}
CONTROLS = {*map(chr, range(32)), "\x7f", *map(chr, range(0x80, 0xA0)), "\u202e"} - {"\n", "\t"}


@pytest.mark.attack
@pytest.mark.parametrize("name", TEXTS)
async def test_no_argument_is_an_option_leads_outside_runs_or_breaks_an_answer(call, git, tmp_path, name):
    git.commit("one", a="one\n", sub__b="b\n")
    git.commit("two", a="two\n")
    (tmp_path / "secret").write_text(SECRET)
    (git.folder / "link").symlink_to(tmp_path)
    git.write("a", "three\n")
    before = {path for path in tmp_path.rglob("*") if ".git" not in path.parts and "toolbox-git" not in str(path)}
    await call("git_status")
    failed = []
    for argument in TEXTS[name]:
        for attack in ATTACKS:
            arguments = NEEDED.get(name, {}) | {argument: [attack] if argument == "paths" else attack}
            answer = await call(name, **arguments)
            text = str(answer["error"] if isinstance(answer, dict) else answer)
            code = answer["code"] if isinstance(answer, dict) else None
            if SECRET in text or code == "tool_exception" or CONTROLS & set(text) or str(tmp_path) in text:
                failed.append((argument, attack[:40], answer))
    assert failed == []
    after = {path for path in tmp_path.rglob("*") if ".git" not in path.parts and "toolbox-git" not in str(path)}
    assert after == before
    git("fsck", "--strict")


def test_every_tool_of_git_is_tried(call):
    names = {tool.name for tool in call.catalogue if tool.name.startswith("git_")}
    assert names | {"apply_patch"} == set(TEXTS)
