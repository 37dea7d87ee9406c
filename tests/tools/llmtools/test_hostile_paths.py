"""Every path argument of the llmtools profile against paths that lead elsewhere, protected places, special and large files."""

import os

import pytest

from toolbox_mcp.server.call.pipeline import Rules
from toolbox_mcp.tools.catalogue import load_tools
from toolbox_mcp.tools.settings import ToolSettings

SECRET = "the secret\n"

PATHS = {
    ("readfile", "path"): {},
    ("writefile", "path"): {"content": "x", "overwrite": True, "createParents": True},
    ("deletefile", "path"): {},
    ("deletefile", "trashDir"): {"path": "a.txt"},
    ("searchfiles", "root"): {"pattern": "secret"},
    ("listdirectory", "path"): {},
    ("statpath", "path"): {},
    ("mimeforpath", "path"): {},
    ("readimage", "path"): {},
    ("readtextrange", "path"): {},
    ("findtext", "path"): {"query": "secret"},
    ("inserttextlines", "path"): {"linesToInsert": ["x"]},
    ("replacetextlines", "path"): {"matchLines": ["the secret"], "replaceWithLines": ["x"]},
    ("deletetextlines", "path"): {"matchLines": ["the secret"]},
    ("shellcommand", "workDir"): {"commands": ["echo x > secret"]},
    ("runscript", "path"): {},
    ("runscript", "workDir"): {"path": "s.sh"},
}
"""Each argument that is a path, with what else its tool needs."""

WRITES = {
    (name, argument): given
    for (name, argument), given in PATHS.items()
    if name in ("writefile", "deletefile", "inserttextlines", "replacetextlines", "deletetextlines")
}

CONTENT = {
    (name, argument): given
    for (name, argument), given in PATHS.items()
    if name in ("readfile", "readimage", "readtextrange", "findtext") or (name, argument) in WRITES
    if argument == "path" and name not in ("writefile", "deletefile")
}


@pytest.fixture
def call(call):
    call.catalogue = load_tools("llmtools")
    call.rules = Rules()
    call.settings = ToolSettings(script_interpreters={".sh": "sh"})
    return call


@pytest.fixture
def outside(project):
    """Return a folder beside the root, whose name begins as that of the root, with links to it from the root."""
    folder = project.parent / "project-of-others"
    folder.mkdir()
    (folder / "secret").write_text(SECRET)
    (project / "a.txt").write_text("one\n")
    (project / "s.sh").write_text("echo x > secret\n")
    (project / "sub").mkdir()
    (project / "out").symlink_to(folder)
    (project / "relative").symlink_to("../project-of-others")
    return folder


async def test_no_path_argument_leads_outside(call, project, outside):
    vectors = [
        "..",
        "../project-of-others/secret",
        "sub/../../project-of-others/secret",
        "./sub/.././../project-of-others",
        str(outside),
        str(outside / "secret"),
        f"{project}/../project-of-others/secret",
        "/etc/passwd",
        "/proc/self/environ",
        "out/secret",
        "relative/secret",
        "a\0b",
        "n" * 256,
        "a/" * 2100 + "b",
    ]
    failed = [
        (name, argument, path[:60], code)
        for (name, argument), given in PATHS.items()
        for path in vectors
        if (code := await call.code(name, **{**given, argument: path})) != "path_denied"
    ]
    assert failed == []
    assert {entry.name: entry.read_text() for entry in outside.iterdir()} == {"secret": SECRET}
    assert sorted(os.listdir(project)) == ["a.txt", "out", "relative", "s.sh", "sub"]


async def test_a_link_is_no_way_out_and_no_destination(call, project, outside):
    (project / "file").symlink_to(outside / "secret")
    (project / "nowhere").symlink_to(outside / "none")
    (project / "inside").symlink_to("a.txt")
    own_entry = {("writefile", "path"): "refused", ("readimage", "path"): "not_a_file", ("deletefile", "path"): None}
    failed = [
        (name, argument, path, code)
        for (name, argument), given in PATHS.items()
        for path in ("file", "nowhere")
        if (name, argument) != ("deletefile", "path")
        if (code := await call.code(name, **{**given, argument: path}))
        != own_entry.get((name, argument), "path_denied")
    ]
    assert failed == []
    assert await call.code("writefile", path="inside", content="x", overwrite=True) == "refused"
    assert await call.code("readimage", path="inside") == "not_a_file"
    assert (project / "a.txt").read_text() == "one\n" and (project / "inside").is_symlink()
    # A link itself may go, and what it leads to stays.
    for link in ("file", "inside"):
        await call("deletefile", path=link)
        assert not (project / link).is_symlink()
    assert (outside / "secret").read_text() == SECRET and (project / "a.txt").exists()
    assert os.listdir(outside) == ["secret"]


