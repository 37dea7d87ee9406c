import pytest

from toolbox_mcp.safety.path_jail.windows import windows_refusal


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("C:x", "a path relative to a drive"),
        ("c:", "a path relative to a drive"),
        ("C:..\\x", "a path relative to a drive"),
        ("\\x", "a path relative to a drive"),
        ("/x", "a path relative to a drive"),
        ("\\\\server\\share\\x", "a network or device path"),
        ("//server/share/x", "a network or device path"),
        ("\\/server\\x", "a network or device path"),
        ("\\\\?\\C:\\x", "a network or device path"),
        ("\\\\.\\pipe\\x", "a network or device path"),
        ("//?/UNC/server/x", "a network or device path"),
        ("NUL", "a device name"),
        ("con", "a device name"),
        ("a\\Aux.txt", "a device name"),
        ("a/com1.tar.gz", "a device name"),
        ("lpt9", "a device name"),
        ("COM¹", "a device name"),
        ("CONIN$", "a device name"),
        ("nul .txt", "a device name"),
        ("NUL/x", "a device name"),
        ("C:\\a\\PRN", "a device name"),
        ("a.txt:stream", "an alternate stream"),
        ("ab::$DATA", "an alternate stream"),
        (".git::$INDEX_ALLOCATION/config", "an alternate stream"),
        ("C:\\a:b", "an alternate stream"),
        ("a.", "a name with a dot or space at its end"),
        ("a ", "a name with a dot or space at its end"),
        ("a. ./b", "a name with a dot or space at its end"),
        (".git./config", "a name with a dot or space at its end"),
        ("...", "a name with a dot or space at its end"),
        ("a*b", "a character that file names cannot have"),
        ("a|b", "a character that file names cannot have"),
        ('a"', "a character that file names cannot have"),
        ("a\x1f", "a character that file names cannot have"),
    ],
)
def test_refuses_names_that_mean_something_else(path, why):
    assert windows_refusal(path) == why


PLAIN = (
    ". .. a a/b a\\b ..\\a ./a C:\\a\\b c:/a .gitignore console nullable.txt com com10 auxiliary lpt ü a.b.c a//b a/"
)


@pytest.mark.parametrize("path", ["a b", *PLAIN.split()])
def test_lets_plain_names_pass(path):
    assert windows_refusal(path) is None
