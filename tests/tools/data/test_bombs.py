"""What is made to hang or fill a parser: each gets its code soon, and the server answers meanwhile."""

import json
import time

import anyio
import pytest

from tests.patience import patience

pytestmark = pytest.mark.attack

SECONDS = 2.0
LAUGHS = "\n".join(
    [f"a0: &a0 [{', '.join(['lol'] * 10)}]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))]
)
MERGES = "\n".join(["m0: &m0 {k: v}", *(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}], k{n}: v}}" for n in range(1, 45))])
ALL = "".join(f"k{n}: {{a: {n}, b: [1, 2]}}\n" for n in range(60_000))

BOMBS = {
    "aliases of aliases": ("yaml_query", {"yaml": LAUGHS}, "output_limit"),
    "aliases of aliases, queried": ("yaml_query", {"yaml": LAUGHS, "query": "a9" + "[]" * 9 + ".x"}, "bad_query"),
    "aliases of aliases, each element": ("yaml_query", {"yaml": LAUGHS, "query": "a9" + "[]" * 9}, "output_limit"),
    "merges of merges": ("yaml_query", {"yaml": MERGES}, None),
    "merges of merges, many": ("yaml_query", {"yaml": MERGES.replace("45", "60") * 2}, "bad_yaml"),
    "more aliases than allowed": ("yaml_query", {"yaml": "a: &a 1\nb: [" + "*a, " * 101 + "]"}, "bad_yaml"),
    "an alias of what it is in": ("yaml_query", {"yaml": "&a [*a, *a]"}, "bad_yaml"),
    "YAML sequences nested deeply": ("yaml_query", {"yaml": "[" * 200_000}, "bad_yaml"),
    "YAML mappings nested deeply": ("yaml_query", {"yaml": "{a: " * 100_000}, "bad_yaml"),
    "YAML blocks nested deeply": ("yaml_query", {"yaml": "\n".join(" " * n + "a:" for n in range(700))}, "bad_yaml"),
    "YAML dashes nested deeply": ("yaml_query", {"yaml": "- " * 100_000}, "bad_yaml"),
    "YAML keys nested deeply": ("yaml_query", {"yaml": "? " * 50_000}, "bad_yaml"),
    "a number to base 60": ("yaml_query", {"yaml": "a: 1" + ":59" * 50_000, "query": "a"}, None),
    "a YAML number of many digits": ("yaml_query", {"yaml": "a: " + "9" * 1_000_000}, "bad_yaml"),
    "a YAML number to base 16 of many digits": ("yaml_query", {"yaml": "a: 0x" + "f" * 1_000_000}, "bad_yaml"),
    "a YAML tag": ("yaml_query", {"yaml": "!!python/object/apply:os.system [id]"}, "bad_yaml"),
    "a YAML key that is a list": ("yaml_query", {"yaml": "? [1, 2]\n: 3"}, "bad_yaml"),
    "YAML anchors without number": ("yaml_query", {"yaml": "".join(f"- &a{n} {n}\n" for n in range(30_000))}, None),
    "YAML directives": ("yaml_query", {"yaml": "%TAG !e! tag:x,2000:\n" * 20_000 + "--- a"}, "bad_yaml"),
    "YAML of a megabyte and a half": ("yaml_query", {"yaml": ALL, "query": "k59999.b[1]"}, None),
    "YAML of many documents": ("yaml_query", {"yaml": "---\na: 1\n" * 100_000, "document": 100_001}, "invalid_args"),
    "one long YAML text": ("yaml_query", {"yaml": "a: " + "x " * 1_000_000, "query": "b"}, None),
    "quotes without end": ("yaml_query", {"yaml": 'a: "' + "x" * 1_000_000}, "bad_yaml"),
    "large text by aliases": ("yaml_query", {"yaml": f"a: &a {'x' * 1_000_000}\nb: [{'*a, ' * 99}]"}, "output_limit"),
    "JSON arrays nested deeply": ("json_query", {"json": "[" * 1_000_000}, "bad_json"),
    "JSON objects nested deeply": ("json_query", {"json": '{"a":' * 500_000}, "bad_json"),
    "a JSON number of many digits": ("json_query", {"json": "9" * 2_000_000}, "bad_json"),
    "a JSON fraction of many digits": ("json_query", {"json": "0." + "9" * 2_000_000}, "bad_json"),
    "a JSON exponent": ("json_query", {"json": "1e999999999"}, "bad_json"),
    "JSON numbers of many digits in texts": ("json_query", {"json": json.dumps({"a": "9" * 9999})}, None),
    "a lone surrogate": ("json_query", {"json": '["\\ud800"]'}, None),
    "NaN": ("json_query", {"json": "[NaN]"}, "bad_json"),
    "backslashes": ("json_query", {"json": '"' + "\\" * 2_000_001}, "bad_json"),
    "the last of many numbers is NaN": ("json_query", {"json": "[" + '"NaN", ' * 100_000 + "NaN]"}, "bad_json"),
    "a query of many steps": ("json_query", {"json": "1", "query": "a." * 100_000}, "bad_query"),
    "TOML keys of many parts": ("toml_query", {"toml": ".".join("a" * 20_000) + " = 1"}, "bad_toml"),
    "TOML tables of many parts": ("toml_query", {"toml": "[" + ".".join("a" * 20_000) + "]"}, "bad_toml"),
    "TOML keys of many parts, many times": (
        "toml_query", {"toml": "\n".join(".".join("a" * 3000) + f".k{n} = 1" for n in range(60))}, "bad_toml",
    ),
    "TOML keys of many parts in a large document": (
        "toml_query", {"toml": "#" + "x" * 300_000 + "\n" + ".".join("a" * 60_000) + " = 1"}, "bad_toml",
    ),
    "TOML arrays nested deeply": ("toml_query", {"toml": "a = " + "[" * 100_000}, "bad_toml"),
    "TOML tables nested deeply": ("toml_query", {"toml": "a = " + "{a = " * 50_000}, "bad_toml"),
    "a TOML number of many digits": ("toml_query", {"toml": "a = " + "9" * 100_000}, "bad_toml"),
    "a bad date": ("toml_query", {"toml": "a = 2001-02-30"}, "bad_toml"),
    "a tower of powers": ("calculator", {"expression": "9**9**9**9**9"}, "bad_expression"),
    "powers of powers": ("calculator", {"expression": "(((9**99)**99)**99)**99"}, "bad_expression"),
    "products of powers": ("calculator", {"expression": "*".join(["2**4000"] * 100)}, "bad_expression"),
    "a large fraction": ("calculator", {"expression": "1e308*1e308"}, "bad_expression"),
    "parentheses nested deeply": ("calculator", {"expression": "(" * 499 + ")" * 499}, "bad_expression"),
    "round to many digits": ("calculator", {"expression": "round(1.5, 10**9)"}, "bad_expression"),
    "texts of similar lines": (
        "diff", {"a": "".join(f"{n % 7} x\n" for n in range(20_000)), "b": "".join(f"{n % 11} x\n" for n in range(20_000))},
        None,
    ),
    "texts of unlike lines": (
        "diff", {"a": "".join(f"a{n}\n" for n in range(20_000)), "b": "".join(f"b{n}\n" for n in range(20_000))}, None,
    ),
    "texts of few different lines, word by word": (
        "diff", {"a": "a b " * 2500, "b": "b a c " * 1600, "style": "words"}, "too_large",
    ),
    "a long format": ("date_time", {"format": "%c" * 101}, "invalid_args"),
    "a wide format": ("date_time", {"format": "%999999999d"}, None),
    "a far moment": ("date_time", {"timestamp": 1e300}, "bad_timestamp"),
}  # fmt: skip