async def test_links_inside_are_described_by_what_they_lead_to(call, project, outside):
    (project / "way").symlink_to("sub")
    (project / "one.py").symlink_to("a.txt")
    folder = (await call.result("statpath", {"path": "way"})).structured_content
    assert (folder["exists"], folder["isDir"]) == (True, True)
    assert (await call.result("statpath", {"path": "one.py"})).structured_content["sizeBytes"] == 4
    kind = (await call.result("mimeforpath", {"path": "one.py"})).structured_content
    assert (kind["baseMIMEType"], kind["method"]) == ("text/x-python", "extension")


async def test_protected_places_are_not_written(call, project):
    call.jail = {"protected": ["keys"]}
    for folder in (".git", "keys"):
        (project / folder).mkdir()
        (project / folder / "x").write_text(SECRET)
    (project / "a.txt").write_text("one\n")
    spellings = [".git/x", ".GIT/x", ".git./x", "git~1/x", ".g\u200cit/x", "keys/x"]
    failed = [
        (name, argument, path, code)
        for (name, argument), given in WRITES.items()
        for path in spellings
        if (code := await call.code(name, **{**given, argument: path})) != "protected_path"
    ]
    assert failed == []
    assert sorted(os.listdir(project)) == [".git", "a.txt", "keys"]
    assert {(project / folder / "x").read_text() for folder in (".git", "keys")} == {SECRET}


async def test_special_files_are_refused_at_once(call, project):
    os.mkfifo(project / "fifo")
    failed = [
        (name, code)
        for (name, argument), given in {**CONTENT, ("writefile", "path"): {"content": "x", "overwrite": True}}.items()
        if (code := await call.code(name, **{**given, argument: "fifo"})) != "not_a_file"
    ]
    assert failed == []
    assert await call.code("deletefile", path="fifo") == "not_a_file"
    assert await call.code("listdirectory", path="fifo") == "not_a_directory"


