import pytest


def numbered(count, **changes):
    return "".join(f"{changes.get(f'l{n}', n)}\n" for n in range(count))


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        ("a\n", "a\n", "identical"),
        ("", "", "identical"),
        ("a\nb\n", "a\nc\n", "  a\n- b\n+ c"),
        ("", "a\n", "+ a"),
        ("a\n", "", "- a"),
        ("a\n", "a", "  a\n\\ no newline at end of b"),
        ("a", "a\n", "  a\n\\ no newline at end of a"),
        ("a\nb", "a\nb\nc", "  a\n  b\n+ c"),
    ],
)
async def test_compares_line_by_line(call, a, b, answer):
    assert await call("diff", a=a, b=b) == answer


async def test_folds_long_equal_runs_of_long_texts(call):
    answer = await call("diff", a=numbered(300), b=numbered(300, l150="x"))
    lines = answer.split("\n")
    assert "  ... (144 unchanged lines)" in lines
    assert lines[lines.index("- 150") + 1] == "+ x"
    assert len(lines) < 20


async def test_shows_short_texts_whole(call):
    assert len((await call("diff", a=numbered(200), b=numbered(200, l150="x"))).split("\n")) == 201


@pytest.mark.parametrize("a", ["x" * (2**20 + 1), "\n" * 20_001])
async def test_a_side_above_the_bounds_is_too_large(call, a):
    assert await call.code("diff", a=a, b="") == "too_large"


async def test_twenty_thousand_lines_that_are_all_alike_are_compared(call):
    answer = await call("diff", a="same\n" * 19_999, b="same\n" * 19_998 + "other\n")
    assert "+ other" in answer


async def test_other_styles_are_patches_and_words(call):
    a, b = numbered(9), numbered(9, l4="four")
    assert await call("diff", a=a, b=b, style="unified") == (
        "--- a\n+++ b\n@@ -2,7 +2,7 @@\n 1\n 2\n 3\n-4\n+four\n 5\n 6\n 7"
    )
    assert await call("diff", a="a b.c\n", b="a x.c d\n", style="words") == "a [-b-]{+x+}.c{+ d+}\n"
    assert await call("diff", a="same", b="same", style="words") == "identical"
    assert await call.code("diff", a="a" * 10_001, b="b", style="words") == "too_large"
    assert await call("diff", a="a\n", b="a", style="unified") == "\\ no newline at end of b"


async def test_a_hundred_thousand_lines_are_refused_and_twenty_thousand_compared(call):
    assert await call.code("diff", a=numbered(100_000), b="x") == "too_large"
    call.tokens = 10_000
    answer = await call("diff", a=numbered(20_000), b=numbered(20_000, l19000="x"))
    assert "- 19000\n+ x" in answer


async def test_control_characters_are_marked(call):
    assert await call("diff", a="\x1b[2J\u202e", b="b") == "- <U+001B>[2J<U+202E>\n+ b"


async def test_two_names_of_files_are_told_to_be_texts(call):
    told = "(the two names were compared, no files)"
    assert (await call("diff", a="src/a.py", b="b.py")).endswith(told)
    assert told not in await call("diff", a="one 1.5", b="two 2.5")
    assert told not in await call("diff", a="1.5", b="2.5")