FILES = {
    "a cell of megabytes": ("csv_read", "a\n" + "x" * 3_000_000, "bad_csv"),
    "a quote of megabytes": ("csv_read", '"' + "x\n" * 1_500_000, "bad_csv"),
    "cells without end": ("csv_read", "," * 3_000_000, None),
    "one line of empty cells each": ("csv_read", ("," * 1000 + "\n") * 3000, None),
    "quotes by the million": ("csv_read", '"' * 3_000_001, "bad_csv"),
    "equal names of columns": ("csv_read", ",".join("a" * 100_000) + "\n1\n", None),
    "Ruby nested deeply": ("parse_ruby", "(" * 500_000, "parse_error"),
    "Ruby classes nested deeply": ("parse_ruby", "class A\n" * 20_000, None),
    "Ruby texts without end": ("parse_ruby", '"#{' * 100_000, "parse_error"),
    "Ruby here documents without end": ("parse_ruby", "<<A\n" * 50_000, None),
    "Ruby operators": ("parse_ruby", "a = " * 200_000, "parse_error"),
    "Ruby names without end": ("parse_ruby", "def " + "x" * 3_000_000, None),
    "Ruby definitions by the ten thousand": ("parse_ruby", "def m; end\n" * 20_000, None),
}


async def _timed(call, tool, arguments):
    pings: list[float] = []
    answer = None
    client = await call.client()

    async def ping():
        while answer is None:
            before = time.monotonic()
            await client.list_tools()
            pings.append(time.monotonic() - before)
            await anyio.sleep(0.05)

    async with anyio.create_task_group() as group:
        group.start_soon(ping)
        before = time.monotonic()
        answer = await call(tool, **arguments)
        seconds = time.monotonic() - before
    return answer, seconds, max(pings, default=0.0)


async def test_each_bomb_gets_its_code_soon_and_the_server_answers_meanwhile(call, project):
    table = dict(BOMBS)
    for number, (name, (tool, text, code)) in enumerate(FILES.items()):
        (project / f"{number}.txt").write_text(text)
        table[name] = (tool, {"path": f"{number}.txt"}, code)
    # The worker starts with the first call that wants it.
    await call("yaml_query", yaml="a: 1")
    failed = []
    for name, (tool, arguments, code) in table.items():
        answer, seconds, ping = await _timed(call, tool, arguments)
        found = answer["code"] if isinstance(answer, dict) else None
        if found != code or seconds > patience(SECONDS) or ping > patience(0.5):
            failed.append((name, found, round(seconds, 2), round(ping, 2), str(answer)[:120]))
    assert failed == [], "\n".join(map(str, failed))
