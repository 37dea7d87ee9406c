"""The llmtools profile, field by field against TOOLS.md §9."""

import base64
import json
import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from tests.tables import each_row
from tests.tools.read.test_pdf import written
from toolbox_mcp.server.call.exposure import ExposurePolicy
from toolbox_mcp.server.call.pipeline import Rules
from toolbox_mcp.tools.catalogue import PROFILES, load_tools
from toolbox_mcp.tools.settings import ToolSettings

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TEXT = "one\n  two\nthree\ntwo\nfour\n"

ARGUMENTS = {
    "readfile": {"path": None, "encoding": "text"},
    "writefile": {"path": None, "content": None, "encoding": "text", "overwrite": False, "createParents": False},
    "deletefile": {"path": None, "trashDir": "auto"},
    "searchfiles": {"pattern": None, "root": ".", "maxResults": 100},
    "listdirectory": {"path": ".", "pattern": ...},
    "statpath": {"path": None},
    "mimeforpath": {"path": None},
    "mimeforextension": {"extension": None},
    "readimage": {"path": None, "includeBase64Data": False},
    "readtextrange": {"path": None, "startMatchLines": ..., "endMatchLines": ...},
    "findtext": {
        "path": None, "queryType": "substring", "query": ..., "matchLines": ..., "contextLines": 5, "maxMatches": 10,
    },
    "inserttextlines": {"path": None, "position": "end", "linesToInsert": None, "anchorMatchLines": ...},
    "replacetextlines": {
        "path": None, "matchLines": None, "replaceWithLines": None, "beforeLines": ..., "afterLines": ...,
        "expectedReplacements": 1,
    },
    "deletetextlines": {
        "path": None, "matchLines": None, "beforeLines": ..., "afterLines": ..., "expectedDeletions": 1,
    },
    "shellcommand": {
        "commands": None, "workDir": ..., "env": ..., "shell": "auto", "executeParallel": False, "sessionID": ...,
    },
    "runscript": {"path": None, "args": ..., "env": ..., "workDir": "."},
}  # fmt: skip
"""Each argument with its default; None for one that is required, ... for one that may be absent."""


@pytest.fixture
def call(call):
    call.catalogue = load_tools("llmtools")
    call.rules = Rules()
    return call


@pytest.fixture
def folder(project):
    (project / "a.txt").write_text(TEXT)
    (project / "pic.png").write_bytes(PNG)
    (project / "bin").write_bytes(b"\0\1\2" * 100)
    (project / "sub").mkdir()
    (project / "sub" / "b.py").write_text("needle = 1\n")
    (project / "link").symlink_to("a.txt")
    return project


async def fields(call, name, **arguments):
    """Return the JSON of an answer, which its structured content is, too."""
    result = await call.result(name, arguments)
    assert len(result.content) == 1, result.content
    value = json.loads(result.content[0].text)
    assert result.structured_content == value, name
    return value


async def test_the_sixteen_tools_have_the_arguments_of_the_contract(call):
    client = await call.client()
    listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    assert set(ARGUMENTS) == set(PROFILES["llmtools"]) <= set(listed)
    wrong = []
    for name, wanted in ARGUMENTS.items():
        schema = listed[name]
        given = {
            argument: None if argument in schema.get("required", ()) else about.get("default", ...)
            for argument, about in schema["properties"].items()
        }
        if given != wanted or schema["additionalProperties"] is not False:
            wrong.append((name, given))
    assert wrong == []


