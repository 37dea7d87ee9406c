"""The exchange in README.md is a real one."""

import json
import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def exchange() -> list[tuple[str, str, list[str]]]:
    """Return each call of the exchange: tool, arguments, and the lines shown of its answer."""
    text = README.read_text(encoding="utf-8").partition("## What an agent sees")[2]
    block = re.search(r"(?ms)^```\n(.*?)^```", text)
    assert block
    calls: list[tuple[str, str, list[str]]] = []
    for line in block[1].splitlines():
        if line.startswith("    "):
            calls[-1][2].append(line.strip())
        else:
            tool, _, arguments = line.partition(" ")
            calls.append((tool, arguments, []))
    return calls


async def test_the_exchange_is_a_real_one(call, project):
    (project / "shop.py").write_text("def total(prices):\n    return sum(price)\n")
    (project / "test_shop.py").write_text(
        "import unittest\nfrom shop import total\n\n\nclass Total(unittest.TestCase):\n"
        "    def test_total(self):\n        self.assertEqual(total([1, 2]), 3)\n"
    )
    absent = []
    for tool, arguments, lines in exchange():
        result = await call.result(tool, json.loads(arguments))
        answer = result.content[0].text
        said = json.dumps(json.loads(answer), ensure_ascii=False).replace("\\n", "\n") if result.is_error else answer
        absent += [(tool, line, said) for line in lines if line not in said]
    assert absent == [], json.dumps(absent, indent=1)
    assert (project / "shop.py").read_text().endswith("sum(price)\n")