async def test_a_file_is_taken_up_to_16_mib(call, project):
    with (project / "above").open("wb") as file:
        file.truncate(2**24 + 1)
    failed = [
        (name, code)
        for (name, argument), given in CONTENT.items()
        if (code := await call.code(name, **{**given, argument: "above"})) != "too_large"
    ]
    assert failed == []
    assert (
        await call.code("writefile", path="big", content="eA==" * (2**22 * 3 // 2), encoding="binary") == "invalid_args"
    )
    assert await call.code("writefile", path="big", content="x" * (2**24 + 1)) == "too_large"
    (project / "within").write_text("line\n" * (3 * 2**20))
    result = await call.result("inserttextlines", {"path": "within", "linesToInsert": ["x"], "position": "start"})
    assert result.structured_content == {"insertedAtLine": 1, "insertedLineCount": 1}
    assert (project / "within").stat().st_size == 15 * 2**20 + 2
    assert await call.code("inserttextlines", path="within", linesToInsert=["x" * 2**20] * 2) == "too_large"


async def test_line_tools_take_text_alone(call, project):
    kinds = {
        "nul": b"a\0b\n",
        "utf16": "one\n".encode("utf-16"),
        "latin": b"caf\xe9\n",
        "control": b"\x01\x02" + b"a" * 10,
    }
    for name, data in kinds.items():
        (project / name).write_bytes(data)
    lines = {key: given for key, given in CONTENT.items() if key[0] != "readimage"}
    failed = [
        (name, kind, code)
        for (name, argument), given in lines.items()
        for kind in kinds
        if (code := await call.code(name, **{**given, argument: kind})) != "binary_file"
    ]
    assert failed == []
    assert {name: (project / name).read_bytes() for name in kinds} == kinds
    # One control byte in ten is text.
    (project / "few").write_bytes(b"\x01" + b"a" * 9)
    assert await call("readfile", path="few") == "\x01aaaaaaaaa"


async def test_bom_and_line_ends_stay_as_they_are(call, project):
    (project / "bom").write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    read = (await call.result("readtextrange", {"path": "bom"})).structured_content
    assert read["lines"] == [{"lineNumber": 1, "text": "one"}, {"lineNumber": 2, "text": "two"}]
    await call("replacetextlines", path="bom", matchLines=["one"], replaceWithLines=["1", "1b"])
    await call("inserttextlines", path="bom", linesToInsert=["end"])
    assert (project / "bom").read_bytes() == b"\xef\xbb\xbf1\r\n1b\r\ntwo\r\nend"


async def test_an_answer_of_findtext_has_at_most_4000_lines(call, project):
    (project / "many").write_text("".join(f"{'hit' if n in (0, 2) else 'line'} {n}\n" for n in range(5000)))
    most = (await call.result("findtext", {"path": "many", "query": "hit", "contextLines": 1998})).structured_content
    assert sum(len(match["matchedLinesWithContext"]) for match in most["matches"]) == 4000
    assert await call.code("findtext", path="many", query="hit", contextLines=1999) == "too_large"


async def test_an_answer_of_readtextrange_has_at_most_2000_lines(call, project):
    (project / "many").write_text("".join(f"{n}\n" for n in range(5000)))
    fits = await call.result("readtextrange", {"path": "many", "startMatchLines": ["1"], "endMatchLines": ["2000"]})
    assert fits.structured_content["linesReturned"] == 2000
    assert await call.code("readtextrange", path="many", startMatchLines=["0"], endMatchLines=["2000"]) == "too_large"


async def test_blocks_that_overlap_are_ambiguous_and_change_nothing(call, project):
    text = "a\na\na\n"
    (project / "a.txt").write_text(text)
    block = ["a", " a "]
    table = [
        ("findtext", {"queryType": "lineBlock", "matchLines": block}),
        ("replacetextlines", {"matchLines": block, "replaceWithLines": ["b"], "expectedReplacements": 2}),
        ("deletetextlines", {"matchLines": block, "expectedDeletions": 2}),
        ("inserttextlines", {"linesToInsert": ["b"], "position": "afterAnchor", "anchorMatchLines": block}),
        ("readtextrange", {"startMatchLines": block}),
    ]
    failed = [
        (name, code)
        for name, given in table
        if (code := await call.code(name, path="a.txt", **given)) != "ambiguous_match"
    ]
    assert failed == []
    assert (project / "a.txt").read_text() == text


async def test_files_too_large_to_search_hide_no_others(call, project):
    for number in range(30):
        (project / f"a{number:02}").write_text("needle\n" + "x" * 2**20)
    (project / "z").write_text("needle\n")
    found = (await call.result("searchfiles", {"pattern": "needle", "maxResults": 1})).structured_content
    assert found == {"matchCount": 1, "reachedMaxResults": True, "matches": ["z"]}


async def test_a_search_stays_out_of_links_and_binary_files(call, project, outside):
    (project / "bin").write_bytes(b"secret\0")
    (project / ".hidden").write_text("secret")
    (project / ".git").mkdir()
    (project / ".git" / "x").write_text(SECRET)
    found = (await call.result("searchfiles", {"pattern": "the secret|^.hidden$"})).structured_content
    assert found["matches"] == [".hidden"]
    failure = await call("searchfiles", pattern="(")
    assert "match=" not in failure["hint"]


async def test_a_glob_of_listdirectory_is_a_glob(call, project):
    for name in ("a.py", "b.py", ".c.py", "d.txt"):
        (project / name).touch()
    table = {
        "*.py": [".c.py", "a.py", "b.py"],
        "[^a]*.py": [".c.py", "b.py"],
        "?.py": ["a.py", "b.py"],
        "a.{py,txt}": ["a.py"],
        "none": [],
    }
    got = {
        pattern: (await call.result("listdirectory", {"pattern": pattern})).structured_content["entries"]
        for pattern in table
    }
    assert got == table
    assert await call.code("listdirectory", pattern="[") == "bad_pattern"


async def test_how_a_command_ended_is_in_its_exit_code(call, project):
    call.settings = ToolSettings(shell_timeout=1)
    table = {"exit 7": (7, False), "kill -9 $$": (137, False), "no-such-program-here": (127, False)}
    given = {"commands": [*table, "sleep 60"], "shell": "sh", "executeParallel": True}
    results = (await call.result("shellcommand", given)).structured_content["results"]
    got = {one["command"]: (one["exitCode"], one["timedOut"]) for one in results}
    assert got == {**table, "sleep 60": (124, True)}