async def test_what_is_read_has_the_fields_of_the_contract(call, folder):
    lines = [{"lineNumber": 2, "text": "  two"}, {"lineNumber": 3, "text": "three"}]
    modified = {"sizeBytes", "modTime"}
    table = [
        ("listdirectory", {}, {"entries": ["a.txt", "bin", "link", "pic.png", "sub"]}),
        ("listdirectory", {"pattern": "*.txt"}, {"entries": ["a.txt"]}),
        ("searchfiles", {"pattern": "needle|link"}, {"matchCount": 1, "reachedMaxResults": False, "matches": ["sub/b.py"]}),
        ("searchfiles", {"pattern": "t", "maxResults": 1}, {"matchCount": 1, "reachedMaxResults": True, "matches": ["a.txt"]}),
        ("statpath", {"path": "none"}, {"path": str(folder / "none"), "name": "none", "exists": False, "isDir": False}),
        (
            "mimeforextension", {"extension": "PNG"},
            {
                "extension": "PNG", "normalizedExtension": ".png", "mimeType": "image/png", "baseMIMEType": "image/png",
                "mode": "image", "known": True,
            },
        ),
        (
            "mimeforpath", {"path": "sub/b.py"},
            {
                "path": str(folder / "sub/b.py"), "extension": ".py", "normalizedExtension": ".py",
                "mimeType": "text/x-python; charset=utf-8", "baseMIMEType": "text/x-python", "mode": "text",
                "method": "extension",
            },
        ),
        (
            "readtextrange", {"path": "a.txt", "startMatchLines": ["two", "three"], "endMatchLines": ["four"]},
            {
                "startLine": 2, "endLine": 5, "linesReturned": 4,
                "lines": [*lines, {"lineNumber": 4, "text": "two"}, {"lineNumber": 5, "text": "four"}],
            },
        ),
        (
            "findtext", {"path": "a.txt", "query": "thr", "contextLines": 0},
            {
                "reachedMaxMatches": False, "matchesReturned": 1,
                "matches": [{"matchStartLine": 3, "matchEndLine": 3, "matchedLinesWithContext": [lines[1]]}],
            },
        ),
        (
            "findtext", {"path": "a.txt", "queryType": "regex", "query": "^t[hw]", "contextLines": 0, "maxMatches": 1},
            {
                "reachedMaxMatches": True, "matchesReturned": 1,
                "matches": [{"matchStartLine": 2, "matchEndLine": 2, "matchedLinesWithContext": [lines[0]]}],
            },
        ),
        (
            "findtext", {"path": "a.txt", "queryType": "lineBlock", "matchLines": ["two", " three "], "contextLines": 0},
            {
                "reachedMaxMatches": False, "matchesReturned": 1,
                "matches": [{"matchStartLine": 2, "matchEndLine": 3, "matchedLinesWithContext": lines}],
            },
        ),
    ]  # fmt: skip
    wrong = [
        (name, arguments, got)
        for name, arguments, want in table
        if (got := await fields(call, name, **arguments)) != want
    ]
    assert wrong == []
    image = await fields(call, "readimage", path="pic.png", includeBase64Data=True)
    assert image.keys() - modified == {
        "path", "name", "exists", "isDir", "width", "height", "format", "mimeType", "base64Data",
    }  # fmt: skip
    assert (image["width"], image["height"], image["format"], image["mimeType"]) == (1, 1, "png", "image/png")
    assert base64.b64decode(image["base64Data"]) == PNG
    there = await fields(call, "statpath", path="a.txt")
    assert (there["exists"], there["isDir"], there["sizeBytes"]) == (True, False, len(TEXT))
    assert there["modTime"].endswith("Z")


async def test_a_file_is_read_as_text_or_as_what_it_is(call, folder):
    text = await call.result("readfile", {"path": "a.txt", "encoding": " TEXT "})
    assert (text.content[0].text, text.structured_content) == (TEXT, None)
    picture = await call.result("readfile", {"path": "pic.png", "encoding": "Binary"})
    assert (picture.content[0].mime_type, base64.b64decode(picture.content[0].data)) == ("image/png", PNG)
    other = await call.result("readfile", {"path": "bin", "encoding": "binary"})
    assert base64.b64decode(other.content[0].resource.blob) == (folder / "bin").read_bytes()
    # Beyond the budget of other tools, it comes whole.
    (folder / "long").write_text("x y\n" * 50_000)
    assert await call("readfile", path="long") == "x y\n" * 50_000


