import re


async def test_a_day_of_work(call, git):
    """Branch, change, look, stage, commit, look back, go home: as an agent does it, one call after the other."""
    git.commit(
        "first",
        app__main_dot_py="def main():\n    return 1\n",
        app__util_dot_py="def util():\n    return 'a'\n",
        README_dot_md="# App\n",
    )
    assert await call("git_status") == "## main\nclean"
    assert await call("git_checkout", branch="feature/two", create=True) == "Created and switched to feature/two"
    patch = (
        "*** Begin Patch\n*** Update File: app/main.py\n@@ def main():\n-    return 1\n+    return 2\n"
        "*** Update File: app/util.py\n@@\n def util():\n-    return 'a'\n+    return 'b'\n"
        "*** Add File: docs/two.md\n+# Two\n*** End Patch\n"
    )
    rows = "3 file(s) (+3 -2)\nM app/main.py\nM app/util.py\nA docs/two.md"
    assert await call("apply_patch", patch=patch, check=True) == f"Applies cleanly: {rows}"
    assert await call("git_status") == "## feature/two\nclean"
    assert (await call("apply_patch", patch=patch)).startswith(f"Applied to {rows}")
    assert await call("git_status") == "## feature/two\n M app/main.py\n M app/util.py\n?? docs/two.md"
    assert "-    return 1\n+    return 2" in await call("git_diff", path="app/main.py")
    assert await call("git_add", paths=["app/main.py"]) == "Staged:\nM  app/main.py"
    first = await call("git_commit", message="Main returns two")
    assert re.fullmatch(
        r"Committed [0-9a-f]{7} on feature/two: Main returns two\nby toolbox-mcp <toolbox-mcp@localhost>", first
    )
    assert await call("git_add", paths=["."]) == "Staged:\nM  app/util.py\nA  docs/two.md"
    await call("git_commit", message="The rest")
    log = (await call("git_log", ref="main..HEAD")).split("\n")
    assert [row.split("  ", 3)[3] for row in log] == ["The rest", "Main returns two"]
    assert "Main returns two" in await call("git_show", ref="HEAD~1")
    blame = (await call("git_blame", path="app/main.py")).split("\n")
    assert [" (Ann Author " in blame[0], " (toolbox-mcp " in blame[1]] == [True, True]
    assert (await call("git_diff", ref="main...feature/two")).startswith(" app/main.py | 2 +-\n")
    assert await call("git_grep", pattern="return") == "app/main.py:2:     return 2\napp/util.py:2:     return 'b'"
    assert await call("git_checkout", branch="main") == "Switched to main"
    assert (git.folder / "app/main.py").read_text() == "def main():\n    return 1\n"
    assert await call("git_branch") == "  feature/two\n* main"
    git("fsck", "--strict")


async def test_answers_about_much_are_short(call, git):
    git.write("big.txt", "".join(f"line {number}\n" for number in range(40_000)))
    git.commit("big")
    git.write("big.txt", "".join(f"LINE {number}\n" for number in range(40_000)))
    for number in range(2000):
        git.write(f"src/m{number % 50}/f{number}.py", "x\n")
    status = await call("git_status")
    assert len(status) < 4000
    assert "2001 entries" in status
    diff = await call("git_diff")
    assert len(diff) < 12_000
    assert diff.startswith(" big.txt | 80000 ++++")
    assert diff.endswith("... not shown: big.txt; continue with start_line=1, or path shows one file or folder ...")
    page = await call("git_diff", start_line=1)
    assert page.startswith(git("diff")[:1000])
    assert "not shown: the rest of big.txt; continue with start_line=" in page
