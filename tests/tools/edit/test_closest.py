from types import SimpleNamespace

import pytest

from toolbox_mcp.sandbox.isolate.worker import WorkerTimeout
from toolbox_mcp.tools.edit import _missing as missing
from toolbox_mcp.tools.edit._closest import DIFF_LINES, SEARCH_TIME, find_closest
from toolbox_mcp.tools.edit._replace import NoMatch

CART = """\
class Cart:
    def __init__(self):
        self.items = []

    def add(self, item, count=1):
        # each by itself
        for _ in range(count):
            self.items.append(item)
        return self

    def total(self):
        return sum(i.price for i in self.items)
"""


@pytest.mark.parametrize(
    ("old", "first", "last", "diff"),
    [
        (  # a line that the file has more
            "    def add(self, item, count=1):\n        for _ in range(count):\n            self.items.append(item)\n        return self",
            5, 9,
            "    def add(self, item, count=1):\n{+        # each by itself+}\n        for _ in range(count):\n            self.items.append(item)\n        return self",
        ),
        (  # a line that it has less, and one that differs
            "        self.items = []\n        self.sum = 0\n\n    def add(self, items, count=1):",
            3, 5,
            "        self.items = []\n[-        self.sum = 0-]\n\n    def add(self, item[-s-], count=1):",
        ),
        (  # both at one place: the similar lines are paired
            "        log(item)\n        for i in range(count):\n            self.items.append(item)\n",
            6, 8,
            "[-        log(item)-]{+        # each by itself+}\n        for [-i-]{+_+} in range(count):\n            self.items.append(item)",
        ),
        (  # white space on every line
            "def total(self):\n    return sum(i.price for i in self.items)",
            11, 12,
            "{+    +}def total(self):\n{+    +}    return sum(i.price for i in self.items)",
        ),
        (  # long runs of equal lines
            CART.replace("items = []", "items = {}").replace("def total", "def totals"),
            1, 12,
            "class Cart:\n    def __init__(self):\n        self.items = [-{}-]{+[]+}\n\n    def add(self, item, count=1):\n... (3 equal lines)\n        return self\n\n    def total[-s-](self):\n        return sum(i.price for i in self.items)",
        ),
    ],
)  # fmt: skip
def test_lines_are_paired_with_those_they_became(old, first, last, diff):
    found = find_closest(CART, old, SEARCH_TIME)
    assert found is not None
    assert (*found[:2], found[3]) == (first, last, diff)


def test_lines_with_nothing_in_common_stand_for_each_other():
    found = find_closest("alpha beta\n", "beta alpha gamma", SEARCH_TIME)
    assert found is not None and found[:2] == (1, 1)


def test_a_long_text_with_one_difference_is_found():
    text = "".join(f"    check(number_{n}, {n * n % 97}, name='the {n}th of many')\n" for n in range(3000))
    lines = text.splitlines()[2000:2400]
    lines[200] = lines[200].replace("many", "mary")
    found = find_closest(text, "\n".join(lines), SEARCH_TIME)
    assert found is not None
    assert found[:2] == (2001, 2400) and 0.99 <= found[2] <= 1
    assert found[3].split("\n")[0] == "... (198 equal lines)"
    assert "of ma[-r-]{+n+}y" in found[3]


def test_a_difference_is_shown_on_forty_lines_at_most():
    text = "".join(f"line number {n} of many\n" for n in range(100))
    found = find_closest(text, text.replace("number", "numbr"), SEARCH_TIME)
    assert found is not None
    rows = found[3].split("\n")
    assert len(rows) == DIFF_LINES == 40
    assert rows[0] == "line numb{+e+}r 0 of many" and rows[-1] == "... (61 more lines)"


@pytest.mark.parametrize("taken", [0.1, 0.8, 1.0])
async def test_all_that_a_miss_looks_for_takes_no_longer_than_the_search_may(monkeypatch, taken):
    now = 0.0

    async def call(work, *arguments, deadline):
        nonlocal now
        now += deadline * (taken if work is missing.explain_mismatch else 1)
        raise WorkerTimeout

    monkeypatch.setattr(missing, "time", SimpleNamespace(monotonic=lambda: now))
    refused = await missing.no_match(SimpleNamespace(shown="f"), NoMatch("text", "wanted"), SimpleNamespace(call=call))
    assert refused.error == "old_string is nowhere in f"
    assert now <= SEARCH_TIME
