"""Time of cutting 50 MB to 2,000 tokens, and of counting: python bench/truncation.py [MODEL]."""

import resource
import statistics
import sys
import time
from collections.abc import Callable

from toolbox_mcp.server.budget.budget import Budget
from toolbox_mcp.server.budget.tokenizers import tokenizer_for

CUT = 50_000_000
COUNTED = 200_000
BUDGET = 2000
KINDS = {
    "prose": "The quick brown fox jumps over the lazy dog, and nobody was told. ",
    "code": "    def run(self, *args: int) -> None:\n        return self._call(args[0], key='value')\n",
    "spaces": " ",
    "letters": "a",
    "CJK": "東京特許許可局の局長は、今日も忙しい。",
    "emoji": "\U0001f600",
}


def milliseconds(work: Callable[[], object], rounds: int = 5) -> float:
    """Median of some rounds after a warm-up."""
    work()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1000


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "gpt-4o"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    tokenizer = tokenizer_for(model)
    tokenizer.count("load")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{model}: loaded in {(time.perf_counter() - start) * 1000:.0f} ms, +{grown // 1024} MB")
    budget = Budget(BUDGET, tokenizer)
    print(f"{'text':8} {'50 MB to 2,000 tokens, ms':>26} {'count, million characters/s':>28}")
    for name, unit in KINDS.items():
        text = unit * (CUT // len(unit.encode()))
        cut = milliseconds(lambda text=text: budget.fit(text, "start_line=1"))
        part = text[:COUNTED]
        speed = len(part) / 1000 / milliseconds(lambda part=part: tokenizer.count(part))
        print(f"{name:8} {cut:26.1f} {speed:28.1f}")


if __name__ == "__main__":
    main()
