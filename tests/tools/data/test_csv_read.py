import tracemalloc

import pytest

from tests.tables import each_row


@each_row(
    ("text", "arguments", "answer"),
    [
        ("a,b\n1,2\n", {}, "--- row 1 ---\na: 1\nb: 2"),
        ("a,b\r\n1,2\r\n", {}, "--- row 1 ---\na: 1\nb: 2"),
        ("\ufeffa,b\n1,2", {}, "--- row 1 ---\na: 1\nb: 2"),
        ("a,b\n1,2\n", {"headers": False}, "--- row 1 ---\n1: a\n2: b\n--- row 2 ---\n1: 1\n2: 2"),
        ('a\n"x, ""y""\nz"\n', {}, '--- row 1 ---\na: x, "y"\nz'),
        ("a,a,,a\n1,2,3,4\n", {}, "--- row 1 ---\na: 1\na (2): 2\ncolumn 3: 3\na (3): 4"),
        ("a,b\n1\n\n1,2,3\n", {}, "--- row 1 ---\na: 1\nb: \n--- row 2 ---\na: 1\nb: 2\ncolumn 3: 3\n... (ragged: rows 1, 2)"),
        ("a\n1\n2\n3\n", {"limit": 2}, "--- row 1 ---\na: 1\n--- row 2 ---\na: 2\n... (first 2 rows shown)"),
        ("a\n1\n2\n3\n", {"limit": 1, "offset": 1}, "--- row 2 ---\na: 2\n... (rows 2 to 2 shown)"),
        ("a\n1\n2\n3\n", {"offset": 2}, "--- row 3 ---\na: 3"),
        ("a\n1\n", {"offset": 5}, "(no rows behind the first 5)"),
        ("a\n1\n", {"limit": 0}, "--- row 1 ---\na: 1"),
        ("a\n1\n", {"limit": -3}, "--- row 1 ---\na: 1"),
        ("a,b,c\n1,2,3\n", {"columns": ["c", "a"]}, "--- row 1 ---\nc: 3\na: 1"),
        ("1,2,3\n", {"columns": ["3"], "headers": False}, "--- row 1 ---\n3: 3"),
        ("a;b\n1,5;2\n", {}, "--- row 1 ---\na: 1,5\nb: 2"),
        ("a\tb\n1\t2\n", {}, "--- row 1 ---\na: 1\nb: 2"),
        ("a|b\n1|2\n", {}, "--- row 1 ---\na: 1\nb: 2"),
        ("a;b\n1;2\n", {"delimiter": ","}, "--- row 1 ---\na;b: 1;2"),
        ("", {}, "empty CSV"),
        ("\n\n", {}, "empty CSV"),
        ("a,b\n", {}, "(no rows; the columns are a, b)"),
        ("a,b\r1,2\r", {}, "--- row 1 ---\na: 1\nb: 2"),
        ("a\n\x1b[2J\u202e\n", {}, "--- row 1 ---\na: <U+001B>[2J<U+202E>"),
    ],
)  # fmt: skip
async def test_rows_come_with_the_names_of_their_columns(call, project, text, arguments, answer):
    (project / "a.csv").write_bytes(text.encode())
    assert await call("csv_read", path="a.csv", **arguments) == answer


@pytest.mark.parametrize(
    ("data", "arguments", "answer"),
    [
        ("n\nä\n".encode("utf-16"), {}, "--- row 1 ---\nn: ä"),
        ("n\nä\n".encode("utf-16-le"), {"encoding": "utf-16-le"}, "--- row 1 ---\nn: ä"),
        ("n\nä\n".encode("cp1252"), {}, "(not UTF-8, read as cp1252; encoding chooses another)\n--- row 1 ---\nn: ä"),
        ("n\nд\n".encode("cp1251"), {"encoding": "windows-1251"}, "--- row 1 ---\nn: д"),
        ("n\n日\n".encode("shift_jis"), {"encoding": "shift_jis"}, "--- row 1 ---\nn: 日"),
    ],
)
async def test_the_encoding_is_seen_or_given(call, project, data, arguments, answer):
    (project / "a.csv").write_bytes(data)
    assert await call("csv_read", path="a.csv", **arguments) == answer


async def test_what_is_no_csv_is_refused(call, project):
    files = {
        "quote.csv": b'a,b\n1,"2\n3,4\n', "cell.csv": b"a\n" + b"x" * 131_073 + b"\n", "nul.csv": b"a\0b\n",
        "quoted.csv": b'a\n"' + b"x\n" * 70_000 + b'"\n', "big.csv": b"a\n" * (5 * 2**20 + 1), "ok.csv": b"a\n1\n",
        "endless.csv": b"x" * 2_000_000,
    }  # fmt: skip
    for name, data in files.items():
        (project / name).write_bytes(data)
    table = {
        "quote.csv": ("bad_csv", "the row at line 2 has a quote that is never closed"),
        "cell.csv": ("bad_csv", "the row at line 2: field larger than field limit (131072)"),
        "quoted.csv": ("bad_csv", "the row at line 2: field larger than field limit (131072)"),
        "endless.csv": ("bad_csv", "the row at line 1: field larger than field limit (131072)"),
        "nul.csv": ("binary_file", "nul.csv is not a text file"),
        "big.csv": ("too_large", "big.csv is above 10 MiB"),
        "none.csv": ("not_a_file", "there is no file none.csv"),
    }
    failed = []
    for path, (code, error) in table.items():
        answer = await call("csv_read", path=path)
        if not isinstance(answer, dict) or answer["code"] != code or not answer["error"].startswith(error[:20]):
            failed.append((path, answer))
    arguments = [
        {"columns": ["zz"]}, {"columns": ["x"], "headers": False}, {"encoding": "zip"}, {"encoding": "nope\0"},
        {"delimiter": ",,"}, {"delimiter": '"'}, {"delimiter": "\n"}, {"delimiter": "\0"}, {"offset": -1},
    ]  # fmt: skip
    failed += [given for given in arguments if await call.code("csv_read", path="ok.csv", **given) != "invalid_args"]
    assert failed == []
    assert await call.code("csv_read", path="ok.csv", encoding="utf-16") == "bad_csv"


async def test_the_marker_of_a_cut_names_the_row_to_go_on_at(call, project):
    (project / "a.csv").write_text("n,text\n" + "".join(f"{n},{'word ' * 40}\n" for n in range(1, 90)))
    answer = await call("csv_read", path="a.csv")
    marker = next(line for line in answer.split("\n") if "tokens cut" in line)
    offset = int(marker.split("offset=")[1].split("]")[0])
    assert f"--- row {offset} ---" in answer.split(marker)[0]
    assert (await call("csv_read", path="a.csv", offset=offset, limit=1)).startswith(f"--- row {offset + 1} ---")


@pytest.mark.slow
async def test_a_million_rows_take_no_more_memory_than_a_thousand(call, project):
    async def peak(path):
        await call("csv_read", path=path, offset=900)
        tracemalloc.start()
        try:
            await call("csv_read", path=path, offset=900 if path == "few.csv" else 999_900)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    (project / "few.csv").write_text("a,b\n" + "1,22345\n" * 1000)
    (project / "many.csv").write_text("a,b\n" + "1,22345\n" * 1_000_000)
    assert await peak("many.csv") < await peak("few.csv") + 2**20