async def test_what_is_changed_has_the_fields_of_the_contract(call, folder):
    made = await fields(call, "writefile", path="new/deep/c.txt", content="c\n", createParents=True)
    assert made == {"path": str(folder / "new/deep/c.txt"), "bytesWritten": 2}
    assert stat.S_IMODE((folder / "new/deep/c.txt").stat().st_mode) == 0o600
    table = [
        ("inserttextlines", {"linesToInsert": ["zero"], "position": "start"}, {"insertedAtLine": 1, "insertedLineCount": 1}),
        (
            "inserttextlines", {"linesToInsert": ["x", "y"], "position": "afterAnchor", "anchorMatchLines": ["three"]},
            {"insertedAtLine": 5, "insertedLineCount": 2, "anchorMatchedAtLine": 4},
        ),
        (
            "inserttextlines", {"linesToInsert": ["w"], "position": "beforeAnchor", "anchorMatchLines": ["three"]},
            {"insertedAtLine": 4, "insertedLineCount": 1, "anchorMatchedAtLine": 4},
        ),
        ("inserttextlines", {"linesToInsert": ["end"]}, {"insertedAtLine": 10, "insertedLineCount": 1}),
        (
            "replacetextlines", {"matchLines": ["two"], "replaceWithLines": ["2"], "expectedReplacements": 2},
            {"replacementsMade": 2, "replacedAtLines": [3, 8]},
        ),
        (
            "deletetextlines", {"matchLines": ["2"], "beforeLines": ["one"], "afterLines": ["w"]},
            {"deletionsMade": 1, "deletedAtLines": [3]},
        ),
    ]  # fmt: skip
    wrong = [
        (name, arguments, got)
        for name, arguments, want in table
        if (got := await fields(call, name, path="a.txt", **arguments)) != want
    ]
    assert wrong == []
    assert (folder / "a.txt").read_text() == "zero\none\nw\nthree\nx\ny\n2\nfour\nend\n"
    gone = await fields(call, "deletefile", path="a.txt")
    assert (gone["originalPath"], gone["method"]) == (str(folder / "a.txt"), "rename")
    assert os.path.dirname(gone["trashedPath"]) == str(folder / ".trash")
    await call("undo")
    assert (folder / "a.txt").exists()
    named = await fields(call, "deletefile", path="link", trashDir="sub")
    assert os.path.dirname(named["trashedPath"]) == str(folder / "sub") and not (folder / "link").is_symlink()


async def test_commands_and_scripts_have_the_fields_of_the_contract(call, folder):
    ran = await fields(call, "shellcommand", commands=["echo hi; exit 3", "echo never"], shell="sh", workDir="sub")
    first = ran["results"][0]
    assert len(ran["results"]) == 1 and ran["workDir"] == "sub"
    assert first.keys() == {
        "command", "workDir", "shell", "shellPath", "exitCode", "timedOut", "durationMS", "stdout", "stderr",
        "stdoutTruncated", "stderrTruncated",
    }  # fmt: skip
    assert (first["exitCode"], first["stdout"], first["shell"], first["timedOut"]) == (3, "hi\n", "sh", False)
    again = await fields(
        call, "shellcommand", commands=["exit 1", "pwd"], shell="sh", executeParallel=True, sessionID=ran["sessionID"]
    )
    assert again["sessionID"] == ran["sessionID"]
    assert again["results"][1]["stdout"] == f"{folder / 'sub'}\n"
    assert await call.code("runscript", path="a.txt") == "script_denied"
    gone = await fields(call, "shellcommand", commands=["rm a.txt"], shell="sh")
    assert gone["results"][0]["exitCode"] == 0 and not (folder / "a.txt").exists()
    await call("undo")
    assert (folder / "a.txt").read_text() == TEXT


async def test_a_script_is_run_by_the_interpreter_of_its_extension(call, folder):
    call.settings = ToolSettings(script_interpreters={".sh": "sh"})
    (folder / "s.sh").write_text('echo "$1"; echo err >&2; exit 4\n')
    done = await fields(call, "runscript", path="s.sh", args=["a b"])
    assert isinstance(done.pop("durationMS"), int)
    assert done == {
        "path": str(folder / "s.sh"), "exitCode": 4, "stdout": "a b\n", "stderr": "err\n", "timedOut": False,
        "stdoutTruncated": False, "stderrTruncated": False,
    }  # fmt: skip


@each_row(
    ("name", "arguments", "code"),
    [
        ("readfile", {"path": "../x"}, "path_denied"),
        ("readfile", {"path": "/etc/passwd"}, "path_denied"),
        ("readfile", {"path": "bin"}, "binary_file"),
        ("readfile", {"path": "pic.png"}, "binary_file"),
        ("readfile", {"path": "none"}, "not_a_file"),
        ("readfile", {"path": "a.txt", "encoding": "hex"}, "invalid_args"),
        ("readfile", {"path": "a.txt", "more": 1}, "invalid_args"),
        ("writefile", {"path": "a.txt", "content": "x"}, "exists"),
        ("writefile", {"path": "link", "content": "x", "overwrite": True}, "refused"),
        ("writefile", {"path": "no/x", "content": "x"}, "not_found"),
        ("writefile", {"path": "1/2/3/4/5/6/7/8/9/x", "content": "x", "createParents": True}, "refused"),
        ("writefile", {"path": ".git/config", "content": "x", "createParents": True}, "protected_path"),
        ("writefile", {"path": "../x", "content": "x"}, "path_denied"),
        ("writefile", {"path": "x", "content": "!", "encoding": "binary"}, "invalid_args"),
        ("deletefile", {"path": "sub"}, "is_a_directory"),
        ("deletefile", {"path": "none"}, "not_found"),
        ("deletefile", {"path": "a.txt", "trashDir": "../t"}, "path_denied"),
        ("deletefile", {"path": "a.txt", "trashDir": ".git/t"}, "protected_path"),
        ("searchfiles", {"pattern": "("}, "bad_pattern"),
        ("searchfiles", {"pattern": "x", "root": ".."}, "path_denied"),
        ("listdirectory", {"path": "a.txt"}, "not_a_directory"),
        ("listdirectory", {"path": "/"}, "path_denied"),
        ("statpath", {"path": "../x"}, "path_denied"),
        ("mimeforpath", {"path": "sub"}, "is_a_directory"),
        ("mimeforextension", {"extension": "a/b"}, "invalid_args"),
        ("readimage", {"path": "link"}, "not_a_file"),
        ("readimage", {"path": "sub"}, "is_a_directory"),
        ("readimage", {"path": "a.txt"}, "binary_file"),
        ("readtextrange", {"path": "a.txt", "startMatchLines": ["two"]}, "ambiguous_match"),
        ("readtextrange", {"path": "a.txt", "startMatchLines": ["none"]}, "no_match"),
        ("readtextrange", {"path": "a.txt", "startMatchLines": ["four"], "endMatchLines": ["one"]}, "no_match"),
        ("readtextrange", {"path": "bin"}, "binary_file"),
        ("readtextrange", {"path": "many"}, "too_large"),
        ("findtext", {"path": "a.txt"}, "invalid_args"),
        ("findtext", {"path": "a.txt", "query": "x", "matchLines": ["x"]}, "invalid_args"),
        ("findtext", {"path": "a.txt", "queryType": "lineBlock", "query": "x"}, "invalid_args"),
        ("findtext", {"path": "a.txt", "queryType": "regex", "query": "("}, "bad_pattern"),
        ("findtext", {"path": "many", "query": "a", "maxMatches": 500, "contextLines": 10}, "too_large"),
        ("findtext", {"path": "many", "queryType": "lineBlock", "matchLines": ["a", "a"]}, "ambiguous_match"),
        ("inserttextlines", {"path": "a.txt", "linesToInsert": ["x"], "position": "afterAnchor"}, "invalid_args"),
        ("inserttextlines", {"path": "a.txt", "linesToInsert": ["x"], "anchorMatchLines": ["one"]}, "invalid_args"),
        ("inserttextlines", {"path": "bin", "linesToInsert": ["x"]}, "binary_file"),
        ("replacetextlines", {"path": "a.txt", "matchLines": ["two"], "replaceWithLines": ["x"]}, "ambiguous_match"),
        ("deletetextlines", {"path": "a.txt", "matchLines": ["two"], "beforeLines": ["four"]}, "no_match"),
        ("deletetextlines", {"path": ".git/config", "matchLines": ["x"]}, "protected_path"),
        ("shellcommand", {"commands": ["sudo rm a.txt"]}, "command_denied"),
        ("shellcommand", {"commands": ["true"], "workDir": ".."}, "path_denied"),
        ("shellcommand", {"commands": ["true"], "sessionID": "none"}, "not_found"),
        ("runscript", {"path": "../x.sh"}, "path_denied"),
    ],
)
async def test_refusals(call, folder, name, arguments, code):
    (folder / "many").write_text("a\n" * 5000)
    assert await call.code(name, **arguments) == code


async def test_names_in_a_refusal_are_those_of_the_tool(call, folder):
    failure = await call("replacetextlines", path="a.txt", matchLines=["two"], replaceWithLines=["x"])
    assert "matchLines occurs 2 times" in failure["error"] and "expectedReplacements" in failure["hint"]


async def test_what_changes_or_runs_is_for_the_operator_to_enable(call, folder):
    call.gate = ExposurePolicy()
    client = await call.client()
    listed = {tool.name for tool in (await client.list_tools()).tools} & set(PROFILES["llmtools"])
    gated = {
        "writefile",
        "deletefile",
        "inserttextlines",
        "replacetextlines",
        "deletetextlines",
        "shellcommand",
        "runscript",
    }
    assert listed == set(PROFILES["llmtools"]) - gated
    assert await call.code("writefile", path="x", content="x") == "exec_disabled"


async def test_the_shell_switch_is_needed_beside_the_exec_switch(call, folder):
    call.gate = ExposurePolicy(enable_exec_tools=True)
    assert await call.code("shellcommand", commands=["true"]) == "shell_disabled"
    assert await call.code("runscript", path="a.sh") == "shell_disabled"


async def test_a_pdf_is_read_as_its_text(call, folder):
    (folder / "p.pdf").write_bytes(written("first page", "second page"))
    text = await call("readfile", path="p.pdf")
    assert "first page" in text and "second page" in text and "%PDF" not in text
    blob = (await call.result("readfile", {"path": "p.pdf", "encoding": "binary"})).content[0].resource
    assert (blob.mime_type, base64.b64decode(blob.blob)) == ("application/pdf", (folder / "p.pdf").read_bytes())
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7\nnothing\n")
    assert await call.code("readfile", path="bad.pdf") == "binary_file"


async def test_json_above_256_kib_is_refused_and_text_is_cut(call, folder):
    (folder / "wide").write_text(f"{'x' * 200_000}\n" * 2)
    assert await call.code("readtextrange", path="wide") == "output_limit"
    one = await call.result("findtext", {"path": "wide", "query": "x", "maxMatches": 1, "contextLines": 0})
    assert len(one.structured_content["matches"][0]["matchedLinesWithContext"][0]["text"]) == 200_000
    long = await call.result("readfile", {"path": "wide"})
    assert len(long.content[0].text) < 2**18 and "truncated" in long.meta


async def test_images_of_other_formats_are_no_images_here(call, folder):
    webp = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0"
    (folder / "x.webp").write_bytes(webp)
    (folder / "x.gif").write_bytes(b"GIF89a\x02\0\x03\0\0\0\0;")
    assert await call.code("readimage", path="x.webp") == "binary_file"
    found = await fields(call, "readimage", path="x.gif")
    assert (found["format"], found["mimeType"], found["width"], found["height"]) == ("gif", "image/gif", 2, 3)
    assert "base64Data" not in found


async def test_binary_content_is_written_from_base64(call, folder):
    made = await fields(call, "writefile", path="b", content=" AAEC/w==\n", encoding=" Binary ")
    assert made["bytesWritten"] == 4 and (folder / "b").read_bytes() == b"\0\1\2\xff"
    (folder / "b").chmod(0o644)
    await fields(call, "writefile", path="b", content="x", overwrite=True)
    assert stat.S_IMODE((folder / "b").stat().st_mode) == 0o644
    made = await fields(call, "writefile", path="1/2/3/4/5/6/7/8/x", content="", createParents=True)
    assert made["bytesWritten"] == 0


@pytest.fixture
def elsewhere():
    """Return a folder of another file system."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder).resolve()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system in memory")
async def test_what_is_deleted_to_another_file_system_is_copied(call, folder, elsewhere):
    assert elsewhere.stat().st_dev != folder.stat().st_dev
    call.roots = [folder, elsewhere]
    (folder / "a.txt").chmod(0o640)
    file = await fields(call, "deletefile", path="a.txt", trashDir=str(elsewhere / "trash"))
    assert (file["method"], Path(file["trashedPath"]).read_text()) == ("copyAndRemove", TEXT)
    link = await fields(call, "deletefile", path="link", trashDir=str(elsewhere / "trash"))
    assert (link["method"], os.readlink(link["trashedPath"])) == ("symlinkRehome", "a.txt")
    assert not (folder / "a.txt").exists() and not (folder / "link").is_symlink()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system in memory")
async def test_the_trash_of_the_system_is_taken_inside_a_root_and_on_the_same_file_system(call, folder, elsewhere):
    call.roots = [folder, elsewhere]
    call.settings = ToolSettings(system_trash=elsewhere / "Trash")
    (elsewhere / "b.txt").write_text("b")
    near = await fields(call, "deletefile", path=str(elsewhere / "b.txt"))
    assert (os.path.dirname(near["trashedPath"]), near["method"]) == (str(elsewhere / "Trash" / "files"), "rename")
    far = await fields(call, "deletefile", path="sub/b.py")
    assert (os.path.dirname(far["trashedPath"]), far["method"]) == (str(folder / "sub" / ".trash"), "rename")
